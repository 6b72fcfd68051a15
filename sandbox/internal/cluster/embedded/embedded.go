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

// Options are the options of a ControlPlane.
type Options struct {
	// Owner is the owner of the cluster. Its sandbox name is required and determines the name of the kubeconfig
	// context, koup-<name>.
	Owner cluster.Owner
	// Dir is the state directory of the cluster, for certificates, etcd data and kubeconfigs. It is created if it
	// does not exist. Required.
	Dir string
	// Binary is the path of koup-controlplane. Required.
	Binary string
	// Supervisor runs the components. Required.
	Supervisor *supervise.Supervisor
	// Durable makes etcd sync writes to disk, so that the data survives a machine crash. If Durable is false, writes
	// are faster, but the data only survives restarts of the processes.
	Durable bool
	// Listen is the listen address of the API server. If the port is in use, the control plane fails to start.
	// Default: 127.0.0.1 and a free port.
	Listen netip.AddrPort
	// Speed is the time scale. The periods of the node lifecycle are divided by it. 0 means 1.
	Speed int
	// Wipe deletes the etcd data of earlier runs.
	Wipe bool
	// LogDir is the directory of the log files <component>.log; empty means Dir/logs.
	LogDir string
	// Kubeconfig is the path to which the administrator's kubeconfig is written; empty means Dir/kubeconfig.
	Kubeconfig string
	// Logger receives troubleshooting details. Default: they are discarded.
	Logger *slog.Logger
}

const (
	// serviceCIDR is the network of Service addresses. firstService is the first address of this network, which is
	// assigned to the Service "kubernetes".
	serviceCIDR  = "10.96.0.0/16"
	firstService = "10.96.0.1"
	// clusterDomain is the DNS domain of the cluster, the suffix of Service DNS names.
	clusterDomain = "cluster.local"
	// portAttempts is the number of attempts to start a component. An attempt fails if another process, such as
	// another sandbox that is starting, takes the port after the port was chosen.
	portAttempts = 3
)

// ControlPlane is a Kubernetes control plane on this machine. Run its Steps in order, then use Cluster, and stop it
// with Down. Its methods must not be called concurrently, unless stated otherwise.
type ControlPlane struct {
	o Options

	// The step "Preparing certificates" sets the following fields.
	pki                *pki
	tokens             map[string]string // tokens by user; replaced at each start
	health, etcdHealth *http.Client
	hadData            bool // whether Dir contains etcd data from an earlier run

	access  atomic.Pointer[access]
	version string
}

// access contains the ports of the components and the clients that use them. It is immutable; a change of ports
// creates a new access.
type access struct {
	ports  ports
	config *rest.Config
	client kubernetes.Interface
}

func (c *ControlPlane) client() kubernetes.Interface { return c.access.Load().client }

// New returns a control plane. It starts no processes and writes no files.
func New(o Options) (*ControlPlane, error) {
	dir, err := filepath.Abs(o.Dir) // the components use it as working directory
	if err != nil {
		return nil, fmt.Errorf("resolving the state directory of the control plane: %w", err)
	}
	o.Dir = dir
	o.LogDir = cmp.Or(o.LogDir, filepath.Join(dir, "logs"))
	o.Kubeconfig = cmp.Or(o.Kubeconfig, filepath.Join(dir, "kubeconfig"))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &ControlPlane{o: o}, nil
}

// Steps implements daemon.Cluster. After the Start steps, the administrator's kubeconfig works and Cluster may be
// called. The Complete steps wait for the default roles and the controllers.
func (c *ControlPlane) Steps() cluster.Steps {
	return cluster.Steps{
		Prepare: []cluster.Step{{Name: "Preparing certificates", Run: c.prepare, Undo: c.Down}},
		Start: []cluster.Step{{Name: "Starting etcd", Run: c.startEtcd},
			{Name: "Starting kube-apiserver", Run: c.startAPIServer}},
		Complete: []cluster.Step{
			{Name: "Starting kube-controller-manager and kube-scheduler", Run: c.startControllers}},
	}
}

