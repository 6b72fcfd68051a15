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

// patient is how long anything may take.
const patient = check.Patience

// answering accepts every heartbeat.
type answering struct{}

func (answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// nodes run what stands for Pods: each is a server in this process.
type nodes struct {
	mu      sync.Mutex
	running map[string]*running
	away    map[string]bool // Pods that cannot be reached
	version string          // of their program
	told    []string
	news    chan struct{}
}

type running struct {
	*http2.ClientConn
	done chan struct{}
	end  func()
}

func (r *running) Done() <-chan struct{} { return r.done }
func (r *running) Err() error            { return errors.New("exit code 137") }

func (r *running) Close() error {
	r.end()
	return nil
}

func (n *nodes) dial(ctx context.Context, pod string) (connection, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away[pod] {
		return nil, fmt.Errorf("pods %q not found", pod)
	}
	here, there := net.Pipe()
	r := &running{done: make(chan struct{})}
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

// lose ends a Pod, which stays away until it is back.
func (n *nodes) lose(pod string) {
	n.mu.Lock()
	r := n.running[pod]
	n.away[pod] = true
	n.mu.Unlock()
	r.end()
}

func (n *nodes) back(pod string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away[pod] = false
}

func (n *nodes) changed(pod string, state supervise.State, message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, fmt.Sprintf("%s %s: %s", pod, state, message))
	select {
	case n.news <- struct{}{}:
	default:
	}
}

// until waits until so many changes of Pods have been told.
func (n *nodes) until(t *testing.T, count int) []string {
	t.Helper()
	limit := time.After(patient)
	for {
		n.mu.Lock()
		told := slices.Clone(n.told)
		n.mu.Unlock()
		if len(told) >= count {
			return told
		}
		select {
		case <-n.news:
		case <-limit:
			t.Fatalf("told was %q", told)
		}
	}
}

// bench is a fleet whose bases run in Pods, two in each.
type bench struct {
	*nodes
	pods   *Pods
	fleet  *fleet.Fleet
	client *fake.Clientset
}

func newBench(t *testing.T, objects ...runtime.Object) *bench {
	t.Helper()
	server, err := broker.New(broker.Options{Env: "dev"})
	check.Must(t, err)
	b := &bench{nodes: &nodes{running: map[string]*running{}, away: map[string]bool{}, news: make(chan struct{}, 1)},
		client: fake.NewClientset(objects...)}
	b.pods = newPods(Options{Sandbox: "s", Image: "i", PerPod: 2, Broker: "tcp://" + server.Addr(), Changed: b.changed,
		host: "127.0.0.1", dial: b.dial}, b.client)
	b.fleet = fleet.New(fleet.Options{
		Own: v1alpha1.BaseSet{Runtime: v1alpha1.RuntimeCluster}, Beat: answering{}, Username: broker.BaseUser,
		Password: server.Passwords().Base,
		Runtimes: map[v1alpha1.BaseRuntime]fleet.Runtime{v1alpha1.RuntimeCluster: b.pods},
	})
	for _, start := range []func(context.Context) error{server.Start, b.pods.Start, b.fleet.Start} {
		check.Run(t, start)
	}
	return b
}

func (b *bench) add(t *testing.T, set fleet.Set, count int) []*fleet.Member {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	members, err := b.fleet.Add(ctx, set, count)
	if err == nil {
		err = b.fleet.WaitConnected(ctx, members...)
	}
	check.Must(t, err)
	return members
}

func (b *bench) replicas(t *testing.T) int32 {
	t.Helper()
	s, err := b.client.AppsV1().StatefulSets(namespace).Get(t.Context(), Name, metav1.GetOptions{})
	check.Must(t, err)
	return *s.Spec.Replicas
}

// Bases share Pods, each with an address of its own; what is free is used again.
func TestBasesSharePods(t *testing.T) {
	b := newBench(t)
	members := b.add(t, fleet.Set{}, 5)
	if got := b.replicas(t); got != 3 {
		t.Errorf("%d Pods, want 3", got)
	}
	addresses := map[string]bool{}
	for _, m := range members {
		s := m.Base.Status()
		addresses[s.IP] = true
		if found, ok := b.fleet.ByIP(m.IP()); !ok || found != m || s.IP != m.IP() || !s.Connected {
			t.Errorf("%s is %+v, behind its address is %v", m.HostName, s, found)
		}
	}
	if len(addresses) != 5 {
		t.Errorf("the addresses are %v", addresses)
	}
	if _, err := b.fleet.Remove(t.Context(), fleet.Selection{Names: []string{"base-1", "base-2"}}); err != nil {
		t.Fatal(err)
	}
	b.add(t, fleet.Set{}, 3)
	if got := b.replicas(t); got != 3 {
		t.Errorf("after others have come there are %d Pods, want 3", got)
	}
}

// Requests reach the module listener of a base by an address of this machine.
func TestRequestsToBases(t *testing.T) {
	b := newBench(t)
	m := b.add(t, fleet.Set{}, 1)[0]
	addr, err := m.Base.WebAddr(t.Context())
	check.Must(t, err)
	if got := m.Base.Status().WebAddr; got != addr {
		t.Errorf("it is reached at %s, the base shows %q", addr, got)
	}
	// each by a connection of its own
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patient}
	for range 300 {
		answer, err := client.Get("http://" + addr + "/actuator/health")
		check.Must(t, err)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("answered %s", answer.Status)
		}
	}
}

