package controller

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// A rolling update loses no request, whatever rule the bases have for two
// versions of a module, and however many bases there are (behaviour 4).
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		bases      int
		activation fakebase.Activation
		start      func(*testing.T, fakebase.Options) *base
	}{
		{"the new version takes over", 3, fakebase.ActivateNewModule, overMQTT},
		{"both versions are active", 3, fakebase.ActivateMulti, overMQTT},
		{"the old version stays active until it is switched over HTTP", 3, fakebase.ActivateDefault, overHTTP},
		{"the only base", 1, fakebase.ActivateNewModule, overMQTT},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns, name := namespace(t), kind()
			bases := make([]*base, c.bases)
			for i := range bases {
				bases[i] = c.start(t, fakebase.Options{Name: name, Activation: c.activation})
			}
			nodesReady(t, bases...)
			spec := one("shop", "1.0.0", name)
			module.OnePerBase(&spec)
			d := deployment(t, ns, "shop", int32(c.bases), spec) //nolint:gosec // a handful
			rolled(t, d, bases, "1.0.0")

			f, clients := record(t, ns), make([]*requests, c.bases)
			for i, b := range bases {
				clients[i] = request(t, b, "/shop")
			}
			upgrade(t, d, "2.0.0")
			rolled(t, d, bases, "2.0.0")
			for i, b := range bases {
				clients[i].lossless(t)
				alwaysActive(t, b)
				drained(t, b)
			}
			if c.bases == 1 {
				newFirst(t, f)
			} else {
				oldFirst(t, f, bases)
			}
		})
	}
}

// deployment makes a Deployment that adds a Pod before it takes one away.
func deployment(t *testing.T, ns, name string, replicas int32, spec corev1.PodTemplateSpec) *appsv1.Deployment {
	t.Helper()
	d := module.Deployment(ns, name, replicas, spec)
	d, err := client.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{})
	must(t, err)
	return d
}

// upgrade puts another version into a Deployment's template.
func upgrade(t *testing.T, d *appsv1.Deployment, version string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q,"env":[{"name":%q,"value":%q}]}]}}}}`,
		d.Name, module.URL(d.Name, version), module.EnvVersion, version)
	_, err := client.AppsV1().Deployments(d.Namespace).Patch(t.Context(), d.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}

// rolled waits until a Deployment has all its Pods in its template's version,
// and each base that version and no other.
func rolled(t *testing.T, d *appsv1.Deployment, bases []*base, version string) {
	t.Helper()
	eventually(t, "all Pods and bases have "+version, func(ctx context.Context) error {
		now, err := client.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		want := *now.Spec.Replicas
		if s := now.Status; s.ObservedGeneration != now.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want {
			return fmt.Errorf("the Deployment is at %+v", s)
		}
		for _, b := range bases {
			if err := same([]string{d.Name + ":" + version + " ACTIVATED"}, b.modules()); err != nil {
				return fmt.Errorf("modules of base %s %w", b.Identity(), err)
			}
		}
		return nil
	})
}

// oldFirst checks that on each base the old Pod turned Not Ready before the new one turned Ready.
func oldFirst(t *testing.T, f *film, bases []*base) {
	t.Helper()
	order := map[string][]string{}
	for _, turn := range f.turns(t) {
		if !turn.deleted {
			order[turn.pod.Spec.NodeName] = append(order[turn.pod.Spec.NodeName], fmt.Sprint(turn.version(), " ", turn.ready))
		}
	}
	want := map[string][]string{}
	for _, b := range bases {
		want[b.node()] = []string{"1.0.0 true", "1.0.0 false", "2.0.0 true"}
	}
	if err := same(want, order); err != nil {
		t.Errorf("how Pods turned, by Node %v", err)
	}
}

// newFirst checks that the only Ready Pod stayed so until the new one was, and until it was deleted.
func newFirst(t *testing.T, f *film) {
	t.Helper()
	var order []string
	for _, turn := range f.turns(t) {
		if !turn.deleted {
			order = append(order, fmt.Sprint(turn.version(), " ", turn.ready))
		}
	}
	if n := len(order); n == 3 && order[2] == "1.0.0 false" { // the Deployment took more than a second to delete it
		order = order[:2]
	}
	if err := same([]string{"1.0.0 true", "2.0.0 true"}, order); err != nil {
		t.Errorf("how Pods turned %v", err)
	}
}

// alwaysActive checks that a base has never been without an active version since it had the first.
// Changes of one time are one: a switch from one version to the other.
func alwaysActive(t *testing.T, b *base) {
	t.Helper()
	active, began := map[string]bool{}, false
	events := b.history()
	for i, e := range events {
		if e.Kind != fakebase.EventBiz {
			continue
		}
		active[e.Version] = e.To == fakebase.StateActivated
		serves := false
		for _, is := range active {
			serves = serves || is
		}
		if last := i+1 == len(events) || !events[i+1].Time.Equal(e.Time); last && began && !serves {
			t.Errorf("base %s was without an active version after %+v", b.Identity(), e)
		}
		began = began || serves
	}
	if !began {
		t.Errorf("base %s never had an active version", b.Identity())
	}
}

// drained checks that the old version stayed installed for the drain, which
// begins when its Pod has turned Not Ready: after the new version took over.
func drained(t *testing.T, b *base) {
	t.Helper()
	var taken, gone time.Time
	for _, e := range b.history() {
		switch {
		case e.Version == "2.0.0" && e.To == fakebase.StateActivated && taken.IsZero():
			taken = e.Time
		case e.Version == "1.0.0" && (e.Reason == "KILLING" || e.To == fakebase.StateStopped) && gone.IsZero():
			gone = e.Time
		}
	}
	if took := gone.Sub(taken); taken.IsZero() || gone.IsZero() || took < drain {
		t.Errorf("base %s: the new version took over at %s, the old one went at %s: %s later, not %s", b.Identity(), taken, gone, took, drain)
	}
}

// requests is a client that sends one request after the other.
type requests struct {
	stop func()

	mu   sync.Mutex
	good int
	bad  []string
}

// request sends requests to a base's own listener until lossless is called.
// Each takes a moment, so that there is always one under way.
func request(t *testing.T, b *base, path string) *requests {
	t.Helper()
	addr, err := b.WebAddr(t.Context())
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &requests{}
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := ask(ctx, "http://"+addr+path+"?duration=20ms"); ctx.Err() == nil {
				r.note(err)
			}
		}
	})
	r.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(r.stop)
	return r
}

func (r *requests) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.good++
	} else {
		r.bad = append(r.bad, err.Error())
	}
}

func ask(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // what counts has been read
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return err
}

// lossless ends the requests and checks that all were served.
func (r *requests) lossless(t *testing.T) {
	t.Helper()
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bad) > 0 || r.good == 0 {
		t.Errorf("%d requests were served, %d were not, the first one: %v", r.good, len(r.bad), r.bad[:min(1, len(r.bad))])
	}
}
