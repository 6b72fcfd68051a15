package koupsandbox.base;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** The smallest base: a Spring Boot web application with Koupleless in it. */
@SpringBootApplication
public class Base {
    public static void main(String[] args) {
        SpringApplication base = new SpringApplication(Base.class);
        // A moment when the ark container runs and the web server does not yet.
        base.addInitializers(context -> context.addBeanFactoryPostProcessor(beans -> SharedServers.publish()));
        base.run(args);
    }
}
