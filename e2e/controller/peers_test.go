package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// peer makes a Deployment whose replicas the controller sets; with own, it is
// labelled to keep those it has.
func peer(t *testing.T, ns, app, baseName string, own bool) *appsv1.Deployment {
	t.Helper()
	spec := one(app, "1.0.0", baseName)
	module.OnePerBase(&spec)
	d := module.Deployment(ns, app, 1, spec)
	d.Labels = map[string]string{
		"virtual-kubelet.koupleless.io/component": "module-deployment", "virtual-kubelet.koupleless.io/strategy": "peer",
	}
	if own {
		d.Labels["virtual-kubelet.koupleless.io/replicas-control"] = "true"
	}
	d, err := client.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{})
	must(t, err)
	return d
}

// The replicas of a peer Deployment follow its bases, unless its label says
// that they are somebody else's business (behaviour 7).
func TestPeerDeployment(t *testing.T) {
	t.Parallel()
	ns, name := namespace(t), kind()
	bases := []*base{overMQTT(t, fakebase.Options{Name: name}), overHTTP(t, fakebase.Options{Name: name})}
	overMQTT(t, fakebase.Options{Name: kind()}) // of no concern
	own := peer(t, ns, "own", name, true)
	d := peer(t, ns, "follows", name, false)
	reach := func(bases ...*base) {
		t.Helper()
		eventually(t, "the replicas follow", func(ctx context.Context) error {
			now, err := client.AppsV1().Deployments(ns).Get(ctx, d.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			want := int32(len(bases)) //nolint:gosec // a handful
			if err := same([]int32{want, want}, []int32{*now.Spec.Replicas, now.Status.AvailableReplicas}); err != nil {
				return fmt.Errorf("replicas and those available %w", err)
			}
			for _, b := range bases {
				if b.times("follows:1.0.0", fakebase.StateActivated) == 0 {
					return fmt.Errorf("base %s has no module", b.Identity())
				}
			}
			return nil
		})
	}
	reach(bases...)
	bases = append(bases, overMQTT(t, fakebase.Options{Name: name}))
	reach(bases...)
	bases[0].stop()
	reach(bases[1:]...)
	now, err := client.AppsV1().Deployments(ns).Get(t.Context(), own.Name, metav1.GetOptions{})
	must(t, err)
	if n := *now.Spec.Replicas; n != 1 {
		t.Errorf("the Deployment that keeps its replicas has %d", n)
	}
}

// A DaemonSet has its module on every base, old and new; with maxSurge its update loses no request.
func TestPeerDaemonSet(t *testing.T) {
	t.Parallel()
	for name, surge := range map[string]bool{"one base after the other": false, "maxSurge": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, name := namespace(t), kind()
			bases := make([]*base, 3)
			add := func(i int) {
				bases[i] = overMQTT(t, fakebase.Options{Name: name, Activation: fakebase.ActivateNewModule})
			}
			add(0)
			add(1)
			set := module.DaemonSet(ns, "m", one("m", "1.0.0", name))
			if surge {
				set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{
					MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
				}
			}
			_, err := client.AppsV1().DaemonSets(ns).Create(t.Context(), set, metav1.CreateOptions{})
			must(t, err)
			has(t, bases[0], "m:1.0.0 ACTIVATED")
			add(2)
			everywhere(t, ns, bases, "1.0.0")
			clients := make([]*requests, len(bases))
			if surge {
				for i, b := range bases {
					clients[i] = request(t, b, "/m")
				}
			}
			patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"m","image":%q,"env":[{"name":%q,"value":"2.0.0"}]}]}}}}`,
				module.URL("m", "2.0.0"), module.EnvVersion)
			_, err = client.AppsV1().DaemonSets(ns).Patch(t.Context(), "m", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			must(t, err)
			everywhere(t, ns, bases, "2.0.0")
			if surge {
				for i, b := range bases {
					clients[i].lossless(t)
					alwaysActive(t, b)
				}
			}
		})
	}
}

func everywhere(t *testing.T, ns string, bases []*base, version string) {
	t.Helper()
	eventually(t, "every base has "+version, func(ctx context.Context) error {
		set, err := client.AppsV1().DaemonSets(ns).Get(ctx, "m", metav1.GetOptions{})
		if err != nil {
			return err
		}
		want := int32(len(bases)) //nolint:gosec // a handful
		if s := set.Status; s.ObservedGeneration != set.Generation || s.UpdatedNumberScheduled != want || s.NumberAvailable != want {
			return fmt.Errorf("the DaemonSet is at %+v", s)
		}
		for _, b := range bases {
			if err := same([]string{"m:" + version + " ACTIVATED"}, b.modules()); err != nil {
				return fmt.Errorf("modules of base %s %w", b.Identity(), err)
			}
		}
		return nil
	})
}

// A base that starts gets the modules of all bases of its kind, before and
// beside any Pod; that Pods ask for the same modules at the same time does no harm (behaviour 8).
func TestBaseline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		start func(*testing.T, fakebase.Options) *base
		ask   func(*testing.T, *base)
	}{
		{"mqtt", overMQTT, func(*testing.T, *base) {}}, // it asks by itself
		{"http", overHTTP, askBaseline},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns, name := namespace(t), kind()
			peer(t, ns, "own", name, true) // one Pod, which the first base gets
			first := c.start(t, fakebase.Options{Name: name})
			eventually(t, "the first base has the Pod", func(ctx context.Context) error {
				list, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
				if err == nil && (len(list.Items) != 1 || !module.IsReady(&list.Items[0])) {
					err = errors.New("no Pod is Ready")
				}
				return err
			})
			peer(t, ns, "follows", name, false)
			has(t, first, "follows:1.0.0 ACTIVATED", "own:1.0.0 ACTIVATED")
			next := c.start(t, fakebase.Options{Name: name})
			c.ask(t, next)
			if c.name == "mqtt" { // there is no Pod for the second replica of own: only the baseline can be its reason
				has(t, next, "follows:1.0.0 ACTIVATED", "own:1.0.0 ACTIVATED")
			} else {
				has(t, next, "follows:1.0.0 ACTIVATED")
			}
			eventually(t, "two Pods follow", func(ctx context.Context) error {
				list, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=follows"})
				if err != nil {
					return err
				}
				ready := 0
				for i := range list.Items {
					if module.IsReady(&list.Items[i]) {
						ready++
					}
				}
				return same(2, ready)
			})
			for _, b := range []*base{first, next} {
				for _, id := range []string{"own:1.0.0", "follows:1.0.0"} {
					if n := b.times(id, fakebase.StateResolved); n > 1 {
						t.Errorf("base %s installed %s %d times", b.Identity(), id, n)
					}
				}
			}
		})
	}
}

// A release for bases that are not there yet waits for them, and leaves those
// that are there alone (behaviour 9).
func TestIncompatibleRelease(t *testing.T) {
	t.Parallel()
	ns, name := namespace(t), kind()
	old := overMQTT(t, fakebase.Options{Name: name, Version: "1.0.0"})
	d := deployment(t, ns, "m", 1, forVersion(one("m", "1.0.0", name), "1.0.0"))
	rolled(t, d, []*base{old}, "1.0.0")
	pod(t, ns, "next", forVersion(one("m", "2.0.0", name), "2.0.0"))
	eventually(t, "the Pod waits for a base", func(ctx context.Context) error {
		p, err := client.CoreV1().Pods(ns).Get(ctx, "next", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && p.Status.Phase == corev1.PodPending {
				return nil
			}
		}
		return errors.New(describe(p))
	})
	next := overMQTT(t, fakebase.Options{Name: name, Version: "2.0.0"})
	if p := readyPod(t, ns, "next"); p.Spec.NodeName != next.node() {
		t.Errorf("the Pod is on %s", p.Spec.NodeName)
	}
	has(t, next, "m:2.0.0 ACTIVATED")
	rolled(t, d, []*base{old}, "1.0.0")
}

func forVersion(spec corev1.PodTemplateSpec, version string) corev1.PodTemplateSpec {
	spec.Spec.NodeSelector[module.LabelBaseVersion] = version
	return spec
}

// askBaseline asks for the baseline of an HTTP base, which today's bases do not do by themselves,
// and checks the answer.
func askBaseline(t *testing.T, b *base) {
	t.Helper()
	s := b.Status()
	body, err := json.Marshal(map[string]string{"identity": b.Identity(), "name": s.Name, "version": s.Version, "clusterName": "default"})
	must(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, heart+"/queryBaseline", bytes.NewReader(body))
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }() // what counts has been read
	text, err := io.ReadAll(response.Body)
	must(t, err)
	var got []map[string]string
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("the baseline is %q: %v", text, err)
	}
	var want []map[string]string
	for _, name := range []string{"follows", "own"} {
		want = append(want, map[string]string{"bizName": name, "bizVersion": "1.0.0", "bizUrl": module.URL(name, "1.0.0")})
	}
	if err := same(want, got); err != nil {
		t.Error(fmt.Errorf("the baseline %w", err))
	}
}