// Cluster implements daemon.Cluster. Call it after the step "Starting kube-apiserver".
func (c *ControlPlane) Cluster() *cluster.Cluster {
	return &cluster.Cluster{Kubeconfig: c.o.Kubeconfig, Config: c.access.Load().config, Version: c.version}
}

func (c *ControlPlane) contextName() string { return "koup-" + c.o.Owner.Sandbox }

// Down stops the components in reverse order and joins the errors. It keeps the data. It takes a few milliseconds;
// with Durable, as long as etcd takes to close its files.
func (c *ControlPlane) Down(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Backward(componentNames) {
		errs = append(errs, c.o.Supervisor.Stop(ctx, name))
	}
	return errors.Join(errs...)
}

// prepare creates the certificates, assigns the ports, and writes the kubeconfigs.
func (c *ControlPlane) prepare(context.Context) error {
	if err := os.MkdirAll(c.o.Dir, 0o700); err != nil {
		return fmt.Errorf("creating the state directory of the control plane: %w", err)
	}
	if c.o.Wipe {
		if err := os.RemoveAll(c.etcdDir()); err != nil {
			return fmt.Errorf("deleting the etcd data: %w", err)
		}
	}
	c.hadData = c.hasData()
	p, replaced, err := makePKI(c.pkiDir(), certificates())
	if err != nil {
		return fmt.Errorf("creating the certificates of the control plane: %w", err)
	}
	if replaced != "" {
		c.o.Logger.Warn("replaced a CA certificate; earlier kubeconfigs may no longer work", "reason", replaced)
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

// assignPorts chooses ports for the named components and writes the files that contain these ports. The named
// components must not be running. A component keeps its port in known, the current or previous ports of all
// components, if this port is free.
func (c *ControlPlane) assignPorts(known ports, names ...string) error {
	known = maps.Clone(known)
	if c.o.Listen.IsValid() {
		known[apiserver] = int(c.o.Listen.Port())
	}
	if err := known.pick(names...); err != nil {
		return err
	}
	if c.o.Listen.IsValid() && known[apiserver] != int(c.o.Listen.Port()) {
		return fmt.Errorf("the Kubernetes API cannot listen on %s: the port is in use; set another port "+
			"in spec.api.listen", c.o.Listen)
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
		return fmt.Errorf("reading the new kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for the control plane: %w", err)
	}
	c.access.Store(&access{ports: known, config: config, client: client})
	return nil
}

// startEtcd starts etcd and the API server, and blocks until etcd is ready. It starts both at the same time because
// they take about the same time to load.
func (c *ControlPlane) startEtcd(ctx context.Context) error {
	if err := c.launch(ctx, etcd, apiserver); err != nil {
		return err
	}
	err := c.waitUntil(ctx, etcd, c.etcdReady)
	if exited(err) && c.hadData {
		return fmt.Errorf("etcd did not start with the data of an earlier run in %s; delete the data to "+
			"start with an empty cluster: %w", c.etcdDir(), err)
	}
	return err
}

// startAPIServer blocks until the administrator can use the API, for example to apply manifests. Other clients cannot
// use the API until the default roles exist.
func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	if err := c.waitUntil(ctx, apiserver, c.namespacesExist); err != nil {
		return err
	}
	version, err := cluster.ServerVersion(ctx, c.access.Load().config)
	c.version = version
	return err
}

// startControllers starts the controller manager and the scheduler as soon as the API server is healthy, and blocks
// until they are ready. It does not wait for the default roles before it starts them, because the controller manager
// checks the health of the API server only once per second.
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

// waitUntil blocks until a component is ready. If the component exits because its port is in use, waitUntil assigns
// another port and restarts the component and the components that connect to it.
func (c *ControlPlane) waitUntil(ctx context.Context, name string, ready func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := c.o.Supervisor.WaitUntil(ctx, name, ready)
		if attempt == portAttempts || !supervise.PortTaken(err, net.JoinHostPort(Host, c.port(name))) {
			return err
		}
		c.o.Logger.Info("restarting a component on another port, because its port is in use", "component",
			name, "port", c.port(name))
		if err := c.moveToOtherPort(ctx, name); err != nil {
			return err
		}
	}
}

// moveToOtherPort stops a component and the components that connect to it, assigns new ports, and restarts the
// components that were running.
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
