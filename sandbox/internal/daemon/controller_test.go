package daemon

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

func proxyTo(t *testing.T, addr string) func(*http.Request) (*url.URL, error) {
	t.Helper()
	u, err := url.Parse("http://" + addr)
	check.Must(t, err)
	return http.ProxyURL(u)
}

func (b *fixture) controllers() map[string]int {
	b.t.Helper()
	status, err := b.Status(b.t.Context(), false)
	check.Must(b.t, err)
	pids := map[string]int{}
	for _, c := range status.Components {
		if strings.HasPrefix(c.Name, runner.Name) && c.Ready {
			pids[c.Name] = c.PID
		}
	}
	return pids
}

func TestSetController(t *testing.T) {
	b := newFixture(t)
	r := request("good", 1)
	two := 2
	r.Config.Spec.Controller.Replicas = &two
	b.up(r)
	first := b.controllers()
	if len(first) != 2 || first["module-controller-2"] == 0 {
		t.Fatalf("controllers after up: %v", first)
	}
	set := func(r control.ControllerRequest) control.ControllerRequest {
		t.Helper()
		before, err := b.SetController(t.Context(), r)
		check.Must(t, err)
		return before
	}
	if before := set(control.ControllerRequest{Replicas: 3}); before.Replicas != 0 || before.Env != nil {
		t.Errorf("previous request: %+v", before)
	}
	third := b.controllers()
	if len(third) != 3 || third["module-controller"] != first["module-controller"] ||
		third["module-controller-2"] != first["module-controller-2"] {
		t.Errorf("controllers %v became %v; unchanged controllers must not restart", first, third)
	}
	if err := b.Act(t.Context(),
		control.ActRequest{Component: "module-controller-3", Action: supervise.Kill}); err != nil {
		t.Error(err)
	}
	env := control.ControllerRequest{Replicas: 1, Env: map[string]string{"MODULE_DRAIN": "0s"}}
	if diff := cmp.Diff(control.ControllerRequest{Replicas: 3}, set(env)); diff != "" {
		t.Errorf("previous request (-want +got):\n%s", diff)
	}
	one := b.controllers()
	if len(one) != 1 || one["module-controller"] == first["module-controller"] {
		t.Errorf("controllers with another environment: %v; before: %v", one, first)
	}
	if status, err := b.Status(t.Context(), false); err != nil || !status.Healthy {
		t.Errorf("status after the removal of surplus controllers: %+v, %v", status, err)
	}

	for want, r := range map[string]control.ControllerRequest{
		"must be between 1 and 9": {Replicas: 99},
		"is set by the sandbox":   {Env: map[string]string{"MQTT_PORT": "1"}},
		"exit status 3":           {Env: map[string]string{roleVariable: "broken"}},
		"is not a valid env":      {Env: map[string]string{"a b": "1"}},
	} {
		if _, err := b.SetController(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("request %+v: error %v; want %q", r, err, want)
		}
		if got := b.controllers(); len(got) != 1 {
			t.Errorf("after request %+v: controllers %v", r, got)
		}
	}
	if diff := cmp.Diff(env, set(control.ControllerRequest{})); diff != "" {
		t.Errorf("request after failures (-want +got):\n%s", diff)
	}
	if last := b.controllers(); len(last) != 2 {
		t.Errorf("controllers with the configured settings: %v", last)
	}
}
