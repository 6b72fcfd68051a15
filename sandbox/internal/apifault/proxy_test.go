package apifault_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	core "github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/apifault"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

const waitTimeout = check.WaitTimeout

// fakeAPI is a fake API server that supports HTTP/2. It requires a token, records requests, and sends the watch
// events that the test publishes. Like an API server of Kubernetes 1.37, it compresses watch responses for clients that
// accept gzip.
type fakeAPI struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string                 // method and path of each request
	version  string                   // resource version in list responses
	watches  map[string][]chan string // channels for object names to send, one per open watch, by path
	ended    chan struct{}            // receives a value when a watch has ended
}

const apiToken = "api-token"

func newFakeAPI(t testing.TB) *fakeAPI {
	t.Helper()
	f := &fakeAPI{watches: map[string][]chan string{}, version: "1", ended: make(chan struct{}, 100)}
	f.Server = httptest.NewUnstartedServer(f)
	f.EnableHTTP2 = true
	f.StartTLS()
	t.Cleanup(f.Close)
	return f
}

// ServeHTTP implements http.Handler.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get("Authorization"); got != "Bearer "+apiToken {
		http.Error(w, "unknown token "+got, http.StatusUnauthorized)
		return
	}
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		f.watch(w, r)
		return
	}
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+r.URL.Path)
	version := f.version
	f.mu.Unlock()
	kind := map[bool]string{true: "Node", false: "Pod"}[strings.Contains(r.URL.Path, "nodes")]
	switch parts := strings.Split(r.URL.Path, "/"); {
	case r.Method != http.MethodGet: // in the encoding of the request, protobuf
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write(body)
	case parts[len(parts)-1] == "nodes" || parts[len(parts)-1] == "pods":
		fmt.Fprintf(w, `{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[]}`, kind+"List",
			version)
	default:
		fmt.Fprintf(w, `{"kind":%q,"apiVersion":"v1","metadata":{"name":%q}}`, kind, parts[len(parts)-1])
	}
}

func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request) {
	names := make(chan string, 100)
	f.mu.Lock()
	f.requests = append(f.requests, "WATCH "+r.URL.Path)
	f.watches[r.URL.Path] = append(f.watches[r.URL.Path], names)
	f.mu.Unlock()
	flush := http.NewResponseController(w).Flush
	body := io.Writer(w)
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		compressor := gzip.NewWriter(w)
		body, flush = compressor, func() error {
			return errors.Join(compressor.Flush(), http.NewResponseController(w).Flush())
		}
	}
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case name := <-names:
			kind := map[bool]string{true: "Node", false: "Pod"}[strings.Contains(r.URL.Path, "nodes")]
			fmt.Fprintf(body, `{"type":"ADDED","object":{"kind":%q,"apiVersion":"v1","metadata":{"name":%q}}}`+"\n", kind,
				name)
			_ = flush()
		case <-r.Context().Done():
			f.ended <- struct{}{}
			return
		}
	}
}

// publish sends an event for each object name to all watches of the given path.
func (f *fakeAPI) publish(path string, names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, watch := range f.watches[path] {
		for _, name := range names {
			watch <- name
		}
	}
}

func (f *fakeAPI) count(request string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.requests {
		if s == request {
			n++
		}
	}
	return n
}

// fixture is a test setup: a controller client that connects to a fake API server through a proxy.
type fixture struct {
	*apifault.Proxy
	faults     *fault.Set
	t          testing.TB
	api        *fakeAPI
	client     kubernetes.Interface
	config     *rest.Config
	kubeconfig string

	mu     sync.Mutex
	events []string
	killed atomic.Int64 // sum of the numbers of killed controllers
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	r := &fixture{t: t, api: newFakeAPI(t)}
	dir := t.TempDir()
	direct := filepath.Join(dir, "direct")
	certificate := clientcmdapi.Cluster{Server: r.api.URL, InsecureSkipTLSVerify: true}
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"x": &certificate},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"x": {Token: apiToken}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "x", AuthInfo: "x"}}, CurrentContext: "x",
	}, direct); err != nil {
		t.Fatal(err)
	}
	r.faults = fault.NewSet(func(_ string, e events.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e.Fault.ID+" "+string(e.Fault.Change))
	})
	r.Proxy = apifault.New(apifault.Options{Dir: dir, Kubeconfig: direct, Faults: r.faults,
		GroupOf: func(namespace, name string) string {
			if namespace != "" && namespace != "ns" {
				return namespace
			}
			return map[string]string{"base-of-run": "run", "base-of-other": "other"}[name]
		}, Kill: func(n int) { r.killed.Add(int64(n)) }})
	check.Run(t, r.Start)
	var err error
	r.kubeconfig, err = r.AddController("module-controller", 1)
	if err != nil {
		t.Fatal(err)
	}
	r.config, err = clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	r.config.QPS = -1
	r.client, err = kubernetes.NewForConfig(r.config)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// set sets a fault of the group "run" after applying its defaults.
