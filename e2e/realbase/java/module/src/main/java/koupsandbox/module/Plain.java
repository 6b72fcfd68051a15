package koupsandbox.module;

import java.nio.file.Files;
import java.nio.file.Path;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;

/** A module that serves nothing. With an argument it starts when the file of that name is there. */
@EnableAutoConfiguration
public class Plain {
    public static void main(String[] args) throws InterruptedException {
        await(args);
        SpringApplication module = new SpringApplication(Plain.class);
        module.setWebApplicationType(WebApplicationType.NONE);
        module.run();
    }

    static void await(String[] args) throws InterruptedException {
        while (args.length > 0 && !Files.exists(Path.of(args[0]))) {
            Thread.sleep(20);
        }
    }
}
