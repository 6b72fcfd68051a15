package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Options of a ControlPlane.
type Options struct {
	// Owner is what the cluster is marked with; its kubeconfig context bears its name, as
	// koup-<name>. The name is required.
	Owner cluster.Owner
	// Dir is the state folder of this cluster: certificates, the data of etcd, kubeconfigs.
	// Required; made if missing.
	Dir string
	// Binary is the path of koup-controlplane. Required.
	Binary string
	// Supervisor runs the components. Required.
	Supervisor *supervise.Supervisor
	// Durable makes etcd write through to the disk, so that the cluster survives a crash of the
	// machine; false is faster, and survives the end of the processes only.
	Durable bool
	// Listen is where the API server listens; its port is never another. Default: 127.0.0.1 and any free
	// port.
	Listen netip.AddrPort
	// Speed divides the periods of the node lifecycle; 0 means 1.
	Speed int
	// Wipe throws the data of an earlier start away; false keeps it.
	Wipe bool
	// LogDir receives <component>.log; empty means Dir/logs.
	LogDir string
	// Kubeconfig is where the administrator's kubeconfig is written; empty means Dir/kubeconfig.
	Kubeconfig string
	// Logger is told what a person need not see; nil means silence.
	Logger *slog.Logger
}

const (
	// serviceCIDR is the network of Service addresses, and firstService its first address, which is that of the
	// Service "kubernetes".
	serviceCIDR  = "10.96.0.0/16"
	firstService = "10.96.0.1"
	// clusterDomain is the DNS suffix of Services.
	clusterDomain = "cluster.local"
	// portAttempts is the number of attempts to start a component whose port another process takes between picking and
	// listening. Two sandboxes that start at the same time may pick the same port.
	portAttempts = 3
)

// ControlPlane is a Kubernetes API on this machine. Run its Steps in order, then use Cluster, and end it with Down. Its
// methods must not be called concurrently, unless stated otherwise.
type ControlPlane struct {
	o Options

	// Set by the first step, before anything runs.
	pki                *pki
	tokens             map[string]string // by user; new ones at each start
	health, etcdHealth *http.Client
	hadData            bool // etcd has run in Dir before this start

	access  atomic.Pointer[access]
	version string
}

// access is how the components are reached. It does not change; other ports make another.
type access struct {
	ports  ports
	config *rest.Config
	client kubernetes.Interface
}

func (c *ControlPlane) client() kubernetes.Interface { return c.access.Load().client }

// New returns a control plane. It starts and writes nothing.
func New(o Options) (*ControlPlane, error) {
	dir, err := filepath.Abs(o.Dir) // the components run in it
	if err != nil {
		return nil, fmt.Errorf("state folder of the control plane: %w", err)
	}
	o.Dir = dir
	o.LogDir = cmp.Or(o.LogDir, filepath.Join(dir, "logs"))
	o.Kubeconfig = cmp.Or(o.Kubeconfig, filepath.Join(dir, "kubeconfig"))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &ControlPlane{o: o}, nil
}

// Steps bring the control plane up. After Start, the administrator's kubeconfig works and Cluster may be used. Complete
// waits for the default roles and the controllers.
func (c *ControlPlane) Steps() cluster.Steps {
	return cluster.Steps{
		Prepare: []cluster.Step{{Name: "Preparing certificates", Run: c.prepare, Undo: c.Down}},
		Start: []cluster.Step{{Name: "Starting etcd", Run: c.startEtcd},
			{Name: "Starting kube-apiserver", Run: c.startAPIServer}},
		Complete: []cluster.Step{
			{Name: "Starting kube-controller-manager and kube-scheduler", Run: c.startControllers}},
	}
}

// Cluster describes the running cluster; call it after "Starting kube-apiserver".
func (c *ControlPlane) Cluster() *cluster.Cluster {
	return &cluster.Cluster{Kubeconfig: c.o.Kubeconfig, Config: c.access.Load().config, Version: c.version}
}

func (c *ControlPlane) contextName() string { return "koup-" + c.o.Owner.Sandbox }

// Down stops what Steps started, in reverse order, and joins the errors. The data stays. It takes
// some milliseconds, with Durable as long as etcd needs to close its files.
func (c *ControlPlane) Down(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Backward(componentNames) {
		errs = append(errs, c.o.Supervisor.Stop(ctx, name))
	}
	return errors.Join(errs...)
}

