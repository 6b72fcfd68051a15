package koupsandbox.module;

import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** The module: a web application under /shop that says its version. */
@SpringBootApplication
@RestController
public class Shop {
    @Value("${shop.version}")
    private String version;

    public static void main(String[] args) {
        SpringApplication.run(Shop.class, args);
    }

    @GetMapping("/version")
    public String version() {
        return version;
    }
}
