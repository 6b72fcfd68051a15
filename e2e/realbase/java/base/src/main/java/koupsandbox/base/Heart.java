package koupsandbox.base;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

import com.alibaba.fastjson.JSON;
import com.alipay.sofa.koupleless.arklet.core.hook.base.BaseMetadataHook;

/** Heartbeats over HTTP (protocol 4.1): every 12 s, and a failure never ends them. */
class Heart {
    private final ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
    private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(30)).build();
    private final BaseMetadataHook hook;

    Heart(BaseMetadataHook hook) {
        this.hook = hook;
    }

    void start(String endpoint, int port) {
        clock.scheduleAtFixedRate(() -> post(URI.create(endpoint + "/heartbeat"), port), 0, 12, TimeUnit.SECONDS);
    }

    void stop() {
        clock.shutdownNow();
    }

    private void post(URI to, int port) {
        HttpRequest request = HttpRequest.newBuilder(to).timeout(Duration.ofSeconds(10))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(JSON.toJSONString(status(hook, port)))).build();
        try {
            http.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (Exception e) {
            System.err.println("heartbeat not sent: " + e);
        }
    }

    static Map<String, Object> metadata(BaseMetadataHook hook) {
        return new TreeMap<>(Map.of("identity", Identity.identity(), "name", hook.getBaseMetadata().getName(),
            "version", hook.getBaseMetadata().getVersion(), "clusterName", Identity.cluster()));
    }

    static Map<String, Object> status(BaseMetadataHook hook, int port) {
        return new TreeMap<>(Map.of("baseMetadata", metadata(hook), "localIP", Identity.ip(), "localHostName",
            Identity.identity(), "port", port, "state", "activated"));
    }
}
