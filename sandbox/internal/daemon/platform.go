package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/embedded"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/existing"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// loopback is the address at which this machine reaches itself.
const loopback = "127.0.0.1"

// platform is where the Kubernetes API comes from.
type platform interface {
	// API lists the steps after which the API answers, in their order.
	API() []cluster.Step
	// Rest lists the steps that may go on beside everything that needs the API only.
	Rest() []cluster.Step
	// Cluster describes the API; call it after API.
	Cluster() *cluster.Cluster
	// Client returns a client of the API; call it after API.
	Client() (kubernetes.Interface, error)
	// Admit gives the module controller its rights, and returns its kubeconfig.
	Admit(ctx context.Context) (kubeconfig string, err error)
	// Serving issues a certificate for hosts, and names the file of the authority
	// to trust; call it after the first step of API.
	Serving(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error)
	// Host is the address of this machine at which the API server reaches it.
	Host() string
	// KubeletClientCA names the file of the authority behind the certificate with which
	// the API server calls kubelets; empty if the API server can't reach this machine.
	KubeletClientCA() string
	// Hard tells whether the controller may be ended without a word, because
	// nothing that it would tidy up outlives it.
	Hard() bool
	// Down stops what runs, and removes from a cluster that stays what was made
	// in it.
	Down(ctx context.Context) error
}

// componentPlatform is a platform that is no processes of this machine, and tells how it is all the same.
type componentPlatform interface {
	Component(ctx context.Context) control.Component
}

// guardedPlatform is a platform that looks after its Nodes for as long as the sandbox is up.
type guardedPlatform interface {
	GuardNodes(ctx context.Context)
}

// EffectiveProvider is the provider of a configuration, or embedded where auto was not settled: it needs nothing but this machine.
func EffectiveProvider(s *v1alpha1.Sandbox) v1alpha1.Provider {
	if s.Spec.Provider == v1alpha1.ProviderAuto {
		return v1alpha1.ProviderEmbedded
	}
	return s.Spec.Provider
}

// newPlatform makes the platform of a configuration; note is told what a person should know.
func newPlatform(d *Daemon, config *v1alpha1.Sandbox, note func(string)) (platform, error) {
	switch provider := EffectiveProvider(config); provider {
	case v1alpha1.ProviderEmbedded:
		c, err := embedded.New(embedded.Options{
			Sandbox:    config.Metadata.Name,
			Dir:        string(d.o.Dir),
			Binary:     d.o.Programs.ControlPlane,
			Supervisor: d.supervisor,
			Durable:    config.Spec.Durable,
			Wipe:       !config.Spec.Durable, // data that was never synced to disk is not to be trusted
			LogDir:     d.o.Dir.Logs(),
			Kubeconfig: d.o.Dir.Kubeconfig(),
			Logger:     d.log,
		})
		if err != nil {
			return nil, err
		}
		return &embeddedPlatform{ControlPlane: c, dir: d.o.Dir, durable: config.Spec.Durable}, nil
	case v1alpha1.ProviderExisting:
		p, err := newExisting(config)
		if err != nil {
			return nil, err
		}
		return &existingPlatform{Provider: p, dir: d.o.Dir, bases: d.everyBase}, nil
	case v1alpha1.ProviderKind:
		return newKind(d.o.Dir, config, note, d.log)
	default:
		return nil, fmt.Errorf("provider %q is not in this build", provider)
	}
}

// embeddedPlatform is a control plane of this machine.
type embeddedPlatform struct {
	*embedded.ControlPlane
	dir     state.Dir
	durable bool
}

// split is the number of steps after which the API answers: all but the last,
// which starts the controllers of Kubernetes.
func (p *embeddedPlatform) split() (steps []cluster.Step, split int) {
	steps = p.Steps()
	return steps, len(steps) - 1
}

func (p *embeddedPlatform) API() []cluster.Step {
	steps, split := p.split()
	return steps[:split]
}

func (p *embeddedPlatform) Rest() []cluster.Step {
	steps, split := p.split()
	return steps[split:]
}

func (p *embeddedPlatform) Client() (kubernetes.Interface, error) { return newClient(p.Cluster()) }

