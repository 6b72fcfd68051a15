package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/apiview"
	"github.com/koupleless/koupsandbox/sandbox/internal/component"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
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
	case errors.Is(err, apiview.ErrNone) && inCluster(d.configNow()):
		return "", &control.Error{Code: http.StatusConflict, Message: "the controllers run in the cluster, where nothing stands between them and the API server: bring the sandbox up with --controller host"}
	case errors.Is(err, apiview.ErrNone), errors.Is(err, apiview.ErrTwice):
		return "", &control.Error{Code: http.StatusConflict, Message: err.Error()}
	case errors.Is(err, apiview.ErrUnknown):
		return "", asNotFound(err)
	default:
		return r.Rule.ID, err
	}
}

// killController kills the n-th controller, as its rule wants.
func (d *Daemon) killController(n int) {
	if err := d.Act(context.Background(), control.ActRequest{Component: runner.NameOf(n), Action: component.Kill}); err != nil {
		d.log.Error("killing a controller", "controller", n, "err", err)
	}
}

// ClearAPIRule ends a rule, or all.
func (d *Daemon) ClearAPIRule(id string) error {
	running, err := d.isUp()
	if err != nil {
		return err
	}
	return asNotFound(running.view.Clear(id))
}

// APIView tells the rules of a group, of all if it is empty.
func (d *Daemon) APIView(group string) (control.APIView, error) {
	running, err := d.isUp()
	if err != nil {
		return control.APIView{}, err
	}
	return running.view.View(group), nil
}
