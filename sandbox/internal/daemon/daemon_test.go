package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const waitTimeout = check.WaitTimeout

const roleVariable = "DAEMON_TEST_CONTROLLER"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "good":
		http.HandleFunc("/tunnelz", func(http.ResponseWriter, *http.Request) {})
		http.HandleFunc("/"+os.Getenv("HTTP_TUNNEL_TOKEN")+"/heartbeat", func(http.ResponseWriter, *http.Request) {})
		l, err := net.Listen("tcp",
			net.JoinHostPort(os.Getenv("HTTP_TUNNEL_LISTEN_HOST"), os.Getenv("HTTP_TUNNEL_LISTEN_PORT")))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go func() { fmt.Fprintln(os.Stderr, http.Serve(l, nil)) }()
	case "never ready":
		http.HandleFunc("/tunnelz", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no tunnel", http.StatusServiceUnavailable)
		})
	case "broken":
		fmt.Fprintln(os.Stderr, "no broker at "+os.Getenv("MQTT_BROKER"))
		os.Exit(3)
	}
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Getenv("HEALTH_ADDR"), nil))
	os.Exit(1)
}

// fakeCluster is a cluster without an API server. It contains only the Nodes that the test creates.
type fakeCluster struct {
	client  *fake.Clientset
	rest    func(context.Context) error
	adopted bool

	mu    sync.Mutex
	calls []string
}

func (c *fakeCluster) call(name string) func(context.Context) error {
	return func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls = append(c.calls, name)
		return nil
	}
}

func (c *fakeCluster) Steps() cluster.Steps {
	return cluster.Steps{
		Prepare:  []cluster.Step{{Name: "Preparing", Run: c.call("prepare"), Undo: c.call("down")}},
		Start:    []cluster.Step{{Name: "Starting API", Run: c.call("api")}},
		Complete: []cluster.Step{{Name: "Starting the rest", Run: c.rest}},
	}
}
func (c *fakeCluster) ComponentSet() supervise.ComponentSet { return nil }
func (c *fakeCluster) Cluster() *cluster.Cluster {
	return &cluster.Cluster{Version: "v1.2.3", Kubeconfig: "/admin"}
}
func (c *fakeCluster) AuthorizeController(ctx context.Context) error { return c.call("authorize")(ctx) }
func (c *fakeCluster) RemoveLeftovers(ctx context.Context) error {
	return c.call("remove leftovers")(ctx)
}
func (c *fakeCluster) CleanUp(ctx context.Context, bases map[string]bool) error {
	return c.call(fmt.Sprintf("clean up %d bases", len(bases)))(ctx)
}
func (c *fakeCluster) Maintain(ctx context.Context) error {
	<-ctx.Done()
	return c.call("maintain")(ctx)
}
func (c *fakeCluster) IssueServingCert(...string) ([]byte, []byte, string, error) {
	return nil, nil, "", errors.New("no certificates in this test")
}
func (c *fakeCluster) Properties() cluster.Properties {
	return cluster.Properties{Host: loopback, Ephemeral: true, Adopted: c.adopted}
}

type fixture struct {
	*control.Client
	t       *testing.T
	daemon  *Daemon
	dir     state.Dir
	cluster *fakeCluster
	ended   chan error
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	home, err := os.MkdirTemp("", "daemon") // the path of a socket must be short
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	dir := state.Home(home).Dir("test")
	check.Must(t, dir.Create())
	self, err := os.Executable()
	check.Must(t, err)
	b := &fixture{t: t, dir: dir, ended: make(chan error, 1),
		cluster: &fakeCluster{client: fake.NewClientset(), rest: func(context.Context) error { return nil }}}
	d := New(Options{
		Dir: dir, Binaries: Binaries{Controller: self},
		open:   func(clusterOptions) (Cluster, error) { return b.cluster, nil },
		client: func(*cluster.Cluster) (kubernetes.Interface, error) { return b.cluster.client, nil },
	})
	b.daemon = d
	ctx, cancel := context.WithCancel(context.Background())
	go func() { b.ended <- d.Start(ctx) }()
	b.eventually(func() error {
		b.Client = control.NewClient(dir.SocketPath())
		_, err := b.Status(t.Context(), false)
		return err
	})
	t.Cleanup(func() {
		cancel()
		b.Close()
		select {
		case <-d.stopped:
		case <-time.After(waitTimeout):
			t.Error("the daemon has not ended")
		}
		b.checkNoProcess()
	})
	return b
}