func (r *fixture) set(x v1alpha1.Fault) {
	r.t.Helper()
	v1alpha1.SetFaultDefaults(v1alpha1.TargetAPI, &x)
	if errs := v1alpha1.ValidateFault(v1alpha1.TargetAPI, &x); len(errs) > 0 {
		r.t.Fatal(errs.ToAggregate())
	}
	if err := r.inject(x, 0, "run"); err != nil {
		r.t.Fatal(err)
	}
}

func (r *fixture) inject(x v1alpha1.Fault, replica int, group string) error {
	_, err := r.Inject(r.t.Context(),
		fault.Injection{Fault: x, Target: v1alpha1.TargetAPI, Replica: replica, Group: group})
	return err
}

func (r *fixture) clear(id string) {
	r.faults.Clear(func(i fault.Injection) bool { return i.ID == id })
}

func (r *fixture) status(id string) fault.Status {
	for _, x := range r.faults.List("") {
		if x.ID == id {
			return x
		}
	}
	r.t.Fatalf("fault %s not found", id)
	return fault.Status{}
}

// waitFor waits until the status of a fault meets a condition.
func (r *fixture) waitFor(id string, condition func(fault.Status) bool) {
	r.t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; {
		x := r.status(id)
		if condition(x) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("timeout waiting for fault %s: triggered %d times, ended %q", id, x.Triggered, x.Ended)
		}
	}
}

func (r *fixture) eventLog() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// watch starts a watch that is stopped at the end of the test.
func (r *fixture) watch(start func(context.Context, metav1.ListOptions) (watch.Interface, error)) <-chan watch.Event {
	r.t.Helper()
	w, err := start(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Stop)
	return w.ResultChan()
}

func (r *fixture) next(from <-chan watch.Event) string {
	r.t.Helper()
	select {
	case e, open := <-from:
		switch o := e.Object.(type) {
		case *corev1.Node:
			return o.Name
		case *corev1.Pod:
			return o.Name
		}
		return fmt.Sprintf("%t %v", open, e)
	case <-time.After(waitTimeout):
		r.t.Fatal("timeout waiting for a watch event")
		return ""
	}
}

const nodes, pods = "/api/v1/nodes", "/api/v1/pods"

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
}

// TestAuthentication checks that the proxy requires the token from its kubeconfig, and that it sends the token of the
// controller to the API server.
func TestAuthentication(t *testing.T) {
	r := newFixture(t)
	if _, err := r.client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	transport, err := rest.TransportFor(r.config)
	check.Must(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.config.Host+nodes, nil)
	check.Must(t, err)
	response, err := transport.RoundTrip(request)
	check.Must(t, err)
	_ = response.Body.Close()
	if response.ProtoMajor != 2 || response.StatusCode != http.StatusOK { // the body has no information
		t.Errorf("protocol = %s, status = %s; want HTTP/2 and 200", response.Proto, response.Status)
	}
	info, err := os.Stat(r.kubeconfig)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the kubeconfig = %v, error = %v; want 0600", info.Mode(), err)
	}
	for name, change := range map[string]func(*rest.Config){
		"no token":    func(c *rest.Config) { c.BearerToken = "" },
		"wrong token": func(c *rest.Config) { c.BearerToken = apiToken },
	} {
		unauthorized := rest.CopyConfig(r.config)
		change(unauthorized)
		client, err := kubernetes.NewForConfig(unauthorized)
		check.Must(t, err)
		if _, err := client.CoreV1().Nodes().Get(t.Context(), "b",
			metav1.GetOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: error = %v, want Unauthorized", name, err)
		}
	}
	if n := r.api.count("GET " + nodes + "/b"); n != 0 {
		t.Errorf("the API server was asked %d times by unauthorizeds", n)
	}
}

