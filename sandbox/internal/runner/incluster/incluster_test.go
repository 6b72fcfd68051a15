package incluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const waitTimeout = check.WaitTimeout

// fixture is a Runner with two Pods. The test simulates the cluster by writing Pods.
type fixture struct {
	*Runner
	cluster.Nodes
	t      *testing.T
	client *fake.Clientset

	mu      sync.Mutex
	changes []string // reported state changes of controllers
	actions []string // actions performed on containers
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	b := &fixture{t: t, client: fake.NewClientset(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "module-controller"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "module-controller-2"}},
	)}
	b.Runner = newRunner(Options{
		Local: &LocalCluster{Nodes: b, Heartbeats: func(string, string) {}},
		OnChange: func(name string, state supervise.State, message string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.changes = append(b.changes, fmt.Sprintf("%s %s %s", name, state, message))
		},
	}, b.client, nil)
	b.log = io.Discard
	b.wanted, b.revision, b.ports = 2, settings.revision(), map[int]int32{1: 30001, 2: 30002}
	watching := make(chan struct{})
	b.client.PrependWatchReactor("pods", func(a ktesting.Action) (bool, watch.Interface, error) {
		w, err := b.client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		close(watching) // the fake API has no history, so earlier changes would be lost
		return true, w, err
	})
	check.Run(t, b.Start)
	<-watching
	b.write(pod("a", number("1"), runs("x", 0, true)), pod("b", number("2"), older, runs("y", 0, true)))
	b.eventually(func() error {
		if r := b.Replicas(); len(r) != 2 || !r[0].Ready || !r[1].Ready {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	b.takeChanges()
	return b
}

func (b *fixture) record(action, node, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actions = append(b.actions, action+" "+node+"/"+id)
	return nil
}

func (b *fixture) KillContainer(_ context.Context, node, id string) error {
	return b.record("kill", node, id)
}
func (b *fixture) PauseContainer(_ context.Context, node, id string) error {
	return b.record("pause", node, id)
}
func (b *fixture) ResumeContainer(_ context.Context, node, id string) error {
	return b.record("resume", node, id)
}

// write creates or updates Pods.
func (b *fixture) write(pods ...*corev1.Pod) {
	b.t.Helper()
	for _, p := range pods {
		api := b.client.CoreV1().Pods(namespace)
		_, err := api.Update(b.t.Context(), p, metav1.UpdateOptions{})
		if err != nil {
			_, err = api.Create(b.t.Context(), p, metav1.CreateOptions{})
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *fixture) eventually(condition func() error) {
	b.t.Helper()
	check.Eventually(b.t, waitTimeout, condition)
}

// takeChanges returns the reported changes and clears them.
func (b *fixture) takeChanges() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	changes := b.changes
	b.changes = nil
	return changes
}

// wantChanges waits for the given changes. For each change, it compares the name, the state and the given words.
func (b *fixture) wantChanges(want ...string) {
	b.t.Helper()
	b.eventually(func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.changes) < len(want) {
			return fmt.Errorf("changes %q, want %q", b.changes, want)
		}
		return nil
	})
	changes := b.takeChanges()
	for i, want := range want {
		for n, word := range strings.Fields(want) {
			if got := strings.Fields(changes[i]); n < 2 && got[n] != word || !slices.Contains(got, word) {
				b.t.Errorf("changes %q, want %q", changes, want)
			}
		}
	}
}

func (b *fixture) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Error(err)
	}
}

func (b *fixture) act(number int, action supervise.Action) error {
	return b.Act(b.t.Context(), runner.ComponentName(number), action)
}

// actAsync performs an action in the background. The returned channel receives the result.
func (b *fixture) actAsync(action supervise.Action, number int) <-chan error {
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(b.t.Context(), waitTimeout)
	go func() { defer cancel(); done <- b.Act(ctx, runner.ComponentName(number), action) }()
	return done
}

