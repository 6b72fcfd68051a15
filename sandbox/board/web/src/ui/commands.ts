import type { BoardRow } from "../wire";
import type { World } from "../state/world";

// commandsFor returns commands that show the same data as the panel, for objects that `why` does not support.
// They do not depend on the language.
export function commandsFor(kind: string, key: string, world: World, board: BoardRow | undefined): string[] {
  const sandbox = board?.source === "sandbox";
  const koup = (rest: string): string => `koupsandbox ${rest}${board && board.title !== "koup" ? ` --name ${quote(board.title)}` : ""}`;
  const [first = "", second = ""] = key.split("/");
  switch (kind) {
    case "base": {
      const node = world.base.get(key)?.node;
      return [...(sandbox ? [koup(`why node/${quote(key)}`), koup("base list -o wide"), koup(`fault list --base ${quote(key)}`)] : []), ...(node ? [`kubectl describe node ${quote(node)}`] : [])];
    }
    case "pod": {
      const p = world.pod.get(key);
      return p ? [`kubectl describe pod ${quote(p.name)} --namespace ${quote(p.namespace)}`] : [];
    }
    case "workload": {
      const w = world.workload.get(key);
      return w ? ["status", "history"].map((what) => `kubectl rollout ${what} ${w.kind}/${quote(w.name)} --namespace ${quote(w.namespace)}`) : [];
    }
    case "component":
      return sandbox ? [koup(`logs ${quote(key)}`), koup("status")] : ["kubectl get leases --all-namespaces"];
    case "fault": {
      const on = first === "api" || first === "mqtt" ? `--target ${first}` : `--base ${quote(first)}`;
      return sandbox ? [koup(`fault list ${on}`), koup(`fault clear ${on} ${quote(second)}`)] : [];
    }
    case "service":
      return [`kubectl get endpointslices --namespace ${quote(first)} --selector kubernetes.io/service-name=${quote(second)}`];
    case "module":
      return [`kubectl get modules --all-namespaces`, ...(sandbox ? [koup("base list -o wide")] : [])];
    case "stream":
      return sandbox ? [koup("watch")] : [];
    case "finding":
      return sandbox ? [koup("base list -o wide")] : ["kubectl get nodes --output wide"];
  }
  return [];
}

// quote escapes a name for a shell.
export const quote = (s: string): string => (/^[\w./:@=+-]+$/.test(s) ? s : `'${s.replaceAll("'", `'\\''`)}'`);

// whyOf returns the query for GET /api/why; null = not supported for this object.
export function whyOf(kind: string, key: string, world: World): URLSearchParams | null {
  const ask = (kind: string, name: string, namespace = ""): URLSearchParams => new URLSearchParams({ kind, namespace, name });
  switch (kind) {
    case "base":
      return ask("base", key);
    case "pod": {
      const p = world.pod.get(key);
      return p ? ask("pod", p.name, p.namespace) : null;
    }
    case "workload": {
      const w = world.workload.get(key);
      return w ? ask(w.kind, w.name, w.namespace) : null;
    }
  }
  return null;
}