func (p *embeddedPlatform) Admit(ctx context.Context) (string, error) {
	if _, err := applyRights(ctx, p.Cluster()); err != nil {
		return "", err
	}
	path := p.dir.ControllerKubeconfig()
	return path, p.WriteKubeconfig(path, deploy.User, nil)
}

func (p *embeddedPlatform) Host() string { return loopback }

func (p *embeddedPlatform) KubeletClientCA() string { return p.KubeletClientCAFile() }

func (p *embeddedPlatform) Serving(hosts ...string) ([]byte, []byte, string, error) {
	certPEM, keyPEM, err := p.IssueServing(hosts...)
	return certPEM, keyPEM, p.CAFile(), err
}

func (p *embeddedPlatform) Hard() bool { return !p.durable }

// existingPlatform is a cluster that the user named.
type existingPlatform struct {
	*existing.Provider
	dir   state.Dir
	bases func() map[string]bool // identities of all bases there have been
	ours  bool                   // the check allowed its use
	made  []madeObject           // by Admit
}

func newExisting(config *v1alpha1.Sandbox) (*existing.Provider, error) {
	c := config.Spec.Cluster
	return existing.New(existing.Options{
		Sandbox: config.Metadata.Name, Kubeconfig: c.Kubeconfig, Context: c.Context, Consent: c.Consent,
	})
}

func (p *existingPlatform) API() []cluster.Step {
	steps := p.Steps()
	check := steps[0].Run
	steps[0].Run = func(ctx context.Context) error {
		err := check(ctx)
		p.ours = err == nil
		if errors.Is(err, existing.ErrConsent) {
			err = fmt.Errorf("%w; give it with --i-know-what-i-do, or spec.cluster.consent", err)
		}
		return err
	}
	return append(steps, cluster.Step{Name: "Writing kubeconfig", Run: p.writeKubeconfig})
}

func (p *existingPlatform) Rest() []cluster.Step { return nil }

func (p *existingPlatform) Client() (kubernetes.Interface, error) { return newClient(p.Cluster()) }

// Admit lets the controller act as the user: only the user can say what else a
// cluster that is not ours should trust.
func (p *existingPlatform) Admit(ctx context.Context) (string, error) {
	made, err := applyRights(ctx, p.Cluster())
	p.made = made
	return p.dir.Kubeconfig(), err
}

// writeKubeconfig copies the one context that is used, with all it refers to.
func (p *existingPlatform) writeKubeconfig(context.Context) error {
	c := p.Cluster()
	raw, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err == nil {
		raw.CurrentContext = c.Context
		err = clientcmdapi.MinifyConfig(raw)
	}
	if err == nil {
		err = clientcmdapi.FlattenConfig(raw)
	}
	if err == nil {
		err = clientcmd.WriteToFile(*raw, p.dir.Kubeconfig())
	}
	if err != nil {
		return fmt.Errorf("copying context %q: %w", c.Context, err)
	}
	return nil
}

// Serving makes a certificate that is its own authority: the cluster's is not
// ours to use.
func (p *existingPlatform) Serving(hosts ...string) ([]byte, []byte, string, error) {
	caFile := p.dir.BrokerCA()
	var ips []net.IP
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			ips = append(ips, ip)
		}
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(hosts[0], ips, hosts[1:])
	if err == nil {
		err = state.WriteFile(caFile, certPEM)
	}
	if err != nil {
		return nil, nil, "", fmt.Errorf("making the broker's certificate: %w", err)
	}
	return certPEM, keyPEM, caFile, nil
}

// Host is loopback, though that cluster's API server need not reach it.
func (p *existingPlatform) Host() string { return loopback }

// KubeletClientCA is unknown: that cluster's API server need not reach this machine's loopback.
func (p *existingPlatform) KubeletClientCA() string { return "" }

func (p *existingPlatform) Hard() bool { return false }

func (p *existingPlatform) Down(ctx context.Context) error {
	if !p.ours {
		return nil
	}
	client, err := p.Client()
	if err != nil {
		return err
	}
	bases := p.bases()
	err = errors.Join(removeNodes(ctx, client, vnodeSelector, func(id string) bool { return bases[id] }), removeRights(ctx, p.Cluster(), p.made))
	return errors.Join(err, p.Provider.Down(ctx))
}