func (b *fixture) checkNoProcess() {
	b.t.Helper()
	records, err := supervise.Records(b.dir.Run())
	if err != nil {
		b.t.Error(err)
	}
	for _, r := range records {
		if r.Running && r.PID != os.Getpid() {
			b.t.Errorf("%s is still running as process %d", r.Name, r.PID)
		}
	}
}

func request(role string, bases int) control.UpRequest {
	c := &v1alpha1.Sandbox{Metadata: v1alpha1.Metadata{Name: "test"}}
	c.Spec.Provider = v1alpha1.ProviderEmbedded
	c.Spec.Bases = []v1alpha1.BaseSet{{Count: &bases}}
	c.Spec.Controller.Env = map[string]string{roleVariable: role}
	c.Spec.Wait = &metav1.Duration{Duration: waitTimeout}
	return control.UpRequest{Config: c}
}

// makeNodes creates a Ready Node for each base, as the controller would.
func (b *fixture) makeNodes(ctx context.Context) {
	bases, err := b.Bases(ctx, "")
	if err != nil {
		b.t.Error(err)
	}
	for _, base := range bases {
		_, err := b.cluster.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "vnode." + base.Identity,
				Labels:      map[string]string{labels.Component: labels.Vnode},
				Annotations: map[string]string{labels.Holder: "module-controller"}},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			b.t.Error(err)
		}
	}
}

// up sends an up request and creates the Nodes when the daemon waits for them. It returns the successful steps in
// order.
func (b *fixture) up(r control.UpRequest) (*control.UpResult, []string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), waitTimeout)
	defer cancel()
	var steps []string
	result, err := b.Up(ctx, r, func(e progress.Event) {
		switch {
		case e.Kind == progress.Started && strings.HasPrefix(e.Step, "Waiting for"):
			b.makeNodes(ctx)
		case e.Kind == progress.Done:
			steps = append(steps, e.Step)
		}
	})
	if err != nil {
		b.t.Fatalf("up: %v", err)
	}
	return result, steps
}

func components(s *control.Status) map[string]string {
	states := map[string]string{}
	for _, c := range s.Components {
		states[c.Name] = fmt.Sprintf("%s %t", c.State, c.Ready)
	}
	return states
}

func TestUpAndDown(t *testing.T) {
	b := newFixture(t)
	result, steps := b.up(request("good", 3))
	slices.Sort(steps) // concurrent steps have no order
	want := []string{"Connecting 3 bases", "Granting permissions to the controller", "Preparing", "Starting API",
		"Starting broker",
		"Starting module-controller", "Starting the rest", "Waiting for 3 Nodes to be Ready"}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	status, err := b.Status(t.Context(), true)
	check.Must(t, err)
	if diff := cmp.Diff(map[string]string{"daemon": "running true", "broker": "running true", "bases": "running true",
		"module-controller": "running true"}, components(status)); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	if !status.Healthy || result.Already || status.Version != "v1.2.3" || len(status.Bases) != 3 ||
		!status.Bases[2].NodeReady {
		t.Errorf("status: %+v", status)
	}
	for _, file := range []string{b.dir.Config(), b.dir.Broker(), b.dir.SocketPath()} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if err := b.Down(t.Context()); err != nil {
		t.Errorf("down: %v", err)
	}
	if err := <-b.ended; err != nil {
		t.Errorf("Start returned %v", err)
	}
	b.checkNoProcess()
	// maintain ends concurrently with the other calls
	calls := slices.DeleteFunc(slices.Clone(b.cluster.calls), func(call string) bool { return call == "maintain" })
	want = []string{"prepare", "api", "authorize", "remove leftovers", "clean up 3 bases", "down"}
	if diff := cmp.Diff(want, calls); diff != "" || len(b.cluster.calls) != len(calls)+1 {
		t.Errorf("calls %q, without maintain (-want +got):\n%s", b.cluster.calls, diff)
	}
}