// TestHoldWatch checks that a holdWatch fault for Nodes holds the events of existing and new watches of Nodes, but
// not of Pods. When the fault is cleared, the held events must be delivered in order.
func TestHoldWatch(t *testing.T) {
	r := newFixture(t)
	ofNodes, ofPods := r.watch(r.client.CoreV1().Nodes().Watch), r.watch(r.client.CoreV1().Pods("").Watch)
	r.api.publish(nodes, "n0")
	if got := r.next(ofNodes); got != "n0" {
		t.Fatalf("event = %q", got)
	}
	r.set(v1alpha1.Fault{ID: "stale", Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "nodes"}})
	later := r.watch(r.client.CoreV1().Nodes().Watch)
	r.api.publish(nodes, "n1", "n2", "n3")
	r.api.publish(pods, "p1")
	if got := r.next(ofPods); got != "p1" {
		t.Fatalf("event = %q", got)
	}
	r.waitFor("stale", func(x fault.Status) bool { return x.Triggered == 6 })
	select {
	case e := <-ofNodes:
		t.Fatalf("event of a held watch: %v", e)
	case e := <-later:
		t.Fatalf("event of a held new watch: %v", e)
	default:
	}
	r.clear("stale")
	for _, from := range []<-chan watch.Event{ofNodes, later} {
		got := []string{r.next(from), r.next(from), r.next(from)}
		if diff := cmp.Diff([]string{"n1", "n2", "n3"}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
	r.api.publish(nodes, "n4")
	if got := r.next(ofNodes); got != "n4" {
		t.Errorf("event = %q", got)
	}
}

// TestFaultsBeyondContract checks the faults that drop, duplicate or reorder watch events: they must change events
// until the fault is cleared, and must not affect watches of other resources.
func TestFaultsBeyondContract(t *testing.T) {
	for kind, want := range map[core.Kind][]string{
		v1alpha1.APILoseEvents:    {"n4"},
		v1alpha1.APIDoubleEvents:  {"n1", "n1", "n2", "n2", "n3", "n3", "n4"},
		v1alpha1.APIReorderEvents: {"n2", "n1", "n3", "n4"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			r := newFixture(t)
			ofNodes, ofPods := r.watch(r.client.CoreV1().Nodes().Watch), r.watch(r.client.CoreV1().Pods("").Watch)
			r.set(v1alpha1.Fault{ID: "events", Kind: kind, Match: v1alpha1.FaultMatch{Resource: "nodes"}})
			r.api.publish(nodes, "n1", "n2", "n3")
			r.api.publish(pods, "p1")
			if got := r.next(ofPods); got != "p1" {
				t.Fatalf("event = %q", got)
			}
			r.waitFor("events", func(x fault.Status) bool { return x.Triggered == 3 })
			r.clear("events")
			r.api.publish(nodes, "n4")
			var got []string
			for len(got) == 0 || got[len(got)-1] != "n4" {
				got = append(got, r.next(ofNodes))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStopHeldWatch checks that, when the client stops a held watch, the watch also ends in the proxy and at the API
// server.
func TestStopHeldWatch(t *testing.T) {
	r := newFixture(t)
	w, err := r.client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	check.Must(t, err)
	r.set(v1alpha1.Fault{ID: "stale", Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "nodes"}})
	r.api.publish(nodes, "n1")
	r.waitFor("stale", func(x fault.Status) bool { return x.Triggered == 1 })
	w.Stop()
	select {
	case <-r.api.ended:
	case <-time.After(waitTimeout):
		t.Error("timeout waiting for the end of the watch at the API server")
	}
	for deadline := time.Now().Add(waitTimeout); r.Watches() > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("open watches = %d, want 0", r.Watches())
		}
	}
}

// TestCutWatch checks that a cutWatch fault ends a watch in the same way as a server-side timeout. With relist, the
// next watch request must fail with status 410, and the request after that must succeed.
func TestCutWatch(t *testing.T) {
	r := newFixture(t)
	ofNodes, ofPods := r.watch(r.client.CoreV1().Nodes().Watch), r.watch(r.client.CoreV1().Pods("").Watch)
	r.set(v1alpha1.Fault{ID: "cut", Kind: v1alpha1.APICutWatch, Relist: true,
		Match: v1alpha1.FaultMatch{Resource: "nodes"}})
	select {
	case e, open := <-ofNodes:
		if open {
			t.Errorf("unexpected event %v", e)
		}
	case <-time.After(waitTimeout):
		t.Error("watch is still open")
	}
	if _, err := r.client.CoreV1().Nodes().Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: "7"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("error of the next watch = %v, want Expired", err)
	}
	if x := r.status("cut"); x.Triggered != 2 || x.Ended == "" {
		t.Errorf("triggered %d times, ended %q", x.Triggered, x.Ended)
	}
	newWatch := r.watch(r.client.CoreV1().Nodes().Watch)
	r.api.publish(nodes, "n1")
	r.api.publish(pods, "p1")
	if a, b := r.next(newWatch), r.next(ofPods); a != "n1" || b != "p1" {
		t.Errorf("events = %q, %q; want n1, p1", a, b)
	}
}

// TestRefuse checks that a refuse fault skips the first Skip matching writes and rejects the next Count matching
// writes. The API server must receive all other writes.
func TestRefuse(t *testing.T) {
	for code, is := range map[int]func(error) bool{409: apierrors.IsConflict, 500: apierrors.IsInternalError} {
		r := newFixture(t)
		r.set(v1alpha1.Fault{ID: "refuse", Kind: v1alpha1.APIRefuse, Status: code, Skip: 1, Count: 2,
			Match: v1alpha1.FaultMatch{Resource: "pods/status", Name: "stock"}})
		var got []bool
		for range 5 {
			_, err := r.client.CoreV1().Pods("ns").UpdateStatus(t.Context(), pod("stock-1"), metav1.UpdateOptions{})
			got = append(got, err == nil)
			if err != nil && !is(err) {
				t.Errorf("status %d: error = %v", code, err)
			}
		}
		for _, other := range []func() error{
			func() error {
				_, err := r.client.CoreV1().Pods("ns").Update(t.Context(), pod("stock-1"), metav1.UpdateOptions{})
				return err
			},
			func() error {
				_, err := r.client.CoreV1().Pods("ns").UpdateStatus(t.Context(), pod("other"), metav1.UpdateOptions{})
				return err
			},
		} {
			if err := other(); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]bool{true, false, false, true, true}, got); diff != "" {
			t.Errorf("status %d: successful writes (-want +got):\n%s", code, diff)
		}
		if n := r.api.count("PUT /api/v1/namespaces/ns/pods/stock-1/status"); n != 3 {
			t.Errorf("status %d: writes at the API server = %d, want 3", code, n)
		}
		if diff := cmp.Diff([]string{"refuse set", "refuse fired", "refuse fired", "refuse cleared"},
			r.eventLog()); diff != "" {
			t.Errorf("status %d: events (-want +got):\n%s", code, diff)
		}
		if diff := cmp.Diff(map[int]map[string]int{1: {"update pods": 1, "update pods/status": 6}},
			r.Writes("").By); diff != "" {
			t.Errorf("status %d: writes (-want +got):\n%s", code, diff)
		}
	}
}

