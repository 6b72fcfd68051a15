package koupsandbox.base;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alipay.sofa.ark.api.ClientResponse;
import com.alipay.sofa.ark.api.ResponseCode;
import com.alipay.sofa.koupleless.arklet.core.ArkletComponentRegistry;
import com.alipay.sofa.koupleless.arklet.core.command.meta.Output;
import com.alipay.sofa.koupleless.arklet.core.common.model.BatchInstallRequest;
import com.alipay.sofa.koupleless.arklet.core.common.model.BatchInstallResponse;

/**
 * Installs a baseline with arklet's own batch. That of this version takes a folder, so the jars are fetched into one first, and
 * the answers get back the URLs that they stand for.
 */
class Baseline {
    static Output<BatchInstallResponse> install(String payload) throws Throwable {
        JSONArray items = JSON.parseArray(payload);
        if (items == null) {
            throw new IllegalArgumentException("bizList is null");
        }
        Path folder = Files.createTempDirectory("baseline");
        Map<String, String> urls = new HashMap<>();
        try {
            for (int i = 0; i < items.size(); i++) {
                String url = items.getJSONObject(i).getString("bizUrl");
                Path jar = folder.resolve(i + ".jar");
                urls.put(jar.toString(), url);
                try (InputStream in = new URL(url).openStream()) {
                    Files.copy(in, jar);
                }
            }
            BatchInstallResponse done = ArkletComponentRegistry.getOperationServiceInstance()
                .batchInstall(BatchInstallRequest.builder().bizDirAbsolutePath(folder.toString()).build());
            Map<String, ClientResponse> answers = new TreeMap<>();
            done.getBizUrlToResponse().forEach((path, answer) -> answers.put(urls.get(path), answer));
            done.setBizUrlToResponse(answers);
            return done.getCode() == ResponseCode.SUCCESS ? Output.ofSuccess(done)
                : Output.ofFailed(done, "install biz not success!");
        } finally {
            remove(folder);
        }
    }

    private static void remove(Path folder) throws IOException {
        try (var files = Files.list(folder)) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
        Files.delete(folder);
    }
}