// TestKillAndStart checks that a killed controller is reported as exited immediately, before the API shows the end of
// the container, and that Start blocks until the kubelet has restarted the container and the controller is ready.
func TestKillAndStart(t *testing.T) {
	b := newFixture(t)
	b.must(b.act(2, supervise.Kill))
	b.wantChanges("module-controller-2 exited b killed")
	b.must(b.act(2, supervise.Kill)) // idempotent
	started := b.actAsync(supervise.Start, 2)
	now := func(p *corev1.Pod) { statusOf(p).State.Terminated.FinishedAt = metav1.Now() }
	b.write(pod("b", number("2"), older, ended("y", 137, "Error"), now))
	// the back-off takes a second in clusters of the sandbox
	b.write(pod("b", number("2"), older, ended("y", 137, "Error"), now, inBackOff))
	b.write(pod("b", number("2"), older, ended("y", 137, "Error"), runs("z", 1, false)))
	b.wantChanges("module-controller-2 running b restarted")
	select {
	case err := <-started:
		t.Errorf("Start returned %v before the controller was ready", err)
	default:
	}
	b.write(pod("b", number("2"), older, ended("y", 137, "Error"), runs("z", 1, true)))
	b.must(<-started)
	b.must(<-b.actAsync(supervise.Start, 2)) // idempotent
	if diff := cmp.Diff([]string{"kill node/y"}, b.actions); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	for _, a := range b.client.Actions() {
		if a.GetVerb() == "delete" {
			t.Errorf("deleted Pod: %v", a)
		}
	}
}

// TestStartReplacesPodInBackOff checks that Start replaces the Pod if its container is in a long restart back-off.
func TestStartReplacesPodInBackOff(t *testing.T) {
	b := newFixture(t)
	b.write(pod("a", number("1"), ended("x", 137, "Error"), inBackOff))
	b.wantChanges("module-controller exited a killed")
	started := b.actAsync(supervise.Start, 1)
	b.eventually(func() error {
		if _, err := b.client.CoreV1().Pods(namespace).Get(t.Context(), "a", metav1.GetOptions{}); err == nil {
			return errors.New("Pod a still exists")
		}
		return nil
	})
	b.write(pod("c", number("1"), runs("z", 0, true)))
	b.must(<-started)
	b.wantChanges("module-controller running c", "module-controller running c ready")
}

func TestStartFailsIfControllerKeepsFailing(t *testing.T) {
	b := newFixture(t)
	b.write(pod("a", number("1"), ended("x", 3, "Error"), inBackOff))
	b.wantChanges("module-controller exited a 3")
	err := <-b.actAsync(supervise.Start, 1)
	if err == nil || !strings.HasPrefix(err.Error(), "module-controller ") ||
		!strings.HasSuffix(err.Error(), "Pod a: exit status 3") {
		t.Errorf("error %v", err)
	}
}

func TestPauseAndResume(t *testing.T) {
	b := newFixture(t)
	b.must(b.act(1, supervise.Pause))
	b.must(b.act(1, supervise.Pause))
	b.must(b.act(1, supervise.Resume))
	b.must(b.act(1, supervise.Resume))
	b.wantChanges("module-controller paused a", "module-controller running a")
	b.must(b.act(1, supervise.Pause)) // the kubelet kills it after its liveness probe has failed
	b.write(pod("a", number("1"), ended("x", 137, "Error")))
	b.wantChanges("module-controller paused a", "module-controller exited a killed")
	if err := b.act(1, supervise.Pause); err == nil || !strings.Contains(err.Error(), "it is not running") {
		t.Errorf("pausing an exited controller returned %v", err)
	}
	b.must(b.act(1, supervise.Resume))
	if diff := cmp.Diff([]string{"pause node/x", "resume node/x", "pause node/x"}, b.actions); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
}

// waitForReplicas waits until the Deployment of the first controller is scaled to n replicas.
func (b *fixture) waitForReplicas(n int32) {
	b.t.Helper()
	b.eventually(func() error {
		d, err := b.client.AppsV1().Deployments(namespace).Get(b.t.Context(), "module-controller", metav1.GetOptions{})
		if err == nil && (d.Spec.Replicas == nil || *d.Spec.Replicas != n) {
			err = fmt.Errorf("the Deployment has %v replicas, want %d", d.Spec.Replicas, n)
		}
		return err
	})
}

func (b *fixture) deletePod(pod string) {
	b.t.Helper()
	if err := b.client.CoreV1().Pods(namespace).Delete(b.t.Context(), pod, metav1.DeleteOptions{}); err != nil {
		b.t.Error(err)
	}
}

// TestStopAndStart checks that stop scales the Deployment of a controller to 0, and that start scales it to 1.
func TestStopAndStart(t *testing.T) {
	b := newFixture(t)
	stopped := b.actAsync(supervise.Stop, 1)
	b.waitForReplicas(0)
	b.deletePod("a")
	b.must(<-stopped)
	b.must(<-b.actAsync(supervise.Stop, 1))
	if r := b.Replicas()[0]; r.State != supervise.Exited || r.Reason != "stopped" {
		t.Errorf("after stop: %+v", r)
	}
	started := b.actAsync(supervise.Start, 1)
	b.waitForReplicas(1)
	b.write(pod("c", number("1"), runs("z", 0, true)))
	b.must(<-started)
	if r := b.Replicas()[0]; r.Pod != "c" || !r.Ready {
		t.Errorf("after start: %+v", r)
	}
}