// Inside the cluster a base is reached at the address of its Pod, unless that is away.
func TestBasesInsideTheCluster(t *testing.T) {
	b := newBench(t)
	m := b.add(t, fleet.Set{}, 1)[0]
	_, port, err := net.SplitHostPort(m.Base.(*base).Base.Status().WebAddr)
	check.Must(t, err)
	want := ""
	// else this machine has no network
	if about, err := remote.FetchProcessInfo(t.Context(), b.running[Name+"-0"]); err == nil && about.Address != "" {
		want = net.JoinHostPort(about.Address, port)
	}
	if got := m.Inside(); got != want {
		t.Errorf("it is reached at %q, want %q", got, want)
	}
	b.lose(Name + "-0")
	b.until(t, 2)
	if addr := m.Inside(); addr != "" {
		t.Errorf("in a Pod that is away it is reached at %s", addr)
	}
}

// A Pod that is lost takes its bases with it, and no others; that is told; when it is back they
// are too.
func TestBasesComeBackWithTheirPod(t *testing.T) {
	b := newBench(t)
	members := b.add(t, fleet.Set{}, 4)
	podOf := func(m *fleet.Member) string { return m.Base.(*base).place.pod.name }
	// those of the first Pod first
	slices.SortFunc(members, func(x, y *fleet.Member) int { return strings.Compare(podOf(x), podOf(y)) })
	b.lose(Name + "-0")
	told := b.until(t, 3)
	if !slices.ContainsFunc(told,
		func(s string) bool { return strings.HasPrefix(s, Name+"-0 exited: ") && strings.HasSuffix(s, " 137") }) {
		t.Errorf("told was %q", told)
	}
	var running []bool // each base notices the end of its Pod by itself, possibly after the Pod is reported
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patient, true,
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
	parts := b.pods.Components(t.Context())
	if len(parts) != 2 || parts[0].Ready || !strings.Contains(parts[0].Reason, "its bases are down") ||
		!parts[1].Ready {
		t.Errorf("components: %+v", parts)
	}
	if err := members[0].Base.Restart(""); err == nil {
		t.Error("a base whose Pod is away was restarted")
	}
	before := members[0].Base.Identity()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := b.fleet.WaitConnected(ctx, members...); err == nil {
		t.Error("the bases of a Pod that is away are connected")
	}
	b.back(Name + "-0")
	if err := b.pods.Act(t.Context(), Name+"-0", supervise.Start); err != nil {
		t.Error(err)
	}
	limit, done := context.WithTimeout(t.Context(), patient)
	defer done()
	if err := b.fleet.WaitConnected(limit, members...); err != nil {
		t.Error(err)
	}
	if after := members[0].Base.Identity(); after != before {
		t.Errorf("the base %s has come back as %s", before, after)
	}
}

// Waiting for a Pod that does not come ends with its context, and says why.
func TestPodThatDoesNotCome(t *testing.T) {
	b := newBench(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name + "-0"},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
		}}}},
	})
	b.away[Name+"-0"] = true
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := b.fleet.Add(ctx, fleet.Set{}, 1)
	if want := "ImagePullBackOff no such image"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if n := b.fleet.Count().Own; n != 0 {
		t.Errorf("%d bases are left", n)
	}
}

// A program of another release runs no bases, and it is said which one is needed.
func TestProgramOfAnotherVersion(t *testing.T) {
	b := newBench(t)
	b.version, b.pods.o.version = "v1.0.0", "v1.1.0"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := b.fleet.Add(ctx, fleet.Set{}, 1)
	if err == nil || !strings.Contains(err.Error(), "image i ") || !strings.Contains(err.Error(), "v1.0.0") ||
		!strings.Contains(err.Error(), "v1.1.0") {
		t.Errorf("error %v", err)
	}
}

