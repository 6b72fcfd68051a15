package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// waitTimeout is the timeout of each wait in the tests.
const waitTimeout = check.WaitTimeout

// acceptHeartbeats is a transport that accepts every heartbeat.
type acceptHeartbeats struct{}

func (acceptHeartbeats) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// fakePods simulates Pods with servers in the test process.
type fakePods struct {
	mu      sync.Mutex
	running map[string]*fakeProcess
	down    map[string]bool // which Pods are unreachable
	version string          // version of the binary in the Pods
	changes []string
	notify  chan struct{}
}

type fakeProcess struct {
	*http2.ClientConn
	done chan struct{}
	end  func()
}

func (r *fakeProcess) Done() <-chan struct{} { return r.done }
func (r *fakeProcess) Err() error            { return errors.New("exit code 137") }

func (r *fakeProcess) Close() error {
	r.end()
	return nil
}

func (n *fakePods) dial(ctx context.Context, pod string) (connection, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down[pod] {
		return nil, fmt.Errorf("pods %q not found", pod)
	}
	here, there := net.Pipe()
	r := &fakeProcess{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		remote.Serve(context.WithoutCancel(ctx), there, n.version, slog.New(slog.DiscardHandler), 0)
	}()
	client, err := stdio.Dial(here)
	if err != nil {
		return nil, err
	}
	r.ClientConn, r.end = client, func() {
		_ = client.Close()
		<-r.done
	}
	n.running[pod] = r
	return r, nil
}

// lose simulates the failure of a Pod, which is then unavailable until restore is called.
func (n *fakePods) lose(pod string) {
	n.mu.Lock()
	r := n.running[pod]
	n.down[pod] = true
	n.mu.Unlock()
	r.end()
}

func (n *fakePods) restore(pod string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down[pod] = false
}

func (n *fakePods) changed(pod string, state supervise.State, message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changes = append(n.changes, fmt.Sprintf("%s %s: %s", pod, state, message))
	select {
	case n.notify <- struct{}{}:
	default:
	}
}

// until waits until count Pod changes have been reported, and returns the changes.
func (n *fakePods) until(t *testing.T, count int) []string {
	t.Helper()
	limit := time.After(waitTimeout)
	for {
		n.mu.Lock()
		changes := slices.Clone(n.changes)
		n.mu.Unlock()
		if len(changes) >= count {
			return changes
		}
		select {
		case <-n.notify:
		case <-limit:
			t.Fatalf("changes: %q", changes)
		}
	}
}

// fixture is a fleet whose bases run in simulated Pods, two bases per Pod.
type fixture struct {
	*fakePods
	pods   *Pods
	fleet  *fleet.Fleet
	client *fake.Clientset
}

func newFixture(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	server, err := broker.New(broker.Options{Env: "dev"})
	check.Must(t, err)
	b := &fixture{fakePods: &fakePods{running: map[string]*fakeProcess{}, down: map[string]bool{},
		notify: make(chan struct{}, 1)},
		client: fake.NewClientset(objects...)}
	b.pods = newPods(Options{Sandbox: "s", Image: "i", PerPod: 2, Broker: "tcp://" + server.Addr(), OnChange: b.changed,
		host: "127.0.0.1", dial: b.dial}, b.client)
	b.fleet = fleet.New(fleet.Options{
		Runtime: v1alpha1.RuntimeCluster, Heartbeats: acceptHeartbeats{},
		Username: broker.BaseUser,
		Password: server.Passwords().Base,
		Runtimes: map[v1alpha1.BaseRuntime]fleet.Runtime{v1alpha1.RuntimeCluster: b.pods},
	})
	for _, start := range []func(context.Context) error{server.Start, b.pods.Start, b.fleet.Start} {
		check.Run(t, start)
	}
	return b
}

func (b *fixture) add(t *testing.T, set fleet.Set, count int) []*fleet.Member {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	members, err := b.fleet.Add(ctx, set, count)
	if err == nil {
		err = b.fleet.WaitConnected(ctx, members...)
	}
	check.Must(t, err)
	return members
}

