package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/embedded"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/existing"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/kind"
	"github.com/koupleless/koupsandbox/sandbox/internal/pods"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner/incluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

type clusterOptions struct {
	dir        state.Dir
	config     *v1alpha1.Sandbox
	programs   Binaries
	supervisor *supervise.Supervisor
	notify     func(string) // shows a message to the user
	log        *slog.Logger
}

// EffectiveProvider returns the provider of a configuration. While the provider auto is not resolved, it returns
// embedded, which has no external dependencies.
func EffectiveProvider(s *v1alpha1.Sandbox) v1alpha1.Provider {
	if s.Spec.Provider == v1alpha1.ProviderAuto {
		return v1alpha1.ProviderEmbedded
	}
	return s.Spec.Provider
}

// openCluster creates the Cluster for a configuration. It does not start the cluster.
func openCluster(o clusterOptions) (Cluster, error) {
	switch EffectiveProvider(o.config) {
	case v1alpha1.ProviderKind:
		options, err := kindOptions(o.dir, o.config)
		if err != nil {
			return nil, err
		}
		options.Notify, options.Logger = o.notify, o.log
		return asCluster(kind.New(options))
	case v1alpha1.ProviderExisting:
		return asCluster(newExisting(o.dir, o.config, o.log))
	default:
		options, err := embeddedOptions(o)
		if err != nil {
			return nil, err
		}
		return asCluster(embedded.New(options))
	}
}

// asCluster converts the result of a provider's New function to a Cluster. If err is not nil, it returns a nil
// Cluster, and not a Cluster that contains a nil pointer.
func asCluster[C Cluster](c C, err error) (Cluster, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// CleanUp removes the objects of a sandbox whose daemon is not running. It deletes a kind cluster. In an existing
// cluster, it removes the Nodes of the sandbox's bases, the objects with the label of the sandbox, and the ownership
// marker. An embedded cluster needs no cleanup here, because run records identify its processes.
func CleanUp(ctx context.Context, dir state.Dir, config *v1alpha1.Sandbox) error {
	switch EffectiveProvider(config) {
	case v1alpha1.ProviderKind:
		o, err := kindOptions(dir, config)
		if err != nil {
			return err
		}
		return kind.CleanUp(ctx, o)
	case v1alpha1.ProviderExisting:
		return forgetExisting(ctx, dir, config)
	default:
		return nil
	}
}

func ownerOf(dir state.Dir, config *v1alpha1.Sandbox) (cluster.Owner, error) {
	place, err := dir.Location()
	return cluster.Owner{Sandbox: config.Metadata.Name, Place: place}, err
}

func embeddedOptions(o clusterOptions) (embedded.Options, error) {
	owner, err := ownerOf(o.dir, o.config)
	listen, _ := netip.ParseAddrPort(o.config.Spec.API.Listen) // already validated
	return embedded.Options{
		Owner:      owner,
		Dir:        string(o.dir),
		Binary:     o.programs.ControlPlane,
		Supervisor: o.supervisor,
		Durable:    o.config.Spec.Durable,
		Speed:      o.config.Spec.Speed,
		Listen:     listen,
		Wipe:       !o.config.Spec.Durable, // without fsync, the data may be corrupt
		LogDir:     o.dir.Logs(),
		Kubeconfig: o.dir.Kubeconfig(),
		Logger:     o.log,
	}, err
}

func kindOptions(dir state.Dir, config *v1alpha1.Sandbox) (kind.Options, error) {
	owner, err := ownerOf(dir, config)
	k := config.Spec.Kind
	return kind.Options{
		Owner: owner, Dir: string(dir), Kubeconfig: dir.Kubeconfig(), LogDir: dir.Logs(),
		Engine: string(k.Engine), Nodes: k.Nodes, Image: k.Image, Version: k.Version, Durable: config.Spec.Durable,
	}, err
}

func newExisting(dir state.Dir, config *v1alpha1.Sandbox, log *slog.Logger) (*existing.Provider, error) {
	owner, err := ownerOf(dir, config)
	if err != nil {
		return nil, err
	}
	c := config.Spec.Cluster
	return existing.New(existing.Options{
		Owner: owner, Kubeconfig: c.Kubeconfig, Context: c.Context, Consent: c.Consent, Env: config.Spec.Env, Dir: dir,
		Logger: log,
	})
}

func forgetExisting(ctx context.Context, dir state.Dir, config *v1alpha1.Sandbox) (err error) {
	label, err := dir.Label()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\nobjects of this sandbox in the cluster have the label %s=%s; its Nodes have "+
				"the label %s=%s",
				err, cluster.SandboxLabel, label, labels.Env, config.Spec.Env)
		}
	}()
	p, err := newExisting(dir, config, nil)
	if err != nil {
		return err
	}
	client, err := cluster.NewClient(p.Cluster())
	if err != nil {
		return err
	}
	marked, err := p.Marked(ctx)
	var other *cluster.OtherSandboxError
	if err != nil && !errors.As(err, &other) {
		return err
	}
	err = pods.Remove(ctx, client, label) // even if the user has deleted the ownership marker
	if config.Spec.Controller.Location == v1alpha1.LocationCluster {
		err = errors.Join(err, incluster.CleanUp(ctx, p.Cluster().Config, label))
	}
	err = errors.Join(err, p.CleanUp(ctx, nil))
	if err != nil {
		return err // keep the marker, so that the next attempt continues
	}
	if !marked {
		return nil
	}
	return p.Down(ctx)
}
