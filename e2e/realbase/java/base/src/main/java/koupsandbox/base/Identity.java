package koupsandbox.base;

import com.alipay.sofa.koupleless.arklet.core.common.model.BaseMetadata;
import com.alipay.sofa.koupleless.arklet.core.hook.base.BaseMetadataHook;

/**
 * Who the base is, from system properties. Arklet's own hook of this version knows name, version and environment only.
 */
public class Identity implements BaseMetadataHook {
    static String identity() {
        return System.getProperty("realbase.identity", "realbase");
    }

    static String cluster() {
        return System.getProperty("realbase.cluster", "default");
    }

    static String ip() {
        return System.getProperty("realbase.ip", "198.18.0.1");
    }

    @Override
    public BaseMetadata getBaseMetadata() {
        return BaseMetadata.builder().name(System.getProperty("realbase.name", "realbase"))
            .version(System.getProperty("realbase.version", "1.0.0")).build();
    }

    @Override
    public String getRuntimeEnv() {
        return System.getProperty("realbase.env", "dev").toLowerCase();
    }
}
