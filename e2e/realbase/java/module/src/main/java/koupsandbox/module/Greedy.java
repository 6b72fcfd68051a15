package koupsandbox.module;

import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;

/** A module that fills the metaspace while it starts, until none is left. */
public class Greedy {
    private static final List<Object> KEPT = new ArrayList<>();

    public static void main(String[] args) {
        while (true) { // each loader defines the proxy's class anew
            ClassLoader loader = new URLClassLoader(new URL[0], Greedy.class.getClassLoader());
            KEPT.add(Proxy.newProxyInstance(loader, new Class<?>[] {Runnable.class}, (proxy, method, arguments) -> null));
        }
    }
}