func TestUpRestartsComponentsAndScalesBases(t *testing.T) {
	b := newFixture(t)
	b.up(request("good", 2))
	check.Must(t, b.Act(t.Context(), control.ActRequest{Component: "module-controller", Action: supervise.Kill}))
	status, err := b.Status(t.Context(), false)
	check.Must(t, err)
	if status.Healthy || len(status.Problems) != 1 ||
		!strings.HasPrefix(status.Problems[0], "module-controller is exited") {
		t.Errorf("after the kill: %+v", status)
	}
	result, _ := b.up(request("good", 4))
	if c := result.Changes; len(c) != 2 || !strings.Contains(c[0], "module-controller") ||
		!strings.Contains(c[1], "from 2 to 4") {
		t.Errorf("changes %q", c)
	}
	if !result.Already || !result.Status.Healthy {
		t.Errorf("after the second up: %+v", result.Status)
	}
	r := request("good", 3)
	r.KeepBases = true
	if result, _ := b.up(r); len(result.Changes) != 0 || result.Status.BaseCount != 4 {
		t.Errorf("changes: %v, %d bases", result.Changes, result.Status.BaseCount)
	}
	if result, _ := b.up(request("good", 1)); result.Status.BaseCount != 1 {
		t.Errorf("%d bases", result.Status.BaseCount)
	}
	b.checkNodes()
}

// checkNodes fails the test unless there is a Node for each existing base and no other Node.
func (b *fixture) checkNodes() {
	b.t.Helper()
	bases, err := b.Bases(b.t.Context(), "")
	check.Must(b.t, err)
	var want, got []string
	for _, base := range bases {
		want = append(want, "vnode."+base.Identity)
	}
	list, err := b.cluster.client.CoreV1().Nodes().List(b.t.Context(), metav1.ListOptions{})
	check.Must(b.t, err)
	for _, n := range list.Items {
		got = append(got, n.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("Nodes (-want +got):\n%s", diff)
	}
}

// TestRemovingBasesDeletesNodes checks that the Nodes of removed bases are deleted. If a single base is removed by
// name, its Node must remain, because the controller must detect the removal. status must then report this Node, and
// the next up must delete it.
func TestRemovingBasesDeletesNodes(t *testing.T) {
	b := newFixture(t)
	b.up(request("good", 6))
	if _, err := b.AddBases(t.Context(), control.AddRequest{Group: "run", Count: 2}); err != nil {
		t.Fatal(err)
	}
	b.makeNodes(t.Context())
	for _, r := range []control.RemoveRequest{{Bases: []string{"base-1", "base-2"}}, {Count: 1}, {Group: "run"}} {
		if _, err := b.RemoveBases(t.Context(), r); err != nil {
			t.Errorf("removing %+v: %v", r, err)
		}
		b.checkNodes()
	}
	if _, err := b.RemoveBases(t.Context(), control.RemoveRequest{Bases: []string{"base-3"}}); err != nil {
		t.Fatal(err)
	}
	want := []string{"1 Ready Node without a base; the controller has not detected the removal yet"}
	b.eventually(func() error {
		status, err := b.Status(t.Context(), true)
		return errors.Join(err, same(want, status.Problems))
	})
	result, _ := b.up(request("good", 2))
	if err := same([]string{"deleted 1 Node without a base"}, result.Changes); err != nil {
		t.Error(err)
	}
	b.checkNodes()
}

// TestRemovingBasesRetriesNodeDeletion checks that the Nodes of removed bases are deleted even if the client
// disconnects or the API server is briefly unavailable.
func TestRemovingBasesRetriesNodeDeletion(t *testing.T) {
	b := newFixture(t)
	b.up(request("good", 3))
	var failures atomic.Int32
	failures.Store(2)
	ctx, cancel := context.WithCancel(t.Context())
	b.cluster.client.PrependReactor("delete", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		if failures.Add(-1) >= 0 {
			return true, nil, errors.New("the API server restarts")
		}
		return false, nil, nil
	})
	if _, err := b.daemon.RemoveBases(ctx, control.RemoveRequest{Count: 1}); err != nil {
		t.Error(err)
	}
	b.checkNodes()
}

