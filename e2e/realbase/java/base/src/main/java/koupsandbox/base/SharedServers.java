package koupsandbox.base;

import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import com.alipay.sofa.ark.api.ArkClient;
import com.alipay.sofa.ark.spi.registry.ServiceProvider;
import com.alipay.sofa.ark.spi.registry.ServiceProviderType;
import com.alipay.sofa.ark.spi.service.ArkInject;
import com.alipay.sofa.ark.spi.service.registry.RegistryService;
import com.alipay.sofa.ark.spi.web.EmbeddedServerService;

/**
 * The web servers that modules share with their base, by port. web-ark-plugin brings such a service too, but its newest
 * release on Maven Central (3.1.4) lacks the port, which the sofa-ark of Koupleless 2.1.6 asks for; this one goes before it.
 */
class SharedServers<T> implements EmbeddedServerService<T>, ServiceProvider {
    private final Map<Integer, T> servers = new ConcurrentHashMap<>();

    @ArkInject
    private RegistryService registry;

    static void publish() {
        SharedServers<?> servers = new SharedServers<>();
        ArkClient.getInjectionService().inject(servers);
        servers.registry.publishService(EmbeddedServerService.class, servers, servers);
    }

    @Override
    public T getEmbedServer(int port) {
        return servers.get(port);
    }

    @Override
    public boolean putEmbedServer(int port, T server) {
        return servers.putIfAbsent(port, server) == null;
    }

    @Override
    public Iterator<T> iterator() {
        return servers.values().iterator();
    }

    @Override
    public ServiceProviderType getServiceProviderType() {
        return ServiceProviderType.ARK_MASTER_BIZ;
    }

    @Override
    public String getServiceProviderDesc() {
        return "the base";
    }

    @Override
    public int getPriority() {
        return HIGHEST_PRECEDENCE;
    }
}
