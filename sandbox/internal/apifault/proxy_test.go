package apifault_test

import (
	"context"
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

const patience = check.Patience

// fakeAPI is an API server with what these tests need of one: it speaks HTTP/2, knows one token,
// answers writes, counts them, and has watches that it tells whatever the test says.
type fakeAPI struct {
	*httptest.Server
	mu      sync.Mutex
	seen    []string                 // verb and path
	version string                   // of lists
	tell    map[string][]chan string // open watches by path
	left    chan struct{}            // a watch has ended
}

const identity = "the-controllers-own"

func newFakeAPI(t testing.TB) *fakeAPI {
	t.Helper()
	f := &fakeAPI{tell: map[string][]chan string{}, version: "1", left: make(chan struct{}, 100)}
	f.Server = httptest.NewUnstartedServer(f)
	f.EnableHTTP2 = true
	f.StartTLS()
	t.Cleanup(f.Close)
	return f
}

// ServeHTTP implements http.Handler.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get("Authorization"); got != "Bearer "+identity {
		http.Error(w, "who is "+got, http.StatusUnauthorized)
		return
	}
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		f.watch(w, r)
		return
	}
	f.mu.Lock()
	f.seen = append(f.seen, r.Method+" "+r.URL.Path)
	version := f.version
	f.mu.Unlock()
	kind := map[bool]string{true: "Node", false: "Pod"}[strings.Contains(r.URL.Path, "nodes")]
	switch parts := strings.Split(r.URL.Path, "/"); {
	case r.Method != http.MethodGet: // in the form in which it came, protobuf
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
	told := make(chan string, 100)
	f.mu.Lock()
	f.seen = append(f.seen, "WATCH "+r.URL.Path)
	f.tell[r.URL.Path] = append(f.tell[r.URL.Path], told)
	f.mu.Unlock()
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case name := <-told:
			kind := map[bool]string{true: "Node", false: "Pod"}[strings.Contains(r.URL.Path, "nodes")]
			fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":%q,"apiVersion":"v1","metadata":{"name":%q}}}`+"\n", kind,
				name)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			f.left <- struct{}{}
			return
		}
	}
}

// say tells all watches of a path of an object.
func (f *fakeAPI) say(path string, names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, told := range f.tell[path] {
		for _, name := range names {
			told <- name
		}
	}
}

func (f *fakeAPI) count(what string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		if s == what {
			n++
		}
	}
	return n
}

// rig is a controller that goes through a proxy to a fake API server.
type rig struct {
	*apifault.Proxy
	faults     *fault.Set
	t          testing.TB
	api        *fakeAPI
	client     kubernetes.Interface
	config     *rest.Config
	kubeconfig string

	mu     sync.Mutex
	events []string
	killed atomic.Int64 // the sum of their numbers
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, api: newFakeAPI(t)}
	dir := t.TempDir()
	direct := filepath.Join(dir, "direct")
	certificate := clientcmdapi.Cluster{Server: r.api.URL, InsecureSkipTLSVerify: true}
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"x": &certificate},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"x": {Token: identity}},
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
	r.kubeconfig, err = r.Lead("module-controller", 1)
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

// set sets a rule as a scenario would.
func (r *rig) set(x v1alpha1.Fault) {
	r.t.Helper()
	v1alpha1.SetFaultDefaults(v1alpha1.TargetAPI, &x)
	if errs := v1alpha1.ValidateFault(v1alpha1.TargetAPI, &x); len(errs) > 0 {
		r.t.Fatal(errs.ToAggregate())
	}
	if err := r.inject(x, 0, "run"); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) inject(x v1alpha1.Fault, replica int, group string) error {
	_, err := r.Inject(r.t.Context(),
		fault.Injection{Fault: x, Target: v1alpha1.TargetAPI, Replica: replica, Group: group})
	return err
}

func (r *rig) clear(id string) {
	r.faults.Clear(func(i fault.Injection) bool { return i.ID == id })
}

func (r *rig) rule(id string) fault.Status {
	for _, x := range r.faults.List("") {
		if x.ID == id {
			return x
		}
	}
	r.t.Fatalf("there is no rule %s", id)
	return fault.Status{}
}

// until waits until a rule is as it is to be.
func (r *rig) until(id string, is func(fault.Status) bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		x := r.rule(id)
		if is(x) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("rule %s fired %d times, ended %q", id, x.Fired, x.Ended)
		}
	}
}