// The traffic agent is waited for, and what keeps its Pod from running is said.
func TestWaitAgent(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: AgentName + "-0"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"},
	}}}
	b := newBench(t, pod)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("not within a second"))
	defer cancel()
	if err := b.pods.WaitAgent(ctx); err == nil || !strings.Contains(err.Error(), "koupsandbox-agent-0") ||
		!strings.HasSuffix(err.Error(), "ErrImagePull no such image") {
		t.Errorf("got %v", err)
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := b.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := b.pods.WaitAgent(t.Context()); err != nil {
		t.Error(err)
	}
}

// A base with the tunnel http sends its heartbeats from its Pod, and takes commands by an address of this
// machine.
func TestHTTPTunnel(t *testing.T) {
	b := newBench(t)
	hearts := http.NewServeMux()
	hearts.HandleFunc("POST /{host}/heartbeat", func(w http.ResponseWriter, r *http.Request) {
		to, err := b.fleet.Beat(r.PathValue("host"))
		if err == nil {
			_, err = to.RoundTrip(r)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	server := httptest.NewServer(hearts)
	t.Cleanup(server.Close)
	b.pods.o.Heartbeats = server.URL
	m := b.add(t, fleet.Set{Group: "g", Spec: v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP}}, 1)[0]
	addr, port := m.Arklet()
	if _, own, err := net.SplitHostPort(m.Base.HTTPAddr()); err != nil || own != port ||
		strings.HasSuffix(addr, ":"+port) {
		t.Errorf("arklet listens at %s, and is reached at %s, port %s", m.Base.HTTPAddr(), addr, port)
	}
	client := &http.Client{Timeout: patient}
	response, err := client.Post("http://"+addr+"/queryAllBiz", "application/json", strings.NewReader("{}"))
	check.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body) // arklet closes the connection after its answer
	if err != nil || !strings.Contains(string(text), m.Base.Identity()) {
		t.Errorf("answered %s, error %v", text, err)
	}
}

// Where Pods do not reach this machine, a base with the tunnel http runs in this process, unless its set
// names the runtime.
func TestHTTPTunnelWithoutHeartbeats(t *testing.T) {
	b := newBench(t)
	members, err := b.fleet.Add(t.Context(), fleet.Set{Group: "g", Spec: v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP}},
		1)
	if err != nil || members[0].Runtime != v1alpha1.RuntimeProcess {
		t.Errorf("where no runtime is named: %v", err)
	}
	_, err = b.fleet.Add(t.Context(),
		fleet.Set{Group: "g", Spec: v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP, Runtime: v1alpha1.RuntimeCluster}}, 1)
	if !errors.Is(err, fleet.ErrInvalid) || !strings.Contains(err.Error(), "use mqtt") {
		t.Error(err)
	}
}

// What others have made under the name is neither changed nor removed.
func TestNeighbourStays(t *testing.T) {
	theirs := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name, UID: "theirs",
			Labels: map[string]string{sandboxLabel: "other"}}}
	b := newBench(t, theirs.DeepCopy())
	if err := b.pods.Ensure(t.Context(), 1); err == nil || !strings.Contains(err.Error(), `sandbox "s" has not made`) {
		t.Errorf("ensured: %v", err)
	}
	if err := Remove(t.Context(), b.client, "s"); err != nil {
		t.Error(err)
	}
	there, err := b.client.AppsV1().StatefulSets(namespace).Get(t.Context(), Name, metav1.GetOptions{})
	check.Must(t, err)
	if d := cmp.Diff(theirs, there,
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".TypeMeta" }, cmp.Ignore())); d != "" {
		t.Errorf("it has changed (-want +got):\n%s", d)
	}
}

func TestRemove(t *testing.T) {
	b := newBench(t)
	b.pods.o.AgentImage = "koupsandbox"
	for range 2 { // again is fine
		check.Must(t, b.pods.EnsureAgent(t.Context()))
	}
	check.Must(t, b.pods.Ensure(t.Context(), 2))
	all := b.client.AppsV1().StatefulSets(namespace)
	there, err := all.List(t.Context(), metav1.ListOptions{})
	check.Must(t, err)
	var got []string
	for _, s := range there.Items {
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
		if there, err := all.List(t.Context(), metav1.ListOptions{}); err != nil || len(there.Items) > 0 {
			t.Errorf("there are %d, error %v", len(there.Items), err)
		}
	}
}
