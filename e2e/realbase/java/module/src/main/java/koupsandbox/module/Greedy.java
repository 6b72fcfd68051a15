package koupsandbox.module;

import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;

/** A module that fills the metaspace while it starts, and lets go when none is left. */
public class Greedy {
    public static void main(String[] args) {
        List<Object> kept = new ArrayList<>();
        while (true) { // each loader defines the proxy's class anew
            ClassLoader loader = new URLClassLoader(new URL[0], Greedy.class.getClassLoader());
            kept.add(Proxy.newProxyInstance(loader, new Class<?>[] {Runnable.class}, (proxy, method, arguments) -> null));
        }
    }
}
