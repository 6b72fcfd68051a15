package containers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fault is what happens to a container, and what makes it good again.
type fault struct {
	strike, heal func(context.Context) error
}

// begin lets the fault happen. Call end to make it good again; otherwise the end of the
// test does.
func (f fault) begin(t *testing.T) (end func()) {
	t.Helper()
	must(t, f.strike(t.Context()))
	end = sync.OnceFunc(func() { must(t, f.heal(context.WithoutCancel(t.Context()))) })
	t.Cleanup(end)
	return end
}

// A base that cannot be reached for a while: what it serves nobody gets, and the API
// says so; the other base notices nothing. Afterwards everything is as before, and
// nothing was installed again.
func TestBaseIsAway(t *testing.T) {
	lost := all.bases[0]
	for name, fault := range map[string]fault{
		"network": {lost.disconnect, lost.connect},
		"pause":   {lost.pause, lost.unpause},
	} {
		t.Run(name, func(t *testing.T) {
			r := deploy(t, "away-"+name, "1.0.0")
			before := lost.history(t, r.module)
			uids := r.uids(t)

			heal := fault.begin(t)
			if got, err := lost.version(t.Context(), r.module); err == nil {
				t.Errorf("a base that is away serves version %q", got)
			}
			eventually(t, "Node and Pod are not Ready", func(ctx context.Context) error {
				if err := nodeIs(ctx, lost, false); err != nil {
					return err
				}
				return r.podIs(ctx, lost, false)
			})
			must(t, r.well(t.Context(), all.bases[1], "1.0.0"))

			heal()
			eventually(t, "all is well again", func(ctx context.Context) error { return r.wellEverywhere(ctx, "1.0.0") })
			if diff := cmp.Diff(uids, r.uids(t)); diff != "" {
				t.Errorf("Pods (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(before, lost.history(t, r.module)); diff != "" {
				t.Errorf("life of the module (-before +after):\n%s", diff)
			}
		})
	}
}

// uids are the Pods of the release by name.
func (r release) uids(t *testing.T) map[string]string {
	t.Helper()
	list, err := kube.CoreV1().Pods(r.namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	found := map[string]string{}
	for _, p := range list.Items {
		found[p.Name] = string(p.UID)
	}
	return found
}

// A base that was killed is gone, with its Pod. When its container is started again,
// the module is installed there anew.
func TestBaseIsKilled(t *testing.T) {
	killed := all.bases[0]
	r := deploy(t, "killed", "1.0.0")
	before := killed.history(t, r.module)
	heal := fault{killed.kill, killed.start}.begin(t)
	if got, err := killed.version(t.Context(), r.module); err == nil {
		t.Errorf("a base that was killed serves version %q", got)
	}
	eventually(t, "its Node and its Pod are gone", func(ctx context.Context) error {
		if err := nodeIsGone(ctx, killed); err != nil {
			return err
		}
		pods, err := r.pods(ctx, killed)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are still %d Pods", len(pods))
		}
		return err
	})
	must(t, r.well(t.Context(), all.bases[1], "1.0.0"))
	heal()
	eventually(t, "all is well again", func(ctx context.Context) error { return r.wellEverywhere(ctx, "1.0.0") })
	if killed.history(t, r.module) == before {
		t.Error("the module has the life of before, although it was installed anew")
	}
}

// The broker halts, or dies and comes back: modules serve all the time, and nothing
// is installed again.
func TestBrokerIsAway(t *testing.T) {
	for name, fault := range map[string]struct {
		fault
		problem string // that status tells meanwhile
	}{
		"pause": {fault{all.broker.pause, all.broker.unpause}, ""},
		"kill":  {fault{all.broker.kill, all.broker.start}, "the broker " + all.files.URL() + " cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			r := deploy(t, "broker-"+name, "1.0.0")
			before := map[string]string{}
			for _, b := range all.bases {
				before[b.name] = b.history(t, r.module)
			}
			uids := r.uids(t)
			users := requests(t, r)

			heal := fault.begin(t)
			eventually(t, "the Nodes say that nothing is concluded from the silence of the bases", func(ctx context.Context) error {
				for _, b := range all.bases {
					if err := isUnobserved(ctx, b); err != nil {
						return err
					}
				}
				status, err := up.Status(ctx, true)
				if err == nil && !strings.Contains(strings.Join(status.Problems, "\n"), fault.problem) {
					err = fmt.Errorf("status: %q", status.Problems)
				}
				return err
			})
			for _, b := range all.bases { // the controller's blindness is no death of bases
				must(t, nodeIs(t.Context(), b, true))
			}
			heal()
			eventually(t, "all is well again", func(ctx context.Context) error {
				if err := r.wellEverywhere(ctx, "1.0.0"); err != nil {
					return err
				}
				status, err := up.Status(ctx, true)
				if err == nil && !status.Healthy {
					err = fmt.Errorf("status: %q", status.Problems)
				}
				return err
			})
			users.end(t, "1.0.0")
			if diff := cmp.Diff(uids, r.uids(t)); diff != "" {
				t.Errorf("Pods (-before +after):\n%s", diff)
			}
			for _, b := range all.bases {
				if diff := cmp.Diff(before[b.name], b.history(t, r.module)); diff != "" {
					t.Errorf("life of the module on %s (-before +after):\n%s", b.name, diff)
				}
			}
		})
	}
}
