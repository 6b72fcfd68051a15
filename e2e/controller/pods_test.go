package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// gone waits until a Pod has left the API.
func gone(t *testing.T, ns, name string) {
	t.Helper()
	eventually(t, "Pod "+name+" is gone", func(ctx context.Context) error {
		p, err := client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New(describe(p))
	})
}

func remove(t *testing.T, ns, name string) {
	t.Helper()
	must(t, client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// A base that restarts has lost its modules, and gets them again: under the same
// identity those of the same Pod, under a new one those of the Pod's successor (behaviour 3).
func TestBaseRestarts(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, fakebase.Options) *base{"mqtt": overMQTT, "http": overHTTP} {
		t.Run("same identity over "+name, func(t *testing.T) {
			t.Parallel()
			ns, name := namespace(t), kind()
			f, b := record(t, ns), start(t, fakebase.Options{Name: name})
			pod(t, ns, "m", one("m", "1.0.0", name))
			before := readyPod(t, ns, "m")
			must(t, b.Restart(""))
			eventually(t, "the module is installed again", func(context.Context) error {
				if n := b.times("m:1.0.0", fakebase.StateActivated); n != 2 {
					return fmt.Errorf("it has been activated %d times", n)
				}
				return nil
			})
			after := readyPod(t, ns, "m")
			if after.UID != before.UID {
				t.Error("it is another Pod")
			}
			for _, turn := range f.turns(t) {
				if turn.deleted {
					t.Error("the Pod was deleted")
				}
			}
		})
	}
	t.Run("new identity", func(t *testing.T) {
		t.Parallel()
		ns, name := namespace(t), kind()
		b := overMQTT(t, fakebase.Options{Name: name})
		d := deployment(t, ns, "m", 1, one("m", "1.0.0", name))
		rolled(t, d, []*base{b}, "1.0.0")
		before := b.node()
		must(t, b.Restart("renewed-"+b.Identity()))
		nodesReady(t, b)
		rolled(t, d, []*base{b}, "1.0.0")
		eventually(t, "the old Node is gone", func(ctx context.Context) error { return nodeGone(ctx, before) })
		rolled(t, d, []*base{b}, "1.0.0")
		list, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		if len(list.Items) != 1 || list.Items[0].Spec.NodeName != b.node() {
			t.Errorf("%d Pods, the first on %s, not one on %s", len(list.Items), list.Items[0].Spec.NodeName, b.node())
		}
	})
}

// What a base has already is not installed again, and what it has lost already
// does not hold up a deletion. Modules that no Pod asked for are left alone.
func TestForeignModules(t *testing.T) {
	t.Parallel()
	ns, name := namespace(t), kind()
	b := overMQTT(t, fakebase.Options{Name: name, StaticBiz: []string{module.URL("m", "1.0.0"), module.URL("foreign", "1.0.0")}})
	has(t, b, "foreign:1.0.0 ACTIVATED", "m:1.0.0 ACTIVATED")
	pod(t, ns, "m", one("m", "1.0.0", name))
	readyPod(t, ns, "m")
	if n := b.times("m:1.0.0", fakebase.StateResolved); n != 1 {
		t.Errorf("the module was installed %d times", n)
	}
	remove(t, ns, "m")
	gone(t, ns, "m")
	has(t, b, "foreign:1.0.0 ACTIVATED")

	pod(t, ns, "lost", one("lost", "1.0.0", name))
	readyPod(t, ns, "lost")
	b.inject(t, fault.Fault{Kind: fault.KindDeaf, Match: fault.Match{Commands: []string{"installBiz"}}}) // it stays lost
	must(t, b.Restart(""))
	remove(t, ns, "lost")
	gone(t, ns, "lost")
	has(t, b, "foreign:1.0.0 ACTIVATED", "m:1.0.0 ACTIVATED") // static ones come with the base
}

// When the answer to an install is lost, the controller repeats it, and takes it
// for a success that the base has the module already (protocol 6, REPEAT_BIZ).
func TestRepeatedInstall(t *testing.T) {
	t.Parallel()
	ns, name := namespace(t), kind()
	b := overMQTT(t, fakebase.Options{Name: name})
	pod(t, ns, "other", one("other", "1.0.0", name))
	readyPod(t, ns, "other")
	lists := b.inject(t, fault.Fault{Kind: fault.KindCorrupt, Match: fault.Match{Messages: []string{"simpleBiz"}}})
	b.inject(t, fault.Fault{Kind: fault.KindCorrupt, Count: 1, Match: fault.Match{Messages: []string{"bizOperation"}}})
	pod(t, ns, "m", one("m", "1.0.0", name))
	eventually(t, "the base refuses the second install", func(ctx context.Context) error {
		text, err := client.CoreV1().Pods(ns).GetLogs("m", &corev1.PodLogOptions{}).DoRaw(ctx)
		if err == nil && !strings.Contains(string(text), "REPEAT_BIZ") {
			err = fmt.Errorf("the logs are:\n%s", text)
		}
		return err
	})
	b.Clear(lists)
	readyPod(t, ns, "m")
	if n := b.times("m:1.0.0", fakebase.StateResolved); n != 1 {
		t.Errorf("the module was installed %d times", n)
	}
	want := []said{{"InstallModuleTimedOut", fmt.Sprintf("Arklet.InstallModuleTimedOut: installBiz of m:1.0.0 on base %q: "+
		"base did not answer in time (context deadline exceeded); try again", b.Identity())}}
	eventually(t, "the Event is there", func(ctx context.Context) error { return warns(ctx, ns, "m", want) })
}

// Two Pods with one version of a module on one base share it; it goes with the second.
func TestTwoPodsOfOneVersion(t *testing.T) {
	t.Parallel()
	ns, name := namespace(t), kind()
	b := overMQTT(t, fakebase.Options{Name: name})
	for _, p := range []string{"left", "right"} {
		pod(t, ns, p, one("m", "1.0.0", name))
	}
	readyPod(t, ns, "left")
	readyPod(t, ns, "right")
	f := record(t, ns)
	remove(t, ns, "left")
	gone(t, ns, "left")
	has(t, b, "m:1.0.0 ACTIVATED")
	for _, turn := range f.turns(t) {
		if turn.pod.Name == "right" && !turn.ready {
			t.Errorf("the other Pod turned Not Ready: %s", describe(turn.pod))
		}
	}
	remove(t, ns, "right")
	gone(t, ns, "right")
	has(t, b)
	if n := b.times("m:1.0.0", fakebase.StateResolved); n != 1 {
		t.Errorf("the module was installed %d times", n)
	}
}

// A change of the image, and of the version where it is read from an annotation, replaces the
// module in place: the new version is installed before the old one goes (behaviour 5).
func TestInPlaceReplacement(t *testing.T) {
	t.Parallel()
	ns, name := namespace(t), kind()
	b := overMQTT(t, fakebase.Options{Name: name, Activation: fakebase.ActivateNewModule})
	spec := one("m", "", name)
	spec.Annotations = map[string]string{"version": "1.0.0"}
	spec.Spec.Containers[0].Env[0].ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['version']"}}
	spec.Spec.Containers[0].Image = module.URL("m", "1.0.0")
	pod(t, ns, "m", spec)
	before := readyPod(t, ns, "m")
	clients := request(t, b, "/m")
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"version":"2.0.0"}},"spec":{"containers":[{"name":"m","image":%q}]}}`, module.URL("m", "2.0.0"))
	_, err := client.CoreV1().Pods(ns).Patch(t.Context(), "m", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	has(t, b, "m:2.0.0 ACTIVATED")
	clients.lossless(t)
	alwaysActive(t, b)
	eventually(t, "the Pod tells of the new version", func(ctx context.Context) error {
		p, err := client.CoreV1().Pods(ns).Get(ctx, "m", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.UID != before.UID || !module.IsReady(p) {
			return errors.New(describe(p))
		}
		c := p.Status.ContainerStatuses[0]
		return same([]string{"arklet://" + b.ip + ":m:2.0.0", module.URL("m", "2.0.0")}, []string{c.ContainerID, c.Image})
	})
}

// A bare Pod whose module a newer one replaced is Failed and says BizDeactivate;
// its deletion removes the older module only (behaviour 6).
func TestSupersededBarePod(t *testing.T) {
	t.Parallel()
	ns, name := namespace(t), kind()
	b := overMQTT(t, fakebase.Options{Name: name, Activation: fakebase.ActivateNewModule})
	pod(t, ns, "old", one("m", "1.0.0", name))
	readyPod(t, ns, "old")
	f := record(t, ns)
	pod(t, ns, "new", one("m", "2.0.0", name))
	readyPod(t, ns, "new")
	eventually(t, "the old Pod is Failed", func(ctx context.Context) error {
		p, err := client.CoreV1().Pods(ns).Get(ctx, "old", metav1.GetOptions{})
		if err != nil {
			return err
		}
		want := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "BizDeactivate", Message: "a newer Pod of module m serves on this base"}}
		if p.Status.Phase != corev1.PodFailed || module.IsReady(p) {
			return errors.New(describe(p))
		}
		if diff := cmp.Diff(want, p.Status.ContainerStatuses[0].State); diff != "" {
			return fmt.Errorf("the container's state (-want +got):\n%s", diff)
		}
		return nil
	})
	has(t, b, "m:1.0.0 DEACTIVATED", "m:2.0.0 ACTIVATED")
	remove(t, ns, "old")
	gone(t, ns, "old")
	has(t, b, "m:2.0.0 ACTIVATED")
	readyPod(t, ns, "new")
	for _, turn := range f.turns(t) {
		if turn.pod.Name == "new" && !turn.ready {
			t.Errorf("the new Pod turned Not Ready: %s", describe(turn.pod))
		}
	}
}
