package koupsandbox.module;

import java.nio.file.Files;
import java.nio.file.Path;

/** A module that starts for as long as the file of its first argument is missing. */
public class Waiting {
    public static void main(String[] args) throws InterruptedException {
        while (args.length > 0 && !Files.exists(Path.of(args[0]))) {
            Thread.sleep(20);
        }
    }
}
