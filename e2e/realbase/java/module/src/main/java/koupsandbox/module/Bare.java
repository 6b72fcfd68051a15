package koupsandbox.module;

/** A module without Spring. */
public class Bare {
    public static void main(String[] args) {
    }
}