func (b *fixture) replicas(t *testing.T) int32 {
	t.Helper()
	s, err := b.client.AppsV1().StatefulSets(namespace).Get(t.Context(), Name, metav1.GetOptions{})
	check.Must(t, err)
	return *s.Spec.Replicas
}

// TestBasesSharePods checks that two bases share a Pod, that each base has its own address, and that free slots are
// reused.
func TestBasesSharePods(t *testing.T) {
	b := newFixture(t)
	members := b.add(t, fleet.Set{}, 5)
	if got := b.replicas(t); got != 3 {
		t.Errorf("%d Pods, want 3", got)
	}
	addresses := map[string]bool{}
	for _, m := range members {
		s := m.Base.Status()
		addresses[s.IP] = true
		if found, ok := b.fleet.ByIP(m.IP()); !ok || found != m || s.IP != m.IP() || !s.Connected {
			t.Errorf("%s: status %+v; ByIP returned %v", m.HostName, s, found)
		}
	}
	if len(addresses) != 5 {
		t.Errorf("addresses: %v", addresses)
	}
	if _, err := b.fleet.Remove(t.Context(), fleet.Selection{Names: []string{"base-1", "base-2"}}); err != nil {
		t.Fatal(err)
	}
	b.add(t, fleet.Set{}, 3)
	if got := b.replicas(t); got != 3 {
		t.Errorf("%d Pods after removing and adding bases, want 3", got)
	}
}

// TestRequestsToBases checks that the web listener of a base in a Pod is reachable at an address of this machine,
// also for many connections one after another.
func TestRequestsToBases(t *testing.T) {
	b := newFixture(t)
	m := b.add(t, fleet.Set{}, 1)[0]
	addr, err := m.Base.WebAddr(t.Context())
	check.Must(t, err)
	if got := m.Base.Status().WebAddr; got != addr {
		t.Errorf("WebAddr returned %s, Status %q", addr, got)
	}
	// one connection per request
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waitTimeout}
	for range 300 {
		answer, err := client.Get("http://" + addr + "/actuator/health")
		check.Must(t, err)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("response %s", answer.Status)
		}
	}
}

// TestClusterAddr checks that ClusterAddr returns the address of the Pod with the port of the base, and an empty
// string while the Pod is unavailable.
func TestClusterAddr(t *testing.T) {
	b := newFixture(t)
	m := b.add(t, fleet.Set{}, 1)[0]
	_, port, err := net.SplitHostPort(m.Base.(*base).Base.Status().WebAddr)
	check.Must(t, err)
	want := ""
	// otherwise this machine has no network
	if about, err := remote.FetchProcessInfo(t.Context(), b.running[Name+"-0"]); err == nil && about.Address != "" {
		want = net.JoinHostPort(about.Address, port)
	}
	if got := m.ClusterAddr(); got != want {
		t.Errorf("ClusterAddr returned %q, want %q", got, want)
	}
	b.lose(Name + "-0")
	b.until(t, 2)
	if addr := m.ClusterAddr(); addr != "" {
		t.Errorf("ClusterAddr of a base in an unavailable Pod returned %s", addr)
	}
}

