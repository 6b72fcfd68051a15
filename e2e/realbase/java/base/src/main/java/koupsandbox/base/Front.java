package koupsandbox.base;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

import com.alipay.sofa.ark.api.ArkClient;
import com.alipay.sofa.ark.spi.model.Biz;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;

/**
 * Passes requests for a module on to the web endpoint of the version that is active. That is a request to this very
 * server, so no thread of it waits for the answer: many at once would leave none to give one.
 */
@RestController
public class Front {
    /** Less than Tomcat gives an asynchronous request, which is 30 s. */
    private static final Duration TIMEOUT = Duration.ofSeconds(20);

    private final HttpClient http = HttpClient.newBuilder().connectTimeout(TIMEOUT).build();

    @Value("${server.port}")
    private int port;

    @GetMapping("/front/{module}/{page}")
    public CompletableFuture<ResponseEntity<String>> pass(@PathVariable("module") String module, @PathVariable("page") String page) {
        Biz active = ArkClient.getBizManagerService().getActiveBiz(module);
        if (active == null) {
            return CompletableFuture.completedFuture(ResponseEntity.status(503).body("no version of " + module + " is active"));
        }
        URI to = URI.create("http://127.0.0.1:" + port + "/" + active.getWebContextPath() + "/" + page);
        return http.sendAsync(HttpRequest.newBuilder(to).timeout(TIMEOUT).build(), HttpResponse.BodyHandlers.ofString())
            .handle((answer, failure) -> failure == null
                ? ResponseEntity.status(answer.statusCode()).body(answer.body())
                : ResponseEntity.status(504).body(to + ": " + failure));
    }
}
