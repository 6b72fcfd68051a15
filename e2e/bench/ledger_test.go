package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// kept is what a ledger holds, in whole seconds.
type kept struct{ Early, Gone, Gaps, Wrong, Left, Apart []int }

// The base's times are those of the steps; Pods are judged when they come, so
// that a step of a Pod ends what a step of the base began by the base's clock.
func TestLedger(t *testing.T) {
	begin := time.Now()
	at := func(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }
	biz := func(second int, version string, to fakebase.State) func(*ledger) {
		return func(l *ledger) {
			l.base("a", fakebase.Event{Kind: fakebase.EventBiz, Time: at(second), Biz: app, Version: version, To: to})
		}
	}
	pod := func(version string, ready, deleted bool) func(*ledger) {
		return func(l *ledger) {
			p := module.Pod(namespace, version, module.Template(app, module.Container(app, version)))
			p.UID, p.Spec.NodeName, p.Status.Phase = types.UID(version), "a", corev1.PodRunning
			if ready {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			if deleted {
				p.DeletionTimestamp = ptr.To(metav1.Now())
			}
			l.pod(watch.Event{Type: watch.Modified, Object: p})
		}
	}
	active, off, stopped := fakebase.StateActivated, fakebase.StateDeactivated, fakebase.StateStopped
	served := []func(*ledger){biz(0, "1", active), pod("1", true, false)}

	for _, c := range []struct {
		name  string
		steps []func(*ledger)
		want  kept
	}{
		{"a switch leaves no gap", []func(*ledger){biz(1, "1", off), biz(1, "2", active)}, kept{}},
		{"a gap", []func(*ledger){pod("1", true, true), biz(1, "1", off), biz(4, "2", active)}, kept{Gone: []int{1}, Gaps: []int{3}}},
		{"a Pod that says Ready for two seconds after the switch", []func(*ledger){
			biz(1, "1", off), biz(1, "2", active), biz(3, "1", active),
		}, kept{Wrong: []int{2}, Apart: []int{2}}},
		{"its module goes meanwhile, and another one's change is nothing to it", []func(*ledger){
			biz(1, "2", active), pod("1", true, true), biz(2, "1", stopped), biz(2, "3", off), biz(7, "1", active),
		}, kept{Left: []int{5}}},
		{"a Pod that is Ready before its version is active", []func(*ledger){pod("2", true, false)}, kept{Early: []int{1}}},
		{"another module", []func(*ledger){func(l *ledger) {
			l.base("a", fakebase.Event{Kind: fakebase.EventBiz, Time: at(1), Biz: "other", Version: "1", To: off})
		}}, kept{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger(app)
			for _, step := range append(served, c.steps...) {
				step(l)
			}
			seconds := func(spans []span) (list []int) {
				for _, s := range spans {
					if n := int(s.length().Round(time.Second).Seconds()); n > 0 {
						list = append(list, n)
					}
				}
				return list
			}
			got := kept{Gaps: seconds(l.gaps), Wrong: seconds(l.wrong), Left: seconds(l.left), Apart: seconds(l.apart)}
			for range l.early {
				got.Early = append(got.Early, 1)
			}
			for range l.gone {
				got.Gone = append(got.Gone, 1)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the ledger (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVigil(t *testing.T) {
	begin := time.Now()
	v := &vigil{renewed: map[string]time.Time{}, limit: map[string]time.Duration{"a": 40 * time.Second, "b": 40 * time.Second}, missed: map[string]bool{}}
	for _, renewal := range []struct {
		name   string
		second int
	}{{"a", 0}, {"b", 5}, {"a", 40}, {"b", 46}, {"a", 50}} {
		at := begin.Add(time.Duration(renewal.second) * time.Second)
		v.passed(renewal.name, at)
		v.renewed[renewal.name] = at
	}
	if diff := cmp.Diff(map[string]bool{"b": true}, v.missed); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
	if v.seen.longest != 41*time.Second {
		t.Errorf("longest %s, want 41s", v.seen.longest)
	}
}
