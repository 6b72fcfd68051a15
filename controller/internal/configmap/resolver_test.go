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

// fixture is a Resolver with a fake API server, running in a synctest bubble.
type fixture struct {
	t        *testing.T
	client   *fake.Clientset
	resolver *Resolver
	changed  chan types.NamespacedName
	stop     context.CancelFunc // ends Run
}

func runTest(t *testing.T, test func(*fixture)) {
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{t: t, client: fake.NewClientset(), changed: make(chan types.NamespacedName, 1000)}
		w.resolver = New(Options{Client: w.client, Changed: func(name types.NamespacedName) { w.changed <- name },
			Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		w.stop = cancel
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

// applyConfigMap creates or updates a ConfigMap with the key biz1.
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

// wantValue requests a value and checks the result. want is the expected value, "pending", or an error code.
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

// takeReads returns the number of reads since the previous call.
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
		w.wantValue("before the read", "versions", "biz1", "pending")
		synctest.Wait()
		if got := <-w.changed; got != configMapName("versions") {
			t.Errorf("Changed was called for %v", got)
		}
		w.wantValue("after the read", "versions", "biz1", "1.0.0")
		w.wantValue("another key", "versions", "biz2", "pending")
		synctest.Wait()
		w.wantValue("missing key", "versions", "biz2", "OtherUpstream.InvalidParameter")
		w.wantValue("first key", "versions", "biz1", "1.0.0")
		if n := w.takeReads(); n != 2 {
			t.Errorf("%d reads, want 2", n)
		}
		w.applyConfigMap("versions", "2.0.0")
		w.wantValue("within maxAge", "versions", "biz1", "1.0.0")
		advance(3 * time.Second)
		w.wantValue("after maxAge", "versions", "biz1", "pending")
		synctest.Wait()
		w.wantValue("after the second read", "versions", "biz1", "2.0.0")
	})
}

// TestLongValue checks that if a value is too long for a version, the Resolver keeps only a prefix that is one byte
// longer than the maximum.
func TestLongValue(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.applyConfigMap("versions", strings.Repeat("9", 1<<20))
		w.wantValue("before the read", "versions", "biz1", "pending")
		synctest.Wait()
		if value, err := w.resolver.Value(configMapName("versions"), "biz1"); err != nil ||
			len(value) != arklet.MaxName+1 {
			t.Errorf("value has %d bytes, error %v; want %d bytes", len(value), err, arklet.MaxName+1)
		}
	})
}

// TestInvalidValueIsReadAgain checks that an invalid value is read again until the user corrects it.
func TestInvalidValueIsReadAgain(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.applyConfigMap("versions", "1 0")
		w.wantValue("before the read", "versions", "biz1", "pending")
		<-w.changed
		w.wantValue("a value with a space", "versions", "biz1", "1 0")
		w.applyConfigMap("versions", "1.0.0")
		<-w.changed
		w.wantValue("the corrected value", "versions", "biz1", "1.0.0")
	})
}

// TestNoReadsWithoutRequests checks that a ConfigMap is not read again if none of its values is requested.
func TestNoReadsWithoutRequests(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.applyConfigMap("versions", "1.0.0")
		w.wantValue("before the read", "versions", "biz1", "pending")
		advance(time.Second)
		w.takeReads()
		advance(24 * time.Hour)
		if n := w.takeReads(); n != 0 {
			t.Errorf("%d reads, want 0", n)
		}
	})
}

// TestMissingConfigMap checks that a missing ConfigMap is read again with increasing delays, as long as its value is
// requested.
func TestMissingConfigMap(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.wantValue("before the read", "late", "biz1", "pending")
		start := time.Now()
		var at []time.Duration
		for range 9 {
			<-w.changed
			at = append(at, time.Since(start))
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
		w.wantValue("after its creation", "late", "biz1", "1.0.0")

		w.wantValue("before the read", "never", "biz1", "pending")
		<-w.changed
		w.takeReads()
		advance(time.Hour) // without a request
		if n := w.takeReads(); n > 1 || w.resolver.cache.Len() > 1 {
			t.Errorf("%d reads without a request, %d cached ConfigMaps; want at most 1 of each", n,
				w.resolver.cache.Len())
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
		"API server unavailable": {apierrors.NewServiceUnavailable("unavailable"), "ModuleController.DBAccessError"},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(w *fixture) {
				w.client.PrependReactor("get", "configmaps",
					func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
				w.wantValue("before the read", "versions", "biz1", "pending")
				synctest.Wait()
				w.wantValue("after the read", "versions", "biz1", tt.want)
			})
		})
	}
}

// TestMaxConfigMaps checks that the least recently used ConfigMap is evicted if the cache is full.
func TestMaxConfigMaps(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.resolver.o.Changed = func(types.NamespacedName) {}
		last := fmt.Sprint(maxConfigMaps)
		w.applyConfigMap("0", "1.0.0")
		w.applyConfigMap(last, "1.0.0")
		for i := range maxConfigMaps + 1 {
			w.wantValue("before the read", fmt.Sprint(i), "biz1", "pending")
			synctest.Wait()
		}
		w.wantValue("most recently used", last, "biz1", "1.0.0")
		w.wantValue("least recently used", "0", "biz1", "pending")
		if n := w.resolver.cache.Len(); n != maxConfigMaps {
			t.Errorf("%d ConfigMaps in the cache, want %d", n, maxConfigMaps)
		}
	})
}

// TestEvictionDuringRead checks that the result of a read is discarded if the ConfigMap is evicted from the cache
// during the read.
func TestEvictionDuringRead(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.resolver.o.Changed = func(types.NamespacedName) {}
		w.applyConfigMap("evicted", "1.0.0")
		reads := 0 // the fake client calls one reactor at a time
		w.client.PrependReactor("get", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.(clienttesting.GetAction).GetName() != "evicted" {
				return false, nil, nil
			}
			reads++
			for i := range maxConfigMaps {
				w.wantValue("during the read", fmt.Sprint(i), "biz1", "pending")
			}
			return false, nil, nil
		})
		w.wantValue("before the read", "evicted", "biz1", "pending")
		advance(time.Second)
		if e := w.resolver.cached(configMapName("evicted")); e != nil || reads != 1 {
			t.Errorf("after %d reads, the evicted ConfigMap is cached: %t; want 1 read, not cached", reads, e != nil)
		}
	})
}

// TestStopDuringRead checks that the Resolver does not report a read that fails because Run ends.
func TestStopDuringRead(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			w.stop()
			return true, nil, context.Canceled
		})
		w.wantValue("before the read", "versions", "biz1", "pending")
		synctest.Wait()
		w.wantValue("after the end of Run", "versions", "biz1", "pending")
		if n := w.takeReads(); n != 1 || len(w.changed) != 0 {
			t.Errorf("%d reads, Changed was called %d times; want 1 read, 0 calls", n, len(w.changed))
		}
	})
}