func TestRestartReplacesPod(t *testing.T) {
	b := newFixture(t)
	restarted := b.actAsync(supervise.Restart, 2)
	b.eventually(func() error {
		if _, err := b.client.CoreV1().Pods(namespace).Get(t.Context(), "b", metav1.GetOptions{}); err == nil {
			return errors.New("Pod b still exists")
		}
		return nil
	})
	b.write(pod("c", number("2"), runs("z", 0, true)))
	b.must(<-restarted)
	b.wantChanges("module-controller-2 exited b deleted", "module-controller-2 running c",
		"module-controller-2 running c ready")
}

// TestNewPodReplacesDeletedPod checks that, while an old Pod of a controller is being deleted, the state of the
// controller comes from its new Pod. The creation times of the two Pods must not matter.
func TestNewPodReplacesDeletedPod(t *testing.T) {
	b := newFixture(t)
	b.write(pod("a", number("1"), runs("x", 0, true), deleted), pod("c", older, number("1"), runs("z", 0, true)))
	b.eventually(func() error {
		if r := b.Replicas(); r[0].Pod != "c" || r[1].Pod != "b" {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
}

// TestActByPodName checks that Act accepts the name of a controller's Pod, and that it rejects unknown and empty
// names.
func TestActByPodName(t *testing.T) {
	b := newFixture(t)
	b.must(b.Act(t.Context(), "b", supervise.Kill))
	if diff := cmp.Diff([]string{"kill node/y"}, b.actions); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	for _, name := range []string{"module-controller-3", ""} {
		if err := b.Act(t.Context(), name, supervise.Kill); !errors.Is(err, supervise.ErrUnknown) {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

// TestWaitHeartbeats checks that waitHeartbeats connects to every heartbeat address, and that it returns an error
// with a fix if it cannot connect.
func TestWaitHeartbeats(t *testing.T) {
	b := newFixture(t)
	var dialed []string
	b.dial = func(_ context.Context, addr string) error { dialed = append(dialed, addr); return nil }
	b.must(b.waitHeartbeats(t.Context()))
	if diff := cmp.Diff([]string{"172.18.0.2:30001", "172.18.0.2:30002"}, dialed); diff != "" {
		t.Errorf("dialed addresses (-want +got):\n%s", diff)
	}
	b.dial = func(context.Context, string) error { return errors.New("no route to host") }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := b.waitHeartbeats(ctx); err == nil || !strings.Contains(err.Error(), "no route to host") ||
		!strings.Contains(err.Error(), "--controller host") {
		t.Errorf("error %v", err)
	}
}

// lines is a writer that records the text of each write.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

// TestLogs checks that each log line of each container is copied once and starts with the name of the Pod, even if a
// log stream is interrupted or a container has been restarted.
func TestLogs(t *testing.T) {
	stamp := func(second int, text string) string {
		return start.Add(time.Duration(second)*time.Second).Format(time.RFC3339Nano) + " " + text + "\n"
	}
	var broken sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		podName := strings.Split(r.URL.Path, "/")[6]
		switch q := r.URL.Query(); {
		case q.Get("previous") == "true":
			fmt.Fprint(w, stamp(0, "before"))
		case q.Get("sinceTime") != "":
			fmt.Fprint(w, stamp(1, podName+" one")+stamp(2, podName+" two"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprint(w, stamp(1, podName+" one"))
			w.(http.Flusher).Flush()
			breaks := false
			if podName == "a" {
				broken.Do(func() { breaks = true })
			}
			if !breaks {
				<-r.Context().Done()
			}
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	check.Must(t, err)
	log := &lines{}
	c := newRunner(Options{}, client, nil)
	c.log = log
	ctx, end := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	defer func() { end(); readers.Wait() }()
	for _, p := range []*corev1.Pod{pod("a", runs("x", 0, true)),
		pod("b", ended("w", 137, "Error"), runs("y", 1, true)), pod("c")} {
		check.Must(t, c.pods.Add(p))
	}
	l := &logCopier{c: c, known: map[string]bool{}}
	l.follow(ctx, &readers)
	l.follow(ctx, &readers) // copies no log twice
	b := &fixture{t: t}
	want := []string{"a a one\n", "a a two\n", "b b one\n", "b before\n"}
	b.eventually(func() error {
		log.mu.Lock()
		defer log.mu.Unlock()
		got := slices.Sorted(slices.Values(log.all))
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("lines (-want +got):\n%s", diff)
		}
		return nil
	})
}