// TestBasesRecoverWithPod checks that, when a Pod becomes unavailable, its bases go down and the bases of other Pods
// keep running. When the Pod is available again, its bases must be recreated with the same identities.
func TestBasesRecoverWithPod(t *testing.T) {
	b := newFixture(t)
	members := b.add(t, fleet.Set{}, 4)
	podOf := func(m *fleet.Member) string { return m.Base.(*base).slot.pod.name }
	// the bases of the first Pod first
	slices.SortFunc(members, func(x, y *fleet.Member) int { return strings.Compare(podOf(x), podOf(y)) })
	b.lose(Name + "-0")
	changes := b.until(t, 3)
	if !slices.ContainsFunc(changes,
		func(s string) bool { return strings.HasPrefix(s, Name+"-0 exited: ") && strings.HasSuffix(s, " 137") }) {
		t.Errorf("changes: %q", changes)
	}
	var running []bool // each base notices the end of its Pod separately, possibly after the change is reported
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, waitTimeout, true,
		func(context.Context) (bool, error) {
			running = nil
			for _, m := range members {
				running = append(running, m.Base.Status().Running)
			}
			return slices.Equal(running, []bool{false, false, true, true}), nil
		})
	if err != nil {
		t.Errorf("running: %v", running)
	}
	components := b.pods.Components(t.Context())
	if len(components) != 2 || components[0].Ready || !strings.Contains(components[0].Reason, "its bases are down") ||
		!components[1].Ready {
		t.Errorf("components: %+v", components)
	}
	if err := members[0].Base.Restart(""); err == nil {
		t.Error("a base in an unavailable Pod was restarted")
	}
	before := members[0].Base.Identity()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := b.fleet.WaitConnected(ctx, members...); err == nil {
		t.Error("bases in an unavailable Pod are connected")
	}
	b.restore(Name + "-0")
	if err := b.pods.Act(t.Context(), Name+"-0", supervise.Start); err != nil {
		t.Error(err)
	}
	limit, done := context.WithTimeout(t.Context(), waitTimeout)
	defer done()
	if err := b.fleet.WaitConnected(limit, members...); err != nil {
		t.Error(err)
	}
	if after := members[0].Base.Identity(); after != before {
		t.Errorf("identity %s became %s", before, after)
	}
}

// TestUnavailablePod checks that Add blocks until its context ends if a Pod does not become available, and that the
// error contains the reason.
func TestUnavailablePod(t *testing.T) {
	b := newFixture(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name + "-0"},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
		}}}},
	})
	b.down[Name+"-0"] = true
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := b.fleet.Add(ctx, fleet.Set{}, 1)
	if want := "ImagePullBackOff no such image"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if n := b.fleet.Count().Own; n != 0 {
		t.Errorf("%d bases remain", n)
	}
}

// TestBinaryOfAnotherVersion checks that a Pod with another version of the binary is rejected with an error that
// contains both versions.
func TestBinaryOfAnotherVersion(t *testing.T) {
	b := newFixture(t)
	b.version, b.pods.o.version = "v1.0.0", "v1.1.0"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := b.fleet.Add(ctx, fleet.Set{}, 1)
	if err == nil || !strings.Contains(err.Error(), "image i ") || !strings.Contains(err.Error(), "v1.0.0") ||
		!strings.Contains(err.Error(), "v1.1.0") {
		t.Errorf("error %v", err)
	}
}