func TestUpResumesComponentsAndRestartsBases(t *testing.T) {
	b := newFixture(t)
	b.up(request("good", 3))
	states := func() (all []string) {
		t.Helper()
		bases, err := b.Bases(t.Context(), "")
		check.Must(t, err)
		for _, one := range bases {
			all = append(all, one.HostName+" "+one.State())
		}
		return all
	}
	for _, base := range []string{"base-1", "base-3"} {
		if _, err := b.SetFault(t.Context(),
			fault.Injection{Fault: v1alpha1.Fault{Kind: "crash"}, Bases: []string{base}}); err != nil {
			t.Fatal(err)
		}
	}
	b.eventually(func() error { return same([]string{"base-1 crashed", "base-2 running", "base-3 crashed"}, states()) })
	check.Must(t, b.Act(t.Context(), control.ActRequest{Component: "broker", Action: supervise.Pause}))
	result, _ := b.up(request("good", 3))
	if err := same([]string{"resumed broker", "started base-1 again", "started base-3 again"},
		result.Changes); err != nil {
		t.Errorf("changes: %v", err)
	}
	b.eventually(func() error { return same([]string{"base-1 running", "base-2 running", "base-3 running"}, states()) })
	if result, _ := b.up(request("good", 3)); len(result.Changes) != 0 {
		t.Errorf("changes of an up without differences: %v", result.Changes)
	}
}

// TestUpFails checks that the error of a failed up contains the reason and the last log lines of the failed
// component. If a component has not started within the wait, the test repeats the up with twice the wait.
func TestUpFails(t *testing.T) {
	for _, tc := range []struct {
		name, role string
		wait       time.Duration
		rest       func(context.Context) error
		want       []string
	}{
		{name: "controller exits", role: "broken", wait: waitTimeout,
			want: []string{"module-controller", "exit status 3", "no broker at 127.0.0.1"}},
		{name: "controller is never ready", role: "never ready", wait: time.Second,
			want: []string{"module-controller", "no tunnel"}},
		{name: "no Nodes", role: "good", wait: time.Second, want: []string{"Ready Node: 2 of 2", "WAIT"}},
		{name: "last step fails", role: "good", wait: waitTimeout,
			rest: func(context.Context) error { return errors.New("no scheduler") },
			want: []string{"no scheduler"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for wait := tc.wait; ; wait *= 2 {
				got := failedUp(t, tc.role, wait, tc.rest)
				missing := func(want string) bool {
					return !strings.Contains(got, strings.ReplaceAll(want, "WAIT", wait.String()))
				}
				if !slices.ContainsFunc(tc.want, missing) {
					return
				}
				if wait >= waitTimeout {
					t.Fatalf("error %q does not contain %q", got, tc.want)
				}
			}
		})
	}
}

// failedUp runs an up that must fail, and returns its error. It checks that no process is left.
func failedUp(t *testing.T, role string, wait time.Duration, rest func(context.Context) error) string {
	t.Helper()
	b := newFixture(t)
	if rest != nil {
		b.cluster.rest = rest
	}
	r := request(role, 2)
	r.Config.Spec.Wait.Duration = wait
	_, err := b.Up(t.Context(), r, func(progress.Event) {})
	if err == nil {
		t.Fatal("up succeeded")
	}
	b.checkNoProcess() // before the response
	if err := <-b.ended; err != nil {
		t.Errorf("Start returned %v", err)
	}
	return err.Error()
}

