package koupsandbox.module;

/** A module whose main throws. With an argument it does so when the file of that name is there. */
public class Throwing {
    public static void main(String[] args) throws InterruptedException {
        Plain.await(args);
        throw new IllegalArgumentException("the module's own reason");
    }
}