// prepare makes certificates, ports and kubeconfigs.
func (c *ControlPlane) prepare(context.Context) error {
	if err := os.MkdirAll(c.o.Dir, 0o700); err != nil {
		return fmt.Errorf("making the state folder of the control plane: %w", err)
	}
	if c.o.Wipe {
		if err := os.RemoveAll(c.etcdDir()); err != nil {
			return fmt.Errorf("wiping the data of etcd: %w", err)
		}
	}
	c.hadData = c.hasData()
	p, remade, err := makePKI(c.pkiDir(), certificates())
	if err != nil {
		return fmt.Errorf("making the certificates of the control plane: %w", err)
	}
	if remade != "" {
		c.o.Logger.Warn("a certificate authority was made anew; earlier kubeconfigs may no longer work", "why", remade)
	}
	c.pki = p
	c.tokens, err = c.makeTokens()
	if err != nil {
		return err
	}
	c.health, err = newHealthClient(p, clusterCA, adminCertificate)
	if err != nil {
		return err
	}
	c.etcdHealth, err = newHealthClient(p, etcdCA, "apiserver-etcd-client")
	if err != nil {
		return err
	}
	if err := c.writeSchedulerConfig(); err != nil {
		return err
	}
	return c.assignPorts(loadPorts(c.o.Dir), componentNames...)
}

// assignPorts picks ports for the named components, which do not run, and writes what depends on
// them. The ports that the others have, or these had last, are in known.
func (c *ControlPlane) assignPorts(known ports, names ...string) error {
	known = maps.Clone(known)
	if c.o.Listen.IsValid() {
		known[apiserver] = int(c.o.Listen.Port())
	}
	if err := known.pick(names...); err != nil {
		return err
	}
	if c.o.Listen.IsValid() && known[apiserver] != int(c.o.Listen.Port()) {
		return fmt.Errorf("the Kubernetes API cannot listen on %s: the port is taken; choose another", c.o.Listen)
	}
	if err := known.save(c.o.Dir); err != nil {
		return err
	}
	server := known.url(apiserver)
	err := errors.Join(
		c.adminKubeconfig(server),
		c.tokenKubeconfig(c.kubeconfig(controllerManager), server, controllerManagerUser),
		c.tokenKubeconfig(c.kubeconfig(scheduler), server, schedulerUser),
	)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading back the kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client of the control plane: %w", err)
	}
	c.access.Store(&access{ports: known, config: config, client: client})
	return nil
}

// startEtcd starts etcd and, without waiting, the API server: each needs about the same time to load.
func (c *ControlPlane) startEtcd(ctx context.Context) error {
	if err := c.launch(ctx, etcd, apiserver); err != nil {
		return err
	}
	err := c.waitUntil(ctx, etcd, c.etcdReady)
	if exited(err) && c.hadData {
		return fmt.Errorf("etcd does not start on the data in %s that an earlier run left; wipe it to begin with an "+
			"empty cluster: %w",
			c.etcdDir(), err)
	}
	return err
}

// startAPIServer waits until the administrator can work with the API. It is ready for everybody else
// when the default roles are made: time that the caller can use, to apply its manifests for instance.
func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	if err := c.waitUntil(ctx, apiserver, c.namespacesExist); err != nil {
		return err
	}
	version, err := cluster.ServerVersion(ctx, c.access.Load().config)
	c.version = version
	return err
}

// startControllers starts the other two as soon as the API server is healthy: they need no roles, and the
// controller manager asks for that health in steps of a second.
func (c *ControlPlane) startControllers(ctx context.Context) error {
	if err := c.waitUntil(ctx, apiserver, c.apiHealthy); err != nil {
		return err
	}
	if err := c.launch(ctx, controllerManager, scheduler); err != nil {
		return err
	}
	if err := cluster.Mark(ctx, c.client(), c.o.Owner); err != nil {
		return err
	}
	return errors.Join(
		c.waitUntil(ctx, apiserver, c.apiReady),
		c.waitUntil(ctx, controllerManager, c.controllersReady), c.waitUntil(ctx, scheduler, c.schedulerReady))
}

func (c *ControlPlane) launch(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := c.o.Supervisor.Start(ctx, c.spec(name)); err != nil {
			return err
		}
	}
	return nil
}

// waitUntil waits for a component. One that exited because its port was taken since it was picked
// starts again, with another if it is taken still, together with those that call it.
func (c *ControlPlane) waitUntil(ctx context.Context, name string, ready func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := c.o.Supervisor.WaitUntil(ctx, name, ready)
		if attempt == portAttempts || !supervise.PortTaken(err, net.JoinHostPort(Host, c.port(name))) {
			return err
		}
		c.o.Logger.Info("port was taken, starting again", "component", name, "port", c.port(name))
		if err := c.moveToOtherPort(ctx, name); err != nil {
			return err
		}
	}
}

// moveToOtherPort stops name and its callers, settles a new port, and starts those of them again
// that had been started.
func (c *ControlPlane) moveToOtherPort(ctx context.Context, name string) error {
	affected := []string{name}
	if name == etcd || name == apiserver {
		affected = componentNames[slices.Index(componentNames, name):]
	}
	var started []string
	for _, st := range c.o.Supervisor.Status(ctx, nil) {
		if slices.Contains(affected, st.Name) {
			started = append(started, st.Name)
		}
	}
	for _, name := range slices.Backward(started) {
		if err := c.o.Supervisor.Stop(ctx, name); err != nil {
			return err
		}
	}
	if err := c.assignPorts(c.access.Load().ports, affected...); err != nil {
		return err
	}
	return c.launch(ctx, started...)
}