func TestDisconnectedUpStopsSandbox(t *testing.T) {
	b := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := b.Up(ctx, request("never ready", 1), func(e progress.Event) {
		if e.Kind == progress.Started && e.Step == "Starting module-controller" {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("up returned %v", err)
	}
	select {
	case err := <-b.ended:
		if err != nil {
			t.Errorf("Start returned %v", err)
		}
	case <-time.After(waitTimeout):
		t.Fatal("the daemon is still running")
	}
	b.checkNoProcess()
}

func TestDownInterruptsUp(t *testing.T) {
	b := newFixture(t)
	down := make(chan error, 1)
	_, err := b.Up(t.Context(), request("never ready", 1), func(e progress.Event) {
		if e.Kind == progress.Started && e.Step == "Starting module-controller" {
			go func() { down <- b.Down(context.WithoutCancel(t.Context())) }()
		}
	})
	if err == nil || !strings.Contains(err.Error(), errDown.Error()) {
		t.Errorf("up returned %v; want %v", err, errDown)
	}
	if err := <-down; err != nil {
		t.Errorf("down returned %v", err)
	}
}

// TestBrokerRestart checks that bases reconnect after the broker was stopped and started.
func TestBrokerRestart(t *testing.T) {
	b := newFixture(t)
	b.up(request("good", 2))
	before, err := b.Status(t.Context(), false)
	check.Must(t, err)
	check.Must(t, b.Act(t.Context(), control.ActRequest{Component: "broker", Action: supervise.Stop}))
	status, err := b.Status(t.Context(), false)
	check.Must(t, err)
	if status.Healthy || components(status)["broker"] != "exited false" {
		t.Errorf("components without a broker: %v", components(status))
	}
	check.Must(t, b.Act(t.Context(), control.ActRequest{Component: "broker", Action: supervise.Start}))
	added, err := b.AddBases(t.Context(), control.AddRequest{Count: 1}) // waits until it is connected
	if err != nil || len(added) != 1 || !added[0].Connected {
		t.Fatalf("AddBases returned %v, %v", added, err)
	}
	b.eventually(func() error {
		status, err := b.Status(t.Context(), false)
		if err == nil && (status.BasesConnected != 3 || status.Broker.Addr != before.Broker.Addr) {
			err = fmt.Errorf("%d bases are connected to %s; the previous address is %s", status.BasesConnected,
				status.Broker.Addr, before.Broker.Addr)
		}
		return err
	})
}

// TestExternalBroker checks that a sandbox can cut and restore its connection to an external broker without affecting
// the broker.
func TestExternalBroker(t *testing.T) {
	external, err := broker.New(broker.Options{Env: "given"})
	check.Must(t, err)
	check.Run(t, external.Start)

	b := newFixture(t)
	r := request("good", 2)
	r.Config.Spec.Env = "given"
	r.Config.Spec.Broker.URL, r.Config.Spec.Broker.Username = "mqtt://"+external.Addr(), broker.ControllerUser
	r.Config.Spec.Broker.Consent = true // skips the check for other clients
	r.BrokerPassword = external.Passwords().Controller
	b.up(r)
	status, err := b.Status(t.Context(), false)
	check.Must(t, err)
	if status.Broker.URL != r.Config.Spec.Broker.URL || status.Broker.Addr == external.Addr() ||
		status.Broker.Stats != nil {
		t.Errorf("broker: %+v", status.Broker)
	}
	if !status.Healthy || external.Stats().Clients != 2 {
		t.Errorf("%d clients of the broker; problems: %v", external.Stats().Clients, status.Problems)
	}
	for _, file := range []string{b.dir.Config(), b.dir.Broker()} {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), r.BrokerPassword) {
			t.Errorf("%s contains the password, or reading it failed: %v", file, err)
		}
	}
	check.Must(t, b.Act(t.Context(), control.ActRequest{Component: broker.Component, Action: supervise.Kill}))
	b.eventually(func() error {
		status, err := b.Status(t.Context(), false)
		if err == nil && (external.Stats().Clients != 0 || !slices.Contains(status.Problems,
			"broker is exited: the connection to "+status.Broker.URL+" is cut; the broker itself is not affected")) {
			err = fmt.Errorf("%d clients; problems %q", external.Stats().Clients, status.Problems)
		}
		return err
	})
	check.Must(t, b.Act(t.Context(), control.ActRequest{Component: broker.Component, Action: supervise.Start}))
	b.eventually(func() error {
		if n := external.Stats().Clients; n != 2 {
			return fmt.Errorf("%d clients of the broker", n)
		}
		return nil
	})
}

func (b *fixture) eventually(ask func() error) {
	b.t.Helper()
	check.Eventually(b.t, waitTimeout, ask)
}

