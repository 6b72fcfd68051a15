package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Names of the components, as subcommands of the binary, in the supervisor and of their logs.
const (
	etcd              = "etcd"
	apiserver         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
)

// componentNames in order of start.
var componentNames = []string{etcd, apiserver, controllerManager, scheduler}

// flags are --name=value pairs, in order.
type flags []string

func (f *flags) add(name, value string) { *f = append(*f, "--"+name+"="+value) }

// spec is what the supervisor needs to run a component.
func (c *ControlPlane) spec(name string) supervise.Spec {
	s := supervise.Spec{
		Name: name, Path: c.o.Binary, Dir: c.o.Dir, LogFile: filepath.Join(c.o.LogDir, name+".log"),
		// All but a durable etcd end at once: the others keep nothing but what is in etcd, a
		// graceful end takes them seconds, and etcd recovers from its log.
		StopSignal: syscall.SIGKILL,
	}
	var f flags
	switch name {
	case etcd:
		f, s.Ready = c.etcdFlags(), c.etcdReady
		if c.o.Durable {
			s.StopSignal = syscall.SIGTERM
		}
	case apiserver:
		f, s.Ready = c.apiserverFlags(), c.apiReady
	case controllerManager:
		f, s.Ready = c.controllerManagerFlags(), c.controllersReady
	case scheduler:
		f, s.Ready = c.schedulerFlags(), c.schedulerReady
	}
	s.Args = append([]string{name}, f...)
	return s
}

func (c *ControlPlane) etcdFlags() flags {
	var f flags
	f.add("name", "default")
	f.add("data-dir", c.etcdDir())
	f.add("listen-client-urls", c.url(etcd))
	f.add("advertise-client-urls", c.url(etcd))
	// A lone member never calls itself, so its peer port may be any.
	f.add("listen-peer-urls", "https://127.0.0.1:0")
	f.add("initial-advertise-peer-urls", "https://127.0.0.1:0")
	f.add("initial-cluster", "default=https://127.0.0.1:0")
	for _, side := range []string{"", "peer-"} {
		f.add(side+"cert-file", c.pki.crt("etcd"))
		f.add(side+"key-file", c.pki.key("etcd"))
		f.add(side+"trusted-ca-file", c.pki.crt(etcdCA))
		f.add(side+"client-cert-auth", "true")
	}
	// A lone member waits one election timeout, for rivals that do not exist, before it serves; by
	// default 1 to 2 s.
	f.add("heartbeat-interval", "10")
	f.add("election-timeout", "100")
	f.add("quota-backend-bytes", strconv.Itoa(8<<30))
	f.add("log-format", "console")
	if !c.o.Durable {
		// What is written survives the end of the process in any case; only a crash of the machine
		// can lose it.
		f.add("unsafe-no-fsync", "true")
	}
	return f
}

func (c *ControlPlane) apiserverFlags() flags {
	var f flags
	bind := "127.0.0.1"
	if c.o.Listen.IsValid() {
		bind = c.o.Listen.Addr().String()
	}
	f.add("bind-address", bind)
	f.add("secure-port", c.port(apiserver))
	// Without an address the server looks for a network interface with a default route, which a
	// laptop on a train lacks.
	f.add("advertise-address", "127.0.0.1")
	// A loopback address may not be an endpoint of the Service "kubernetes", and no Pod here would
	// dial it.
	f.add("endpoint-reconciler-type", "none")
	f.add("tls-cert-file", c.pki.crt("apiserver"))
	f.add("tls-private-key-file", c.pki.key("apiserver"))
	f.add("client-ca-file", c.pki.crt(clusterCA))
	f.add("token-auth-file", c.tokensFile())
	f.add("etcd-servers", c.url(etcd))
	f.add("etcd-cafile", c.pki.crt(etcdCA))
	f.add("etcd-certfile", c.pki.crt("apiserver-etcd-client"))
	f.add("etcd-keyfile", c.pki.key("apiserver-etcd-client"))

	if c.o.Speed > 1 { // what admission adds to Pods, 300 s
		seconds := strconv.Itoa(int(c.scaled(300 * time.Second).Seconds()))
		f.add("default-not-ready-toleration-seconds", seconds)
		f.add("default-unreachable-toleration-seconds", seconds)
	}
	f.add("authorization-mode", "Node,RBAC")
	f.add("enable-admission-plugins", "NodeRestriction")
	// It taints each Node that comes as not ready, which the module controller and the controller manager undo at once, for
	// a third of what a new Node costs. Of a Node that is not ready the controller manager says so.
	f.add("disable-admission-plugins", "TaintNodesByCondition")
	f.add("allow-privileged", "true")
	f.add("service-cluster-ip-range", serviceCIDR)
	f.add("service-account-issuer", "https://kubernetes.default.svc."+clusterDomain)
	f.add("service-account-key-file", c.saKeyFile())
	f.add("service-account-signing-key-file", c.saKeyFile())

	f.add("requestheader-client-ca-file", c.pki.crt(frontProxyCA))
	f.add("requestheader-allowed-names", "front-proxy-client")
	f.add("requestheader-username-headers", "X-Remote-User")
	f.add("requestheader-group-headers", "X-Remote-Group")
	f.add("requestheader-extra-headers-prefix", "X-Remote-Extra-")
	f.add("proxy-client-cert-file", c.pki.crt("front-proxy-client"))
	f.add("proxy-client-key-file", c.pki.key("front-proxy-client"))

	// The kubelet API of the module controller is reached through a loopback name of the Node: the
	// InternalIP of a simulated base is an address that nothing may dial.
	f.add("kubelet-preferred-address-types", "InternalDNS,InternalIP,Hostname")
	f.add("kubelet-certificate-authority", c.pki.crt(clusterCA))
	f.add("kubelet-client-certificate", c.pki.crt("apiserver-kubelet-client"))
	f.add("kubelet-client-key", c.pki.key("apiserver-kubelet-client"))

	// One person owns all of the load, and a burst of 1,000 bases must not be queued or refused.
	f.add("enable-priority-and-fairness", "false")
	f.add("max-requests-inflight", "0")
	f.add("max-mutating-requests-inflight", "0")
	return f
}

