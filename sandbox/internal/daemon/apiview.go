package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/apiview"
	"github.com/koupleless/koupsandbox/sandbox/internal/component"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
)

// SetAPIRule disturbs what controllers see of the Kubernetes API.
func (d *Daemon) SetAPIRule(ctx context.Context, r control.APIRuleRequest) (string, error) {
	ctx, running, release, err := d.using(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	v1alpha1.SetAPIRuleDefaults(&r.Rule)
	if problems := v1alpha1.ValidateAPIRule(&r.Rule); len(problems) > 0 {
		return "", &control.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf("this is no rule: %v", problems.ToAggregate())}
	}
	switch err := running.view.Set(ctx, r.Rule, r.Replica, r.Group); {
	case errors.Is(err, apiview.ErrNone) && running.topology.Controllers != thisMachine:
		return "", &control.Error{Code: http.StatusConflict, Message: "the controllers run in the cluster, where nothing stands between them and the API server: bring the sandbox up with --controller host"}
	case errors.Is(err, apiview.ErrNone), errors.Is(err, apiview.ErrTwice):
		return "", &control.Error{Code: http.StatusConflict, Message: err.Error()}
	case errors.Is(err, apiview.ErrUnknown):
		return "", asNotFound(err)
	default:
		return r.Rule.ID, err
	}
}

// mostNodes is how many Nodes are remembered with the groups of their bases.
const mostNodes = 1 << 16

// groupOf tells to which group an object of the API belongs that controllers write: by its namespace,
// which a run of a scenario shares its name with, or by the base behind a Node.
func (d *Daemon) groupOf(f *fleet.Fleet, n *nodes.Watch) func(namespace, name string) string {
	var mu sync.Mutex
	known := map[string]string{} // a Node is written after its base has gone, too
	return func(namespace, name string) string {
		if namespace != "" {
			if d.streams.knows(namespace) {
				return namespace
			}
			return ""
		}
		mu.Lock()
		defer mu.Unlock()
		if group, is := known[name]; is {
			return group
		}
		m, is := f.ByIdentity(n.Identity(name))
		if !is {
			return ""
		}
		if len(known) < mostNodes {
			known[name] = m.Group
		}
		return m.Group
	}
}

// killController kills the n-th controller, as its rule wants; the first if nobody knows which it is.
func (d *Daemon) killController(n int) {
	n = max(n, 1)
	if err := d.Act(context.Background(), control.ActRequest{Component: runner.NameOf(n), Action: component.Kill}); err != nil {
		d.log.Error("killing a controller", "controller", n, "err", err)
	}
}

// ClearAPIRule ends a rule of a group, or all.
func (d *Daemon) ClearAPIRule(group, id string) error {
	running, err := d.isUp()
	if err != nil {
		return err
	}
	return asNotFound(running.view.Clear(group, id))
}

// APIView tells the rules of a group, of all if it is empty.
func (d *Daemon) APIView(group string) (control.APIView, error) {
	running, err := d.isUp()
	if err != nil {
		return control.APIView{}, err
	}
	return running.view.View(group), nil
}