func TestBasesAndFaults(t *testing.T) {
	b := newFixture(t)
	if _, err := b.AddBases(t.Context(), control.AddRequest{Count: 1}); err == nil ||
		!strings.Contains(err.Error(), "not up yet") {
		t.Errorf("AddBases before the first up returned %v", err)
	}
	b.up(request("good", 2))
	id, err := b.SetFault(t.Context(),
		fault.Injection{Fault: v1alpha1.Fault{Kind: "silent"}, Bases: []string{"base-1"}})
	check.Must(t, err)
	if _, err := b.SetFault(t.Context(),
		fault.Injection{Target: v1alpha1.TargetMQTT, Bases: []string{"base-1"},
			Fault: v1alpha1.Fault{ID: "held", Kind: v1alpha1.MQTTHold}}); err != nil {
		t.Error(err)
	}
	all, err := b.Faults(t.Context(), "")
	if err != nil || len(all.Faults) != 2 || all.Faults[0].ID != id || all.Faults[1].ID != "held" {
		t.Errorf("faults: %v, %v", all, err)
	}
	if err := b.ClearFaults(t.Context(),
		control.FaultSelector{Bases: []string{"base-1"}, IDs: []string{id, "held"}}); err != nil {
		t.Error(err)
	}
	for want, i := range map[string]fault.Injection{
		"invalid fault: kind":        {Fault: v1alpha1.Fault{Kind: "odd"}, Bases: []string{"base-1"}},
		"requires at least one base": {Fault: v1alpha1.Fault{Kind: "silent"}},
		"no module controller uses the API proxy": {Fault: v1alpha1.Fault{Kind: v1alpha1.APIBlackHole},
			Target: v1alpha1.TargetAPI},
	} {
		if _, err := b.SetFault(t.Context(), i); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("SetFault(%v) returned %v, want %s", i, err, want)
		}
	}
	removed, err := b.RemoveBases(t.Context(), control.RemoveRequest{Bases: []string{"base-2"}})
	if err != nil || len(removed) != 1 || removed[0].HostName != "base-2" {
		t.Errorf("RemoveBases returned %v, %v", removed, err)
	}
	for name, refused := range map[string]struct {
		code int
		do   func() error
	}{
		"unknown base": {http.StatusNotFound, func() error {
			_, err := b.RemoveBases(t.Context(), control.RemoveRequest{Bases: []string{"base-9"}})
			return err
		}},
		"too many bases": {http.StatusBadRequest, func() error {
			_, err := b.AddBases(t.Context(), control.AddRequest{Count: v1alpha1.MaxBases})
			return err
		}},
		"unknown fault kind": {http.StatusBadRequest, func() error {
			_, err := b.SetFault(t.Context(),
				fault.Injection{Fault: v1alpha1.Fault{Kind: "rain"}, Bases: []string{"base-1"}})
			return err
		}},
		"unknown fault ID": {http.StatusNotFound,
			func() error { return b.ClearFaults(t.Context(), control.FaultSelector{IDs: []string{"nope"}}) }},
		"unknown component": {http.StatusNotFound, func() error {
			return b.Act(t.Context(), control.ActRequest{Component: "nope", Action: supervise.Restart})
		}},
		"component without a process": {http.StatusConflict, func() error {
			return b.Act(t.Context(), control.ActRequest{Component: "bases", Action: supervise.Kill})
		}},
		"unknown action": {http.StatusNotFound,
			func() error { return b.Act(t.Context(), control.ActRequest{Component: "broker", Action: "explode"}) }},
	} {
		t.Run(name, func(t *testing.T) {
			var e *control.Error
			if err := refused.do(); !errors.As(err, &e) || e.Code != refused.code {
				t.Errorf("got %v, want status %d", err, refused.code)
			}
		})
	}
}

// TestAcquireFailsDuringShutdown checks that acquire fails after the shutdown has begun, even if the lock is free, so
// that, for example, an up request after a failed up is not executed.
func TestAcquireFailsDuringShutdown(t *testing.T) {
	d := New(Options{Dir: state.Home(t.TempDir()).Dir("test")})
	d.requestStop(errUpFailed)
	for range 100 { // select chooses randomly between ready cases
		if _, _, err := d.acquire(t.Context(), exclusiveWeight); !errors.Is(err, errUpFailed) {
			t.Fatalf("acquire returned %v", err)
		}
	}
}

// same returns nil if want and got are equal, and otherwise an error that shows the differences.
func same(want, got []string) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("(-want +got):\n%s", diff)
	}
	return nil
}