func (c *ControlPlane) controllerManagerFlags() flags {
	f := c.controllerFlags(controllerManager)
	f.add("kubeconfig", c.kubeconfig(controllerManager))
	f.add("leader-elect", "false") // as for the scheduler
	f.add("kube-api-qps", strconv.Itoa(apiQPS))
	f.add("kube-api-burst", strconv.Itoa(apiQPS))
	f.add("root-ca-file", c.pki.crt(clusterCA))
	f.add("service-account-private-key-file", c.saKeyFile())
	f.add("cluster-signing-cert-file", c.pki.crt(clusterCA))
	f.add("cluster-signing-key-file", c.pki.key(clusterCA))
	f.add("allocate-node-cidrs", "false")
	// ttl-controller writes an annotation to every Node, and again to all of them whenever their
	// number passes 100, 500 or 1,000. Only kubelets read it.
	f.add("controllers", "*,-ttl-controller")
	if c.o.Speed > 1 {
		f.add("node-monitor-period", c.scaled(nodeGrace/10).String())
		f.add("node-monitor-grace-period", max(c.scaled(nodeGrace), minGrace).String())
		f.add("node-startup-grace-period", max(c.scaled(time.Minute), minGrace).String())
	}
	for _, resource := range []string{"deployment", "replicaset", "statefulset", "daemonset", "service-endpoint"} {
		f.add("concurrent-"+resource+"-syncs", "20")
	}
	return f
}

func (c *ControlPlane) schedulerFlags() flags {
	f := c.controllerFlags(scheduler)
	f.add("config", c.schedulerConfig())
	return f
}

func (c *ControlPlane) schedulerConfig() string { return filepath.Join(c.o.Dir, scheduler+".yaml") }

// writeSchedulerConfig writes the settings that the scheduler reads only from a file. It scores a tenth of the Nodes,
// and at least a hundred, for each Pod. With 1,000 bases this halves its CPU time.
func (c *ControlPlane) writeSchedulerConfig() error {
	config := map[string]any{
		"apiVersion":               "kubescheduler.config.k8s.io/v1",
		"kind":                     "KubeSchedulerConfiguration",
		"percentageOfNodesToScore": 10,
		"parallelism":              2 * runtime.NumCPU(),
		"clientConnection": map[string]any{"kubeconfig": c.kubeconfig(scheduler), "qps": apiQPS,
			"burst": apiQPS},
		// there is only one, and an election costs a lease renewed for ever
		"leaderElection": map[string]any{"leaderElect": false},
	}
	text, err := yaml.Marshal(config)
	if err == nil {
		err = os.WriteFile(c.schedulerConfig(), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the configuration of %s: %w", scheduler, err)
	}
	return nil
}

// apiQPS lifts the limit that clients of the API set themselves.
const apiQPS = 10000

// controllerFlags are those that controller-manager and scheduler share.
func (c *ControlPlane) controllerFlags(name string) flags {
	var f flags
	f.add("authentication-kubeconfig", c.kubeconfig(name))
	f.add("authorization-kubeconfig", c.kubeconfig(name))
	f.add("client-ca-file", c.pki.crt(clusterCA))
	f.add("requestheader-client-ca-file", c.pki.crt(frontProxyCA))
	f.add("authentication-skip-lookup", "true") // of these two authorities, which are known
	f.add("bind-address", "127.0.0.1")
	f.add("secure-port", c.port(name))
	f.add("tls-cert-file", c.pki.crt(name))
	f.add("tls-private-key-file", c.pki.key(name))
	return f
}

// nodeGrace is Kubernetes' own default.
const nodeGrace = 50 * time.Second

// minGrace is the least silence after which Kubernetes takes a Node for dead: the controller
// renews its Lease every 20 s at speed 1, and a busy machine needs a second.
const minGrace = 4 * time.Second

// scaled is how long a period of Kubernetes' own takes at the cluster's speed.
func (c *ControlPlane) scaled(d time.Duration) time.Duration {
	return d / time.Duration(max(c.o.Speed, 1))
}

func (c *ControlPlane) pkiDir() string    { return filepath.Join(c.o.Dir, "pki") }
func (c *ControlPlane) etcdDir() string   { return filepath.Join(c.o.Dir, "etcd") }
func (c *ControlPlane) saKeyFile() string { return filepath.Join(c.pkiDir(), saKey) }

func (c *ControlPlane) kubeconfig(component string) string {
	return filepath.Join(c.o.Dir, component+".kubeconfig")
}

func (c *ControlPlane) port(component string) string {
	return strconv.Itoa(c.access.Load().ports[component])
}
func (c *ControlPlane) url(component string) string { return c.access.Load().ports.url(component) }

// hasData reports whether etcd has run in this state directory before.
func (c *ControlPlane) hasData() bool {
	_, err := os.Stat(filepath.Join(c.etcdDir(), "member"))
	return err == nil
}
