package koupsandbox.base;

import com.alipay.sofa.koupleless.arklet.core.api.tunnel.Tunnel;
import com.alipay.sofa.koupleless.arklet.core.command.CommandService;
import com.alipay.sofa.koupleless.arklet.core.hook.base.BaseMetadataHook;

/**
 * What the published runtime lacks of the two tunnels: heartbeats over HTTP, and all of MQTT. Arklet loads it as its custom
 * tunnel beside its own HTTP server. The properties have the names of later versions of the runtime.
 */
public class BaseTunnel implements Tunnel {
    private CommandService commands;
    private BaseMetadataHook hook;
    private Heart heart;
    private Mqtt mqtt;

    @Override
    public void init(CommandService commands, BaseMetadataHook hook) {
        this.commands = commands;
        this.hook = hook;
    }

    @Override
    public void run() {
        String endpoint = System.getProperty("koupleless.arklet.http.heartbeat.endpoint");
        if (endpoint != null) {
            heart = new Heart(hook);
            heart.start(endpoint, Integer.getInteger("koupleless.arklet.http.port"));
        }
        if (Boolean.getBoolean("koupleless.arklet.mqtt.enable")) {
            mqtt = new Mqtt(commands, hook);
            mqtt.start();
        }
    }

    @Override
    public void shutdown() {
        if (heart != null) {
            heart.stop();
        }
        if (mqtt != null) {
            mqtt.stop();
        }
    }
}
