package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/kind"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/incluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const (
	clusterName = "kind-cluster"
	// clusterTime bounds the question whether the cluster answers.
	clusterTime = time.Second
)

// kindPlatform is a cluster of kind.
type kindPlatform struct {
	*kind.Provider
	dir       state.Dir
	authority *authority
}

func kindOptions(dir state.Dir, config *v1alpha1.Sandbox, note func(string), log *slog.Logger) kind.Options {
	k := config.Spec.Kind
	return kind.Options{
		Sandbox: config.Metadata.Name, Dir: string(dir), Kubeconfig: dir.Kubeconfig(), LogDir: dir.Logs(),
		Engine: string(k.Engine), Nodes: k.Nodes, Image: k.Image, Version: k.Version, Note: note, Logger: log,
	}
}

func newKind(dir state.Dir, config *v1alpha1.Sandbox, note func(string), log *slog.Logger) (platform, error) {
	p, err := kind.New(kindOptions(dir, config, note, log))
	if err != nil {
		return nil, err
	}
	authority, err := newAuthority("koupsandbox " + config.Metadata.Name)
	if err != nil {
		return nil, err
	}
	return &kindPlatform{Provider: p, dir: dir, authority: authority}, nil
}

func (p *kindPlatform) API() []cluster.Step { return p.Steps() }

func (p *kindPlatform) Client() (kubernetes.Interface, error) { return newClient(p.Cluster()) }

// Admit lets the controller come as the administrator and act as the user of its own rights: it has no others, and no
// certificate must be signed by the cluster for it.
func (p *kindPlatform) Admit(ctx context.Context) (string, error) {
	if _, err := applyRights(ctx, p.Cluster()); err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(p.dir.Kubeconfig())
	if err == nil {
		for _, user := range config.AuthInfos {
			user.Impersonate = deploy.User
		}
		err = clientcmd.WriteToFile(*config, p.dir.ControllerKubeconfig())
	}
	if err != nil {
		return "", fmt.Errorf("writing the controller's kubeconfig: %w", err)
	}
	return p.dir.ControllerKubeconfig(), nil
}

// RemoveController takes a controller that an earlier daemon has deployed out of a cluster that is used as it is: it would go on to hold the
// Leases of bases.
func (p *kindPlatform) RemoveController(ctx context.Context) error {
	c, err := incluster.New(incluster.Options{Config: p.Cluster().Config})
	if err != nil {
		return err
	}
	return c.Remove(ctx)
}

// Serving issues certificates of an authority of the sandbox's own.
func (p *kindPlatform) Serving(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error) {
	caFile = p.dir.BrokerCA()
	if err := state.WriteFile(caFile, p.authority.pem); err != nil {
		return nil, nil, "", fmt.Errorf("writing the sandbox's authority: %w", err)
	}
	certPEM, keyPEM, err = p.authority.issue(hosts...)
	return certPEM, keyPEM, caFile, err
}

// Host is this machine's address in the engine's network.
func (p *kindPlatform) Host() string { return p.Gateway() }

// KubeletClientCA is the cluster's one authority, which signs for others than the API server too; but a caller needs the right to
// nodes/proxy as well.
func (p *kindPlatform) KubeletClientCA() string {
	if p.Gateway() == "" {
		return ""
	}
	path := filepath.Join(string(p.dir), "cluster-ca.crt")
	if err := state.WriteFile(path, p.Cluster().Config.CAData); err != nil {
		return "" // the controller then serves no logs
	}
	return path
}

// Component tells whether the cluster's API answers.
func (p *kindPlatform) Component(ctx context.Context) control.Component {
	ctx, cancel := context.WithTimeoutCause(ctx, clusterTime, fmt.Errorf("not within %s", clusterTime))
	defer cancel()
	c := control.Component{Name: clusterName, State: string(supervise.Running), Ready: true}
	if _, err := cluster.ServerVersion(ctx, p.Cluster().Config); err != nil {
		c.State, c.Ready, c.Reason = string(supervise.Exited), false, err.Error()
	}
	return c
}

// Hard: the cluster goes with the sandbox, and all that the controller would tidy up with it.
func (p *kindPlatform) Hard() bool { return true }