// TestWaitAgent checks that WaitAgent blocks until the Pod of the traffic agent is running. If its context ends
// first, the error must contain the reason why the Pod is not running.
func TestWaitAgent(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: AgentName + "-0"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"},
	}}}
	b := newFixture(t, pod)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("timed out after 1s"))
	defer cancel()
	if err := b.pods.WaitAgent(ctx); err == nil || !strings.Contains(err.Error(), "koupsandbox-agent-0") ||
		!strings.HasSuffix(err.Error(), "ErrImagePull no such image") {
		t.Errorf("error %v", err)
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := b.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := b.pods.WaitAgent(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHTTPTunnel checks that a base with the HTTP tunnel sends heartbeats from its Pod, and that it accepts commands
// at an address of this machine.
func TestHTTPTunnel(t *testing.T) {
	b := newFixture(t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{host}/heartbeat", func(w http.ResponseWriter, r *http.Request) {
		to, err := b.fleet.HeartbeatTransport(r.PathValue("host"))
		if err == nil {
			_, err = to.RoundTrip(r)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	b.pods.o.Heartbeats = server.URL
	m := b.add(t, fleet.Set{Group: "g", Spec: v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP}}, 1)[0]
	addr, port := m.Arklet()
	if _, own, err := net.SplitHostPort(m.Base.HTTPAddr()); err != nil || own != port ||
		strings.HasSuffix(addr, ":"+port) {
		t.Errorf("arklet address in the Pod %s; forwarded address %s, port %s", m.Base.HTTPAddr(), addr, port)
	}
	client := &http.Client{Timeout: waitTimeout}
	response, err := client.Post("http://"+addr+"/queryAllBiz", "application/json", strings.NewReader("{}"))
	check.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body) // arklet closes the connection after the response
	if err != nil || !strings.Contains(string(text), m.Base.Identity()) {
		t.Errorf("response %s, error %v", text, err)
	}
}

// TestHTTPTunnelWithoutHeartbeats checks that, if Pods cannot send heartbeats to this machine, bases with the HTTP
// tunnel run in this process, and that Add rejects a set that explicitly requests Pods.
func TestHTTPTunnelWithoutHeartbeats(t *testing.T) {
	b := newFixture(t)
	members, err := b.fleet.Add(t.Context(), fleet.Set{Group: "g", Spec: v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP}},
		1)
	if err != nil || members[0].Runtime != v1alpha1.RuntimeProcess {
		t.Errorf("default runtime %s, error %v", members[0].Runtime, err)
	}
	_, err = b.fleet.Add(t.Context(),
		fleet.Set{Group: "g", Spec: v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP, Runtime: v1alpha1.RuntimeCluster}}, 1)
	if !errors.Is(err, fleet.ErrInvalid) || !strings.Contains(err.Error(), "use the tunnel mqtt") {
		t.Error(err)
	}
}

// TestForeignStatefulSetIsKept checks that a StatefulSet of another owner is neither changed nor removed.
func TestForeignStatefulSetIsKept(t *testing.T) {
	foreign := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name, UID: "theirs",
			Labels: map[string]string{sandboxLabel: "other"}}}
	b := newFixture(t, foreign.DeepCopy())
	if err := b.pods.Ensure(t.Context(), 1); err == nil || !strings.Contains(err.Error(), `not belong to sandbox "s"`) {
		t.Errorf("Ensure returned %v", err)
	}
	if err := Remove(t.Context(), b.client, "s"); err != nil {
		t.Error(err)
	}
	got, err := b.client.AppsV1().StatefulSets(namespace).Get(t.Context(), Name, metav1.GetOptions{})
	check.Must(t, err)
	if d := cmp.Diff(foreign, got,
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".TypeMeta" }, cmp.Ignore())); d != "" {
		t.Errorf("StatefulSet (-want +got):\n%s", d)
	}
}

func TestRemove(t *testing.T) {
	b := newFixture(t)
	b.pods.o.AgentImage = "koupsandbox"
	for range 2 { // idempotent
		check.Must(t, b.pods.EnsureAgent(t.Context()))
	}
	check.Must(t, b.pods.Ensure(t.Context(), 2))
	all := b.client.AppsV1().StatefulSets(namespace)
	list, err := all.List(t.Context(), metav1.ListOptions{})
	check.Must(t, err)
	var got []string
	for _, s := range list.Items {
		c := s.Spec.Template.Spec.Containers[0]
		got = append(got, fmt.Sprintf("%s: %d of %s, %s", s.Name, *s.Spec.Replicas, c.Image,
			strings.Join(c.Command, " ")))
	}
	want := []string{
		"koupsandbox-agent: 1 of koupsandbox, /koupsandbox traffic-agent --idle",
		"koupsandbox-bases: 2 of i, /fakebase --idle",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("StatefulSets (-want +got):\n%s", d)
	}
	for range 2 {
		check.Must(t, Remove(t.Context(), b.client, "s"))
		if list, err := all.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
			t.Errorf("%d StatefulSets remain, error %v", len(list.Items), err)
		}
	}
}
