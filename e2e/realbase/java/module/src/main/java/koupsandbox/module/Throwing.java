package koupsandbox.module;

/** A module whose main throws. */
public class Throwing {
    public static void main(String[] args) {
        throw new IllegalArgumentException("the module's own reason");
    }
}