func (r *rig) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// watching begins a watch.
func (r *rig) watching(of func(context.Context, metav1.ListOptions) (watch.Interface, error)) <-chan watch.Event {
	r.t.Helper()
	w, err := of(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Stop)
	return w.ResultChan()
}

func (r *rig) next(from <-chan watch.Event) string {
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
	case <-time.After(patience):
		r.t.Fatal("no event")
		return ""
	}
}

const nodes, pods = "/api/v1/nodes", "/api/v1/pods"

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
}

// What comes in is known by its token, and continues with the identity of the controller; nobody else
// gets in.
func TestIdentity(t *testing.T) {
	r := newRig(t)
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
	if response.ProtoMajor != 2 || response.StatusCode != http.StatusOK { // its body says nothing
		t.Errorf("it speaks %s and answers %s", response.Proto, response.Status)
	}
	info, err := os.Stat(r.kubeconfig)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig has the mode %v, error %v", info.Mode(), err)
	}
	for name, change := range map[string]func(*rest.Config){
		"no token":      func(c *rest.Config) { c.BearerToken = "" },
		"another token": func(c *rest.Config) { c.BearerToken = identity },
	} {
		stranger := rest.CopyConfig(r.config)
		change(stranger)
		client, err := kubernetes.NewForConfig(stranger)
		check.Must(t, err)
		if _, err := client.CoreV1().Nodes().Get(t.Context(), "b",
			metav1.GetOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := r.api.count("GET " + nodes + "/b"); n != 0 {
		t.Errorf("the API server was asked %d times by strangers", n)
	}
}

// The events of Nodes wait while those of Pods pass, and come in their order when the rule is
// cleared, those of a watch that began in the meantime too.
func TestHoldWatch(t *testing.T) {
	r := newRig(t)
	ofNodes, ofPods := r.watching(r.client.CoreV1().Nodes().Watch), r.watching(r.client.CoreV1().Pods("").Watch)
	r.api.say(nodes, "n0")
	if got := r.next(ofNodes); got != "n0" {
		t.Fatal(got)
	}
	r.set(v1alpha1.Fault{ID: "stale", Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "nodes"}})
	later := r.watching(r.client.CoreV1().Nodes().Watch)
	r.api.say(nodes, "n1", "n2", "n3")
	r.api.say(pods, "p1")
	if got := r.next(ofPods); got != "p1" {
		t.Fatal(got)
	}
	r.until("stale", func(x fault.Status) bool { return x.Fired == 6 })
	select {
	case e := <-ofNodes:
		t.Fatalf("came through: %v", e)
	case e := <-later:
		t.Fatalf("came through the later one: %v", e)
	default:
	}
	r.clear("stale")
	for _, from := range []<-chan watch.Event{ofNodes, later} {
		got := []string{r.next(from), r.next(from), r.next(from)}
		if diff := cmp.Diff([]string{"n1", "n2", "n3"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	r.api.say(nodes, "n4")
	if got := r.next(ofNodes); got != "n4" {
		t.Error(got)
	}
}

// What goes beyond the API's contract: events that never come, come twice, or overtake the one before. It
// ends with its rule, and leaves other resources alone.
func TestSpoiltEvents(t *testing.T) {
	for kind, want := range map[core.Kind][]string{
		v1alpha1.APILoseEvents:    {"n4"},
		v1alpha1.APIDoubleEvents:  {"n1", "n1", "n2", "n2", "n3", "n3", "n4"},
		v1alpha1.APIReorderEvents: {"n2", "n1", "n3", "n4"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			r := newRig(t)
			ofNodes, ofPods := r.watching(r.client.CoreV1().Nodes().Watch), r.watching(r.client.CoreV1().Pods("").Watch)
			r.set(v1alpha1.Fault{ID: "spoil", Kind: kind, Match: v1alpha1.FaultMatch{Resource: "nodes"}})
			r.api.say(nodes, "n1", "n2", "n3")
			r.api.say(pods, "p1")
			if got := r.next(ofPods); got != "p1" {
				t.Fatal(got)
			}
			r.until("spoil", func(x fault.Status) bool { return x.Fired == 3 })
			r.clear("spoil")
			r.api.say(nodes, "n4")
			var got []string
			for len(got) == 0 || got[len(got)-1] != "n4" {
				got = append(got, r.next(ofNodes))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Who gives a watch up that is held leaves nothing behind, neither here nor at the API server.
func TestHeldWatchIsGivenUp(t *testing.T) {
	r := newRig(t)
	w, err := r.client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	check.Must(t, err)
	r.set(v1alpha1.Fault{ID: "stale", Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "nodes"}})
	r.api.say(nodes, "n1")
	r.until("stale", func(x fault.Status) bool { return x.Fired == 1 })
	w.Stop()
	select {
	case <-r.api.left:
	case <-time.After(patience):
		t.Error("the API server still has the watch")
	}
	for deadline := time.Now().Add(patience); r.Watches() > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d watches are left", r.Watches())
		}
	}
}

// A watch that is cut ends as one whose time is over; with relist the next is 410, and the one after
// that goes through.
func TestCutWatch(t *testing.T) {
	r := newRig(t)
	ofNodes, ofPods := r.watching(r.client.CoreV1().Nodes().Watch), r.watching(r.client.CoreV1().Pods("").Watch)
	r.set(v1alpha1.Fault{ID: "cut", Kind: v1alpha1.APICutWatch, Relist: true,
		Match: v1alpha1.FaultMatch{Resource: "nodes"}})
	select {
	case e, open := <-ofNodes:
		if open {
			t.Errorf("an event: %v", e)
		}
	case <-time.After(patience):
		t.Error("the watch goes on")
	}
	if _, err := r.client.CoreV1().Nodes().Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: "7"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the next watch: %v", err)
	}
	if x := r.rule("cut"); x.Fired != 2 || x.Ended == "" {
		t.Errorf("fired %d times, ended %q", x.Fired, x.Ended)
	}
	again := r.watching(r.client.CoreV1().Nodes().Watch)
	r.api.say(nodes, "n1")
	r.api.say(pods, "p1")
	if a, b := r.next(again), r.next(ofPods); a != "n1" || b != "p1" {
		t.Error(a, b)
	}
}

// The n-th write that matches is refused, as often as the rule says; the API server sees the others.
func TestRefuse(t *testing.T) {
	for code, is := range map[int]func(error) bool{409: apierrors.IsConflict, 500: apierrors.IsInternalError} {
		r := newRig(t)
		r.set(v1alpha1.Fault{ID: "no", Kind: v1alpha1.APIRefuse, Status: code, Skip: 1, Count: 2,
			Match: v1alpha1.FaultMatch{Resource: "pods/status", Name: "stock"}})
		var got []bool
		for range 5 {
			_, err := r.client.CoreV1().Pods("ns").UpdateStatus(t.Context(), pod("stock-1"), metav1.UpdateOptions{})
			got = append(got, err == nil)
			if err != nil && !is(err) {
				t.Errorf("%d: %v", code, err)
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
			t.Errorf("%d (-want +got):\n%s", code, diff)
		}
		if n := r.api.count("PUT /api/v1/namespaces/ns/pods/stock-1/status"); n != 3 {
			t.Errorf("%d: the API server has seen %d", code, n)
		}
		if diff := cmp.Diff([]string{"no set", "no fired", "no fired", "no cleared"}, r.told()); diff != "" {
			t.Errorf("%d: events (-want +got):\n%s", code, diff)
		}
		if diff := cmp.Diff(map[int]map[string]int{1: {"update pods": 1, "update pods/status": 6}},
			r.Writes("").By); diff != "" {
			t.Errorf("%d: writes (-want +got):\n%s", code, diff)
		}
	}
}

// A client that is told to wait does, and its write is done at last.
func TestTooManyRequests(t *testing.T) {
	r := newRig(t)
	r.set(v1alpha1.Fault{ID: "busy", Kind: v1alpha1.APIRefuse, Status: 429, Count: 1})
	began := time.Now()
	if _, err := r.client.CoreV1().Pods("ns").UpdateStatus(t.Context(), pod("a"), metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("it has not waited: %s", took)
	}
}

// A write whose answer is lost was done, and its client knows nothing; watches go on.
func TestLoseAnswer(t *testing.T) {
	r := newRig(t)
	ofPods := r.watching(r.client.CoreV1().Pods("").Watch)
	r.set(v1alpha1.Fault{ID: "lost", Kind: v1alpha1.APILoseAnswer, Match: v1alpha1.FaultMatch{Resource: "pods"}})
	_, err := r.client.CoreV1().Pods("ns").Create(t.Context(), pod("a"), metav1.CreateOptions{})
	var answered apierrors.APIStatus
	if err == nil || apierrors.IsConflict(err) || asStatus(err, &answered) {
		t.Errorf("error %v", err)
	}
	if n := r.api.count("POST /api/v1/namespaces/ns/pods"); n != 1 {
		t.Errorf("it was done %d times", n)
	}
	if _, err := r.client.CoreV1().Pods("ns").Create(t.Context(), pod("a"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	r.api.say(pods, "p1")
	if got := r.next(ofPods); got != "p1" {
		t.Error(got)
	}
}

// A controller is killed in place of a write, or once it is done; it never hears of either.
func TestKill(t *testing.T) {
	for kind, done := range map[core.Kind]int{v1alpha1.APIKillBefore: 0, v1alpha1.APIKillAfter: 1} {
		r := newRig(t)
		r.set(v1alpha1.Fault{ID: "kill", Kind: kind, Skip: 1, Match: v1alpha1.FaultMatch{Resource: "pods"}})
		if _, err := r.client.CoreV1().Pods("ns").Create(t.Context(), pod("a"), metav1.CreateOptions{}); err != nil {
			t.Errorf("%s: the first write: %v", kind, err)
		}
		_, err := r.client.CoreV1().Pods("ns").Create(t.Context(), pod("b"), metav1.CreateOptions{})
		var answered apierrors.APIStatus
		if err == nil || asStatus(err, &answered) {
			t.Errorf("%s: error %v", kind, err)
		}
		if n := r.api.count("POST /api/v1/namespaces/ns/pods"); n != 1+done {
			t.Errorf("%s: %d writes were done", kind, n)
		}
		if n := r.killed.Load(); n != 1 {
			t.Errorf("%s: controller %d was killed", kind, n)
		}
	}
}

// Who reads a list again with resourceVersion=0 gets the one that was when the rule was set, and any
// other list is of now.
func TestOldList(t *testing.T) {
	r := newRig(t)
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
	if x := r.rule("old"); x.Fired != 2 {
		t.Errorf("fired %d times", x.Fired)
	}
	r.clear("old")
	if diff := cmp.Diff([]string{"2", "3", "2", "3"}, append(got, list("0"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// In a black hole nothing is answered, connections stay, and what was sent arrives when it ends by
// itself.
func TestBlackHole(t *testing.T) {
	r := newRig(t)
	ofPods := r.watching(r.client.CoreV1().Pods("").Watch)
	r.set(v1alpha1.Fault{ID: "hole", Kind: v1alpha1.APIBlackHole, For: core.Duration(300 * time.Millisecond)})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.client.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{}); err == nil {
		t.Error("it was answered")
	}
	r.api.say(pods, "p1")
	if got := r.next(ofPods); got != "p1" {
		t.Error(got)
	}
	if x := r.rule("hole"); x.Fired == 0 || x.Ended == "" {
		t.Errorf("fired %d times, ended %q", x.Fired, x.Ended)
	}
}

// A rule is for the controller that it names, and an id is there once.
func TestRules(t *testing.T) {
	r := newRig(t)
	second, err := r.Lead("module-controller-2", 2)
	check.Must(t, err)
	if again, err := r.Lead("module-controller-2", 2); err != nil || again != second {
		t.Errorf("another kubeconfig: %s and %s, %v", second, again, err)
	}
	x := v1alpha1.Fault{ID: "one", Kind: v1alpha1.APIRefuse, Status: 500,
		Match: v1alpha1.FaultMatch{Verbs: []string{"get"}}}
	v1alpha1.SetFaultDefaults(v1alpha1.TargetAPI, &x)
	check.Must(t, r.inject(x, 2, "run"))
	if err := r.inject(x, 1, "run"); err == nil {
		t.Error("the id is there twice")
	}
	if err := r.inject(x, 3, "run"); err == nil {
		t.Error("there is no third controller")
	}
	if _, err := r.client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("the first controller: %v", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", second)
	check.Must(t, err)
	other, err := kubernetes.NewForConfig(config)
	check.Must(t, err)
	if _, err := other.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("the second controller: %v", err)
	}
}

func asStatus(err error, into *apierrors.APIStatus) bool {
	s, is := err.(apierrors.APIStatus) //nolint:errorlint // it is not wrapped
	*into = s
	return is
}
