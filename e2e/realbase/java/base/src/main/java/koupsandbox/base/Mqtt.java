package koupsandbox.base;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import com.alipay.sofa.ark.spi.model.Biz;
import com.alipay.sofa.ark.spi.model.BizInfo.BizStateRecord;
import com.alipay.sofa.koupleless.arklet.core.ArkletComponentRegistry;
import com.alipay.sofa.koupleless.arklet.core.command.CommandService;
import com.alipay.sofa.koupleless.arklet.core.command.meta.Output;
import com.alipay.sofa.koupleless.arklet.core.hook.base.BaseMetadataHook;
import org.eclipse.paho.client.mqttv3.IMqttDeliveryToken;
import org.eclipse.paho.client.mqttv3.MqttCallbackExtended;
import org.eclipse.paho.client.mqttv3.MqttClient;
import org.eclipse.paho.client.mqttv3.MqttConnectOptions;
import org.eclipse.paho.client.mqttv3.MqttException;
import org.eclipse.paho.client.mqttv3.MqttMessage;
import org.eclipse.paho.client.mqttv3.persist.MemoryPersistence;

/**
 * The MQTT tunnel (protocol 3). Topics and envelopes are written from the specification; the commands are arklet's own, and
 * so is what they answer.
 */
class Mqtt implements MqttCallbackExtended {
    private final CommandService commands;
    private final BaseMetadataHook hook;
    private final String prefix;
    private final ExecutorService pool = Executors.newFixedThreadPool(5);
    private final ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
    private MqttClient client;
    private boolean known; // the first connection has been made

    Mqtt(CommandService commands, BaseMetadataHook hook) {
        this.commands = commands;
        this.hook = hook;
        this.prefix = "koupleless_" + hook.getRuntimeEnv() + "/" + Identity.identity() + "/";
    }

    void start() {
        MqttConnectOptions options = new MqttConnectOptions();
        options.setAutomaticReconnect(true);
        options.setMaxInflight(1000);
        options.setUserName(property("username"));
        options.setPassword(property("password").toCharArray());
        try {
            client = new MqttClient("tcp://" + property("broker") + ":" + property("port"),
                property("client.prefix") + "@@@" + Identity.identity(), new MemoryPersistence());
            client.setCallback(this);
            client.connect(options);
        } catch (MqttException e) {
            throw new IllegalStateException("cannot connect to the broker", e);
        }
    }

    void stop() {
        clock.shutdownNow();
        pool.shutdownNow();
        try {
            client.disconnectForcibly(0, 0);
            client.close(true);
        } catch (MqttException e) {
            System.err.println("disconnecting from the broker: " + e);
        }
    }

    private static String property(String name) {
        return System.getProperty("koupleless.arklet.mqtt." + name);
    }

    @Override
    public void connectComplete(boolean reconnect, String broker) {
        pool.execute(this::connected); // the callback must not wait for the broker
    }

    private synchronized void connected() {
        try {
            client.subscribe(prefix + "+", 1);
            client.subscribe(prefix + "base/baseline", 1);
        } catch (MqttException e) {
            throw new IllegalStateException("cannot subscribe", e);
        }
        if (!known) {
            known = true;
            publish("base/queryBaseline", Heart.metadata(hook));
            clock.scheduleAtFixedRate(this::beat, 0, 10, TimeUnit.SECONDS);
        }
    }

    /** As in the runtime, one that cannot be sent is the last: a scheduled task that throws is not run again. */
    private void beat() {
        try {
            publish("base/heart", Heart.status(hook, 0));
        } catch (RuntimeException e) {
            System.err.println("that was the last heartbeat: " + e);
            throw e;
        }
    }

    @Override
    public void messageArrived(String topic, MqttMessage message) {
        String command = topic.substring(topic.lastIndexOf('/') + 1);
        String payload = new String(message.getPayload(), StandardCharsets.UTF_8);
        pool.execute(() -> {
            try {
                take(command, payload);
            } catch (Exception e) {
                System.err.println(command + " is not answered: " + e);
            }
        });
    }

    private void take(String command, String payload) throws Exception {
        switch (command) {
            case "health" -> publish("base/health", commands.process("health", JSON.parseObject(payload)));
            case "queryAllBiz" -> publish("base/simpleBiz", modules());
            case "installBiz", "uninstallBiz" -> operate(command, JSON.parseObject(payload));
            case "baseline" -> {
                Map<String, Object> answer = new TreeMap<>();
                answer.put("command", "batchInstallBiz");
                answer.put("response", answer(() -> Baseline.install(payload)));
                publish("base/batchInstallBizResponse", answer);
            }
            default -> System.err.println(command + " is no command of this tunnel");
        }
    }

    private void operate(String command, JSONObject request) {
        Map<String, Object> answer = new TreeMap<>();
        answer.put("command", command);
        answer.put("bizName", request.getString("bizName"));
        answer.put("bizVersion", request.getString("bizVersion"));
        answer.put("response", answer(() -> commands.process(command, request)));
        publish("base/bizOperation", answer);
    }

    private interface Work {
        Output<?> run() throws Throwable;
    }

    /** What work answers; an exception is an answer too. */
    private static Output<?> answer(Work work) {
        try {
            return work.run();
        } catch (Throwable e) { // also the errors of a JVM that runs out of memory
            StringWriter trace = new StringWriter();
            e.printStackTrace(new PrintWriter(trace));
            return Output.ofFailed(new TreeMap<>(Map.of("code", "FAILED", "message", trace.toString())), e.getMessage());
        }
    }

    /** What is installed, without the base itself, which is the first that runs. */
    private static List<Map<String, Object>> modules() {
        List<Map<String, Object>> list = new ArrayList<>();
        for (Biz biz : ArkletComponentRegistry.getOperationServiceInstance().queryBizList()) {
            if ("embed main".equals(biz.getMainClass())) {
                continue;
            }
            Map<String, Object> module = new TreeMap<>();
            module.put("name", biz.getBizName());
            module.put("version", biz.getBizVersion());
            module.put("state", biz.getBizState().getBizState());
            List<BizStateRecord> records = biz.getBizStateRecords();
            module.put("latestStateRecord", records.isEmpty() ? null : records.get(records.size() - 1));
            list.add(module);
        }
        return list;
    }

    private void publish(String topic, Object data) {
        Map<String, Object> envelope = new TreeMap<>();
        envelope.put("data", data);
        envelope.put("publishTimestamp", System.currentTimeMillis());
        String text = topic.endsWith("simpleBiz") ? JSON.toJSONString(envelope, SerializerFeature.WriteMapNullValue)
            : JSON.toJSONString(envelope);
        try {
            client.publish(prefix + topic, text.getBytes(StandardCharsets.UTF_8), 1, false);
        } catch (MqttException e) {
            throw new IllegalStateException("publishing on " + topic, e);
        }
    }

    @Override
    public void connectionLost(Throwable cause) {
        System.err.println("connection to the broker lost: " + cause);
    }

    @Override
    public void deliveryComplete(IMqttDeliveryToken token) {
    }
}
