package koupsandbox.base;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

import com.alipay.sofa.ark.api.ArkClient;
import com.alipay.sofa.ark.spi.model.Biz;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;

/** Passes requests for a module on to the web endpoint of the version that is active. */
@RestController
public class Front {
    private final HttpClient http = HttpClient.newHttpClient();

    @Value("${server.port}")
    private int port;

    @GetMapping("/front/{module}/{page}")
    public ResponseEntity<String> pass(@PathVariable("module") String module, @PathVariable("page") String page)
        throws IOException, InterruptedException {
        Biz active = ArkClient.getBizManagerService().getActiveBiz(module);
        if (active == null) {
            return ResponseEntity.status(503).body("no version of " + module + " is active");
        }
        URI to = URI.create("http://127.0.0.1:" + port + "/" + active.getWebContextPath() + "/" + page);
        HttpResponse<String> answer = http.send(HttpRequest.newBuilder(to).build(), HttpResponse.BodyHandlers.ofString());
        return ResponseEntity.status(answer.statusCode()).body(answer.body());
    }
}
