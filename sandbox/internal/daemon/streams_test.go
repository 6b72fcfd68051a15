package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic/agent"
)

// localAgent runs an agent in the test process.
type localAgent struct {
	http.RoundTripper
	end  context.CancelFunc
	done chan struct{}
}

func (a *localAgent) Done() <-chan struct{} { return a.done }
func (a *localAgent) Err() error            { return nil }
func (a *localAgent) Close() error {
	a.end()
	<-a.done
	return nil
}

func launchLocalAgent(ctx context.Context) (agent.Process, error) {
	here, there := net.Pipe()
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	a := &localAgent{end: end, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		_ = agent.Serve(ctx, there, 0) // the connection cannot fail
	}()
	client, err := stdio.Dial(here)
	a.RoundTripper = client
	return a, err
}

// newTestStreams returns the trafficStreams of a cluster in which the Service "stock" has the address of a test
// server.
func newTestStreams(t *testing.T) *trafficStreams {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"version":"1"}`) }))
	t.Cleanup(s.Close)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	check.Must(t, err)
	number, err := strconv.Atoi(port)
	check.Must(t, err)
	service := func(name, ip string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: int32(number)}}}}
	}
	client := fake.NewClientset(service("stock", host), service("headless", corev1.ClusterIPNone))
	targets := &targets{fleet: fleet.New(fleet.Options{
		Runtimes: map[v1alpha1.BaseRuntime]fleet.Runtime{v1alpha1.RuntimeCluster: inPods{"10.244.1.2"}},
		Dial:     func(context.Context) (net.Conn, error) { return nil, errors.New("there is no broker") },
	})}
	gateway := traffic.NewGateway(traffic.GatewayOptions{Client: client, Targets: targets})
	here := agent.New(agent.Options{Launch: launchLocalAgent})
	f := &trafficStreams{
		local:   traffic.NewGenerator(traffic.GeneratorOptions{Gateway: gateway, Targets: targets}),
		cluster: &clusterSender{Remote: here, services: client.CoreV1(), fleet: targets.fleet},
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 4)
	for _, start := range []func(context.Context) error{gateway.Start, f.local.Start, here.Start, targets.fleet.Start} {
		go func() { ended <- start(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range 4 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := targets.fleet.Add(t.Context(),
		fleet.Set{Group: "routed", Spec: v1alpha1.BaseSet{Runtime: v1alpha1.RuntimeCluster}}, 1); err != nil {
		t.Fatal(err)
	}
	return f
}

func streamTo(name, service string) traffic.Spec {
	return traffic.Spec{Namespace: "shop", Total: 1,
		Traffic: v1alpha1.Traffic{Name: name, Service: service, Module: "stock"}}
}

// awaitEnd waits until the newest stream of a group has sent all its requests and ended.
func awaitEnd(t *testing.T, f *trafficStreams, group, name string) {
	t.Helper()
	check.Eventually(t, waitTimeout, func() error {
		all := f.Summaries(t.Context(), group)
		last := all[len(all)-1]
		if last.Name == name && !last.Ended.IsZero() && last.Open == 0 {
			return nil
		}
		return fmt.Errorf("newest stream of %s: %+v", group, last)
	})
}

// TestStreamRoutes checks that requests to a Service pass through kube-proxy if the cluster routes the addresses of
// the bases, and through the gateway otherwise.
func TestStreamRoutes(t *testing.T) {
	f := newTestStreams(t)
	bases := streamTo("bases", "")
	bases.Via, bases.Namespace = v1alpha1.ViaBases, ""
	var got []string
	for _, c := range []struct {
		group string
		spec  traffic.Spec
	}{{"routed", streamTo("service", "stock")}, {"routed", bases}, {"processes", streamTo("service", "stock")}} {
		check.Must(t, f.Begin(t.Context(), c.group, c.spec))
		awaitEnd(t, f, c.group, c.spec.Name)
		end, err := f.Stop(t.Context(), c.group, c.spec.Name)
		check.Must(t, err)
		records := 0
		if err := f.Records(t.Context(), c.group, c.spec.Name, func(traffic.Record) { records++ }); err != nil {
			t.Error(err)
		}
		got = append(got, fmt.Sprintf("%s of %s through %s: %d sent, %d lost, %d records", end.Name, c.group, end.Route,
			end.Sent, end.Lost, records))
	}
	want := []string{ // the Service has no endpoints
		"service of routed through kube-proxy: 1 sent, 0 lost, 1 records",
		"bases of routed through bases: 1 sent, 1 lost, 1 records",
		"service of processes through gateway: 1 sent, 1 lost, 1 records",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("streams (-want +got):\n%s", diff)
	}
	for _, name := range []string{"service", "bases"} {
		if err := f.Begin(t.Context(), "routed", streamTo(name, "stock")); !errors.Is(err, traffic.ErrStreamExists) {
			t.Errorf("starting a second stream %s returned %v", name, err)
		}
	}
	f.Drop(t.Context(), "routed")
	if all := f.Summaries(t.Context(), "routed"); len(all) > 0 {
		t.Errorf("streams after Drop: %+v", all)
	}
	if _, err := f.Stop(t.Context(), "routed", "service"); !errors.Is(err, traffic.ErrNoStream) {
		t.Errorf("stopping a dropped stream returned %v", err)
	}
}

// inPods is a fake runtime whose bases can be reached only from within the cluster.
type inPods struct{ ip string } // a routed address; empty if there is none

func (inPods) Adapt(*fakebase.Options, int) error { return nil }
func (inPods) Concurrency() int                   { return 1 }
func (r inPods) Open(context.Context, string) (fleet.Slot, error) {
	return &inPod{ip: r.ip}, nil
}

type inPod struct{ ip, web string }

func (p *inPod) IP() string               { return p.ip }
func (p *inPod) ClusterAddr() string      { return p.web }
func (*inPod) ArkletAddr(string) string   { return "" }
func (*inPod) Sync(context.Context) error { return nil }
func (*inPod) Close() error               { return nil }
func (p *inPod) New(ctx context.Context, o fakebase.Options) (fleet.Base, error) {
	b, err := fakebase.New(o)
	if err == nil {
		p.web, err = b.WebAddr(ctx)
	}
	return unreachable{b}, err
}

type unreachable struct{ *fakebase.Base }

func (unreachable) WebAddr(context.Context) (string, error) {
	return "", errors.New("reachable only in the cluster")
}

// TestStreamsToBasesInPods checks that requests to bases in Pods are sent from within the cluster, through a Service
// or directly to each base, and that a removed base receives no further requests.
func TestStreamsToBasesInPods(t *testing.T) {
	f := newTestStreams(t)
	var leaving func()
	pods := fleet.New(fleet.Options{
		Runtimes:  map[v1alpha1.BaseRuntime]fleet.Runtime{v1alpha1.RuntimeCluster: inPods{}},
		Dial:      func(context.Context) (net.Conn, error) { return nil, errors.New("there is no broker") },
		BeforeEnd: func() { leaving() },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- pods.Start(ctx) }()
	members, err := pods.Add(t.Context(),
		fleet.Set{Group: "g", Name: "base", Spec: v1alpha1.BaseSet{Runtime: v1alpha1.RuntimeCluster}}, 2)
	check.Must(t, err)
	check.Eventually(t, waitTimeout, func() error {
		for _, m := range members {
			if !m.Base.Status().Running {
				return fmt.Errorf("%s is not running", m.HostName)
			}
		}
		return nil
	})
	ready := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pods-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "pods"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{members[1].IP()}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "pod-2"}}},
	}
	client := fake.NewClientset(&ready, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pods"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.9", Ports: []corev1.ServicePort{{Port: 8080}}}})
	gateway := traffic.NewGateway(traffic.GatewayOptions{Client: client, Targets: &targets{fleet: pods}})
	go func() { ended <- gateway.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	in := &clusterSender{Remote: f.cluster.Remote, services: client.CoreV1(), fleet: pods, gateway: gateway}
	f.cluster = in

	got := func(name string, change func(*traffic.Spec)) (all []string) {
		t.Helper()
		spec := streamTo(name, "pods")
		spec.Total = 4
		change(&spec)
		check.Must(t, f.Begin(t.Context(), "g", spec))
		awaitEnd(t, f, "g", name)
		end, err := f.Stop(t.Context(), "g", name)
		check.Must(t, err)
		for _, r := range end.LostRequests { // no base has the module
			all = append(all, fmt.Sprintf("%s: %s of %s (%s, %q)", end.Route, r.Result, r.Base, r.Endpoint, r.Pod))
		}
		slices.Sort(all)
		return all
	}
	of := func(route string, m *fleet.Member, pod string) string {
		return fmt.Sprintf("%s: notFound of %s (%s, %q)", route, m.Name(), m.IP(), pod)
	}
	second := of("agent", members[1], "pod-2")
	if d := cmp.Diff([]string{second, second, second, second}, got("service", func(*traffic.Spec) {})); d != "" {
		t.Errorf("to the Service (-want +got):\n%s", d)
	}
	wrong := ready.DeepCopy()
	wrong.Ports[0].Port = ptr.To[int32](9999)
	if _, err := client.DiscoveryV1().EndpointSlices("shop").Update(t.Context(), wrong,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	check.Eventually(t, waitTimeout, func() error {
		choice, _ := in.endpointChoice(traffic.Route{Namespace: "shop", Service: "pods"})
		if len(choice.Targets) != 1 || choice.Targets[0].Closed != "9999" || choice.Targets[0].Web != "" {
			return fmt.Errorf("targets for a port on which no base listens: %+v", choice.Targets)
		}
		return nil
	})
	bases := func(s *traffic.Spec) { s.Via, s.Service, s.Namespace = v1alpha1.ViaBases, "", "" }
	one, two := of("bases", members[0], ""), of("bases", members[1], "")
	if d := cmp.Diff([]string{one, one, two, two}, got("bases", bases)); d != "" {
		t.Errorf("to bases (-want +got):\n%s", d)
	}
	endless := streamTo("endless", "")
	bases(&endless)
	endless.Total = 0
	check.Must(t, f.Begin(t.Context(), "g", endless))
	waited := false
	leaving = func() {
		waited = true
		in.waitUntilUnused(t.Context())
		asked, sent := members[0].Base.Status().Requests, f.Summaries(t.Context(), "g")[2].Sent
		check.Eventually(t, waitTimeout, func() error {
			if now := f.Summaries(t.Context(), "g")[2].Sent; now < sent+20 {
				return fmt.Errorf("%d requests sent", now)
			}
			return nil
		})
		if n := members[0].Base.Status().Requests - asked; n > 2 { // requests in flight
			t.Errorf("%d of the next 20 requests went to the removed base", n)
		}
	}
	if _, err := pods.Remove(t.Context(), fleet.Selection{Names: []string{members[0].HostName}}); err != nil ||
		!waited {
		t.Errorf("Remove returned %v; BeforeEnd called: %t", err, waited)
	}
}

func TestBeginRejectsInvalidStreams(t *testing.T) {
	f := newTestStreams(t)
	for service, want := range map[string]string{
		"none":     "shop/none",
		"headless": "shop/headless",
		"":         "namespace",
	} {
		if err := f.Begin(t.Context(), "routed", streamTo("s", service)); err == nil ||
			!strings.Contains(err.Error(), `"s"`) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %s", err, want)
		}
	}
}
