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

// The names of the components. They are the subcommands of the binary, the names in the supervisor, and the names of
// the log files.
const (
	etcd              = "etcd"
	apiserver         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
)

// componentNames lists the components in the order in which they start.
var componentNames = []string{etcd, apiserver, controllerManager, scheduler}

// flags are command-line flags in the form --name=value.
type flags []string

func (f *flags) add(name, value string) { *f = append(*f, "--"+name+"="+value) }

// spec returns the supervisor's process specification for a component.
func (c *ControlPlane) spec(name string) supervise.Spec {
	s := supervise.Spec{
		Name: name, Path: c.o.Binary, Dir: c.o.Dir, LogFile: filepath.Join(c.o.LogDir, name+".log"),
		// Components other than a durable etcd are killed. Their only state is in etcd, a graceful shutdown would take
		// seconds, and etcd recovers from its write-ahead log.
		StopSignal: syscall.SIGKILL,
	}
	var f flags
	switch name {
	case etcd:
		f, s.Ready = c.etcdFlags(), c.etcdReady
		s.Env = []string{"ETCD_LOG_FORMAT=console"} // not a flag, because etcd 3.5 (make e2e-oldest) rejects it
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
	// A single member does not connect to peers, so any peer port works.
	f.add("listen-peer-urls", "https://127.0.0.1:0")
	f.add("initial-advertise-peer-urls", "https://127.0.0.1:0")
	f.add("initial-cluster", "default=https://127.0.0.1:0")
	for _, side := range []string{"", "peer-"} {
		f.add(side+"cert-file", c.pki.crt("etcd"))
		f.add(side+"key-file", c.pki.key("etcd"))
		f.add(side+"trusted-ca-file", c.pki.crt(etcdCA))
		f.add(side+"client-cert-auth", "true")
	}
	// A single member waits one election timeout before it serves. The default is 1 to 2 s.
	f.add("heartbeat-interval", "10")
	f.add("election-timeout", "100")
	f.add("quota-backend-bytes", strconv.Itoa(8<<30))
	if !c.o.Durable {
		// Written data survives the end of the process in any case. It can be lost only if the machine crashes.
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
	// Without an address, the server looks for a network interface with a default route, which an offline machine does
	// not have.
	f.add("advertise-address", "127.0.0.1")
	// A loopback address is not a valid endpoint of the Service "kubernetes", and no Pod of this cluster connects to
	// it.
	f.add("endpoint-reconciler-type", "none")
	f.add("tls-cert-file", c.pki.crt("apiserver"))
	f.add("tls-private-key-file", c.pki.key("apiserver"))
	f.add("client-ca-file", c.pki.crt(clusterCA))
	f.add("token-auth-file", c.tokensFile())
	f.add("etcd-servers", c.url(etcd))
	f.add("etcd-cafile", c.pki.crt(etcdCA))
	f.add("etcd-certfile", c.pki.crt("apiserver-etcd-client"))
	f.add("etcd-keyfile", c.pki.key("apiserver-etcd-client"))

	if c.o.Speed > 1 { // the tolerations that admission adds to Pods; default 300 s
		seconds := strconv.Itoa(int(c.scaled(300 * time.Second).Seconds()))
		f.add("default-not-ready-toleration-seconds", seconds)
		f.add("default-unreachable-toleration-seconds", seconds)
	}
	f.add("authorization-mode", "Node,RBAC")
	f.add("enable-admission-plugins", "NodeRestriction")
	// This plugin taints new Nodes as not ready. Removing the taint costs a third of the work for a new Node. The
	// controller manager adds the taint to Nodes that are not ready.
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

	// The API server reaches the kubelet API of the module controller through a loopback DNS name of the Node, because
	// the InternalIP of a simulated base is not routed.
	f.add("kubelet-preferred-address-types", "InternalDNS,InternalIP,Hostname")
	f.add("kubelet-certificate-authority", c.pki.crt(clusterCA))
	f.add("kubelet-client-certificate", c.pki.crt("apiserver-kubelet-client"))
	f.add("kubelet-client-key", c.pki.key("apiserver-kubelet-client"))

	// All load belongs to one user, and a burst of 1,000 bases must not be queued or rejected.
	f.add("enable-priority-and-fairness", "false")
	f.add("max-requests-inflight", "0")
	f.add("max-mutating-requests-inflight", "0")
	return f
}

func (c *ControlPlane) controllerManagerFlags() flags {
	f := c.commonFlags(controllerManager)
	f.add("kubeconfig", c.kubeconfig(controllerManager))
	f.add("leader-elect", "false") // see writeSchedulerConfig
	f.add("kube-api-qps", strconv.Itoa(apiQPS))
	f.add("kube-api-burst", strconv.Itoa(apiQPS))
	f.add("root-ca-file", c.pki.crt(clusterCA))
	f.add("service-account-private-key-file", c.saKeyFile())
	f.add("cluster-signing-cert-file", c.pki.crt(clusterCA))
	f.add("cluster-signing-key-file", c.pki.key(clusterCA))
	f.add("allocate-node-cidrs", "false")
	// ttl-controller annotates every Node, and annotates all of them again when their number passes 100, 500 or 1,000.
	// Only kubelets read the annotation.
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
	f := c.commonFlags(scheduler)
	f.add("config", c.schedulerConfig())
	return f
}

func (c *ControlPlane) schedulerConfig() string { return filepath.Join(c.o.Dir, scheduler+".yaml") }

// writeSchedulerConfig writes the scheduler settings that have no command-line flag. They make the scheduler score
// only a tenth of the Nodes for each Pod, but at least 100 Nodes. With 1,000 bases, this halves its CPU time.
func (c *ControlPlane) writeSchedulerConfig() error {
	config := map[string]any{
		"apiVersion":               "kubescheduler.config.k8s.io/v1",
		"kind":                     "KubeSchedulerConfiguration",
		"percentageOfNodesToScore": 10,
		"parallelism":              2 * runtime.NumCPU(),
		"clientConnection": map[string]any{"kubeconfig": c.kubeconfig(scheduler), "qps": apiQPS,
			"burst": apiQPS},
		// there is only one scheduler, and an election would renew a Lease indefinitely
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

// apiQPS is a client-side rate limit that is high enough to have no effect.
const apiQPS = 10000

// commonFlags returns the flags that are common to the controller manager and the scheduler.
func (c *ControlPlane) commonFlags(name string) flags {
	var f flags
	f.add("authentication-kubeconfig", c.kubeconfig(name))
	f.add("authorization-kubeconfig", c.kubeconfig(name))
	f.add("client-ca-file", c.pki.crt(clusterCA))
	f.add("requestheader-client-ca-file", c.pki.crt(frontProxyCA))
	f.add("authentication-skip-lookup", "true") // the preceding flags name both CA certificates
	f.add("bind-address", "127.0.0.1")
	f.add("secure-port", c.port(name))
	f.add("tls-cert-file", c.pki.crt(name))
	f.add("tls-private-key-file", c.pki.key(name))
	return f
}

// nodeGrace is Kubernetes' default node monitor grace period.
const nodeGrace = 50 * time.Second

// minGrace is the minimum node monitor grace period at any time scale. The controller renews a Node Lease every 20 s
// at speed 1, and a renewal can be a second late on a busy machine.
const minGrace = 4 * time.Second

// scaled divides a period by the time scale of the cluster.
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

// hasData reports whether the state directory contains etcd data from an earlier run.
func (c *ControlPlane) hasData() bool {
	_, err := os.Stat(filepath.Join(c.etcdDir(), "member"))
	return err == nil
}