// TestTooManyRequests checks that a client whose write is rejected with status 429 retries it after the delay in the
// response.
func TestTooManyRequests(t *testing.T) {
	r := newFixture(t)
	r.set(v1alpha1.Fault{ID: "busy", Kind: v1alpha1.APIRefuse, Status: 429, Count: 1})
	began := time.Now()
	if _, err := r.client.CoreV1().Pods("ns").UpdateStatus(t.Context(), pod("a"), metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("write completed after %s, want at least 1s", took)
	}
}

// TestLoseAnswer checks that a loseAnswer fault makes the API server execute the write while the client receives no
// response. Watches must not be affected.
func TestLoseAnswer(t *testing.T) {
	r := newFixture(t)
	ofPods := r.watch(r.client.CoreV1().Pods("").Watch)
	r.set(v1alpha1.Fault{ID: "lost", Kind: v1alpha1.APILoseAnswer, Match: v1alpha1.FaultMatch{Resource: "pods"}})
	_, err := r.client.CoreV1().Pods("ns").Create(t.Context(), pod("a"), metav1.CreateOptions{})
	var status apierrors.APIStatus
	if err == nil || apierrors.IsConflict(err) || asStatus(err, &status) {
		t.Errorf("error = %v, want a connection error", err)
	}
	if n := r.api.count("POST /api/v1/namespaces/ns/pods"); n != 1 {
		t.Errorf("writes at the API server = %d, want 1", n)
	}
	if _, err := r.client.CoreV1().Pods("ns").Create(t.Context(), pod("a"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	r.api.publish(pods, "p1")
	if got := r.next(ofPods); got != "p1" {
		t.Errorf("event = %q", got)
	}
}

// TestKill checks that a kill fault kills the controller before or after a write, and that the controller receives no
// response to the write.
func TestKill(t *testing.T) {
	for kind, executed := range map[core.Kind]int{v1alpha1.APIKillBefore: 0, v1alpha1.APIKillAfter: 1} {
		r := newFixture(t)
		r.set(v1alpha1.Fault{ID: "kill", Kind: kind, Skip: 1, Match: v1alpha1.FaultMatch{Resource: "pods"}})
		if _, err := r.client.CoreV1().Pods("ns").Create(t.Context(), pod("a"), metav1.CreateOptions{}); err != nil {
			t.Errorf("%s: error of the first write = %v", kind, err)
		}
		_, err := r.client.CoreV1().Pods("ns").Create(t.Context(), pod("b"), metav1.CreateOptions{})
		var status apierrors.APIStatus
		if err == nil || asStatus(err, &status) {
			t.Errorf("%s: error = %v, want a connection error", kind, err)
		}
		if n := r.api.count("POST /api/v1/namespaces/ns/pods"); n != 1+executed {
			t.Errorf("%s: writes at the API server = %d, want %d", kind, n, 1+executed)
		}
		if n := r.killed.Load(); n != 1 {
			t.Errorf("%s: killed controller = %d, want 1", kind, n)
		}
	}
}

// TestOldList checks that, with an oldList fault, a list request with resourceVersion=0 receives the response that
// was saved when the fault was set. Other list requests must receive current data.
func TestOldList(t *testing.T) {
	r := newFixture(t)
	list := func(version string) string {
		l, err := r.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{ResourceVersion: version})
		check.Must(t, err)
		return l.ResourceVersion
	}
	list("0")
	r.api.mu.Lock()
	r.api.version = "2"
	r.api.mu.Unlock()
	r.set(v1alpha1.Fault{ID: "old", Kind: v1alpha1.APIOldList, Match: v1alpha1.FaultMatch{Resource: "nodes"}})
	r.api.mu.Lock()
	r.api.version = "3"
	r.api.mu.Unlock()
	got := []string{list("0"), list(""), list("0")}
	if x := r.status("old"); x.Triggered != 2 {
		t.Errorf("triggered %d times, want 2", x.Triggered)
	}
	r.clear("old")
	if diff := cmp.Diff([]string{"2", "3", "2", "3"}, append(got, list("0"))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestBlackHole checks that connections stay open during a blackHole fault, but transfer no data until the fault
// expires.
func TestBlackHole(t *testing.T) {
	r := newFixture(t)
	ofPods := r.watch(r.client.CoreV1().Pods("").Watch)
	r.set(v1alpha1.Fault{ID: "hole", Kind: v1alpha1.APIBlackHole, For: core.Duration(300 * time.Millisecond)})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.client.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{}); err == nil {
		t.Error("request succeeded, want a timeout")
	}
	r.api.publish(pods, "p1")
	if got := r.next(ofPods); got != "p1" {
		t.Errorf("event = %q", got)
	}
	if x := r.status("hole"); x.Triggered == 0 || x.Ended == "" {
		t.Errorf("triggered %d times, ended %q", x.Triggered, x.Ended)
	}
}

// TestReplica checks that a fault for one controller affects no other controller, and that fault IDs are unique.
func TestReplica(t *testing.T) {
	r := newFixture(t)
	second, err := r.AddController("module-controller-2", 2)
	check.Must(t, err)
	if again, err := r.AddController("module-controller-2", 2); err != nil || again != second {
		t.Errorf("kubeconfigs of the same controller = %s and %s, error = %v", second, again, err)
	}
	x := v1alpha1.Fault{ID: "one", Kind: v1alpha1.APIRefuse, Status: 500,
		Match: v1alpha1.FaultMatch{Verbs: []string{"get"}}}
	v1alpha1.SetFaultDefaults(v1alpha1.TargetAPI, &x)
	check.Must(t, r.inject(x, 2, "run"))
	if err := r.inject(x, 1, "run"); err == nil {
		t.Error("two faults have the same ID, want an error")
	}
	if err := r.inject(x, 3, "run"); err == nil {
		t.Error("fault of an unknown controller, want an error")
	}
	if _, err := r.client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("error of the first controller = %v", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", second)
	check.Must(t, err)
	other, err := kubernetes.NewForConfig(config)
	check.Must(t, err)
	if _, err := other.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("error of the second controller = %v, want InternalError", err)
	}
}

func asStatus(err error, into *apierrors.APIStatus) bool {
	s, is := err.(apierrors.APIStatus) //nolint:errorlint // client-go does not wrap it
	*into = s
	return is
}
