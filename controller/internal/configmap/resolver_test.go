package configmap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// fixture is a resolver on a fake API server, in a bubble where time passes only while everything
// waits.
type fixture struct {
	t        *testing.T
	client   *fake.Clientset
	resolver *Resolver
	changed  chan types.NamespacedName
}

func runTest(t *testing.T, test func(*fixture)) {
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{t: t, client: fake.NewClientset(), changed: make(chan types.NamespacedName, 1000)}
		w.resolver = New(Options{Client: w.client, Changed: func(name types.NamespacedName) { w.changed <- name },
			Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.resolver.Run(ctx) }()
		test(w)
		cancel()
		<-ended
	})
}

func configMapName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// applyConfigMap makes or changes a ConfigMap with one key, biz1.
func (w *fixture) applyConfigMap(name, version string) {
	w.t.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data: map[string]string{"biz1": version}}
	maps := w.client.CoreV1().ConfigMaps("default")
	if _, err := maps.Update(w.t.Context(), c, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		if _, err := maps.Create(w.t.Context(), c, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	} else if err != nil {
		w.t.Fatal(err)
	}
}

// wantValue asks for a value and compares what comes: a version, or an error.
func (w *fixture) wantValue(when, name, key, want string) {
	w.t.Helper()
	got, err := w.resolver.Value(configMapName(name), key)
	if err != nil {
		got = "pending"
		if !errors.Is(err, ErrPending) {
			got = string(errcode.Of(err))
		}
	}
	if got != want {
		w.t.Errorf("%s: %s of %s is %s (%v), want %s", when, key, name, got, err, want)
	}
}

// takeReads is how many reads there were since the last call.
func (w *fixture) takeReads() (n int) {
	for _, a := range w.client.Actions() {
		if a.GetVerb() == "get" {
			n++
		}
	}
	w.client.ClearActions()
	return n
}

func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestValue(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.applyConfigMap("versions", "1.0.0")
		w.wantValue("at first", "versions", "biz1", "pending")
		synctest.Wait()
		if got := <-w.changed; got != configMapName("versions") {
			t.Errorf("changed is %v", got)
		}
		w.wantValue("once it was read", "versions", "biz1", "1.0.0")
		w.wantValue("of another key", "versions", "biz2", "pending")
		synctest.Wait()
		w.wantValue("of a key that is not there", "versions", "biz2", "OtherUpstream.InvalidParameter")
		w.wantValue("of the first key", "versions", "biz1", "1.0.0")
		if n := w.takeReads(); n != 2 {
			t.Errorf("%d reads, want 2", n)
		}
		w.applyConfigMap("versions", "2.0.0")
		w.wantValue("for the next two seconds", "versions", "biz1", "1.0.0")
		advance(3 * time.Second)
		w.wantValue("later it may have changed", "versions", "biz1", "pending")
		synctest.Wait()
		w.wantValue("and has", "versions", "biz1", "2.0.0")
	})
}

// The resolver keeps only a prefix of a value that is too long for a version: one byte more than the maximum.
func TestLongValue(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.applyConfigMap("versions", strings.Repeat("9", 1<<20))
		w.wantValue("at first", "versions", "biz1", "pending")
		synctest.Wait()
		if value, err := w.resolver.Value(configMapName("versions"), "biz1"); err != nil || len(value) != arklet.MaxName+1 {
			t.Errorf("a value of %d bytes, error %v", len(value), err)
		}
	})
}

// A value that cannot be a version is read again, so that its correction is noticed.
func TestCorrectedValue(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.applyConfigMap("versions", "1 0")
		w.wantValue("at first", "versions", "biz1", "pending")
		<-w.changed
		w.wantValue("a value with a space", "versions", "biz1", "1 0")
		w.applyConfigMap("versions", "1.0.0")
		<-w.changed
		w.wantValue("the corrected value", "versions", "biz1", "1.0.0")
	})
}

// Nothing is read that nobody asks for.
func TestAtRest(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.applyConfigMap("versions", "1.0.0")
		w.wantValue("at first", "versions", "biz1", "pending")
		advance(time.Second)
		w.takeReads()
		advance(24 * time.Hour)
		if n := w.takeReads(); n != 0 {
			t.Errorf("%d reads at rest", n)
		}
	})
}

// What is not there is read again as long as somebody asks, with growing pauses, and seen when it
// comes.
func TestMissing(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.wantValue("at first", "late", "biz1", "pending")
		begun := time.Now()
		var at []time.Duration
		for range 9 {
			<-w.changed
			at = append(at, time.Since(begun))
			w.wantValue("while it is missing", "late", "biz1", "OtherUpstream.InvalidParameter")
		}
		want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183}
		for i := range want {
			want[i] *= time.Second
		}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("read at (-want +got):\n%s", diff)
		}
		w.applyConfigMap("late", "1.0.0")
		<-w.changed
		w.wantValue("when it has come", "late", "biz1", "1.0.0")

		w.wantValue("another", "never", "biz1", "pending")
		<-w.changed
		w.takeReads()
		advance(time.Hour) // nobody asks again
		if n := w.takeReads(); n > 1 || w.resolver.cache.Len() > 1 {
			t.Errorf("%d reads that nobody waits for; %d ConfigMaps are remembered", n, w.resolver.cache.Len())
		}
	})
}

func TestErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"forbidden": {apierrors.NewForbidden(corev1.Resource("configmaps"), "versions", errors.New("no")),
			"OtherUpstream.SecretAKError"},
		"API not there": {apierrors.NewServiceUnavailable("away"), "ModuleController.DBAccessError"},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(w *fixture) {
				w.client.PrependReactor("get", "configmaps",
					func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
				w.wantValue("at first", "versions", "biz1", "pending")
				synctest.Wait()
				w.wantValue("then", "versions", "biz1", tt.want)
			})
		})
	}
}

// The least recently used ConfigMap is dropped when there are too many.
func TestMaxConfigMaps(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.resolver.o.Changed = func(types.NamespacedName) {}
		last := fmt.Sprint(maxConfigMaps)
		w.applyConfigMap("0", "1.0.0")
		w.applyConfigMap(last, "1.0.0")
		for i := range maxConfigMaps + 1 {
			w.wantValue("at first", fmt.Sprint(i), "biz1", "pending")
			synctest.Wait()
		}
		w.wantValue("the youngest", last, "biz1", "1.0.0")
		w.wantValue("the oldest", "0", "biz1", "pending")
		if n := w.resolver.cache.Len(); n != maxConfigMaps {
			t.Errorf("%d are kept, want %d", n, maxConfigMaps)
		}
	})
}
