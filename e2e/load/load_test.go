package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/controller"
	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/mochi"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/sandbox/bench"
)

const (
	env     = "load"
	modules = 10 // of each base
	// share is how many requests to the API server fail.
	share = 0.05
	// requests is how many the controller may have under way at once: 64 of lanes, 8 of chores, 16 of
	// Nodes, and some that are alone.
	requests = 100
	ns       = "default"
	// journal is what the controller keeps of the last commands of a base, for its logs.
	journal = 40 << 10
)

// bases is how many there are; $E2E_LOAD_BASES makes it 1000, say, with 10,000 Pods.
func bases(t *testing.T) int {
	t.Helper()
	n := 20
	if more := os.Getenv("E2E_LOAD_BASES"); more != "" {
		var err error
		n, err = strconv.Atoi(more)
		must(t, err)
	}
	return n
}

// Every Pod ends as it should, whatever the API server does; what waits has bounds, the controller keeps
// its Lease, and afterwards it is as small as before.
func TestLoad(t *testing.T) {
	n := bases(t)
	patience := time.Minute + time.Duration(n)*time.Second
	b := bringUp(t)
	rest, err := b.REST()
	must(t, err)
	client, err := kubernetes.NewForConfig(rest)
	must(t, err)
	seen := follow(t, client)
	at := startBroker(t)
	for i := range n {
		startBase(t, at, i)
	}
	w := startController(t, b, at)
	eventually := func(what string, look func(context.Context) error) {
		t.Helper()
		began := time.Now()
		check.Eventually(t.Context(), t, patience, what, look)
		t.Logf("%s after %.1fs", what, time.Since(began).Seconds())
	}
	eventually("the Nodes are Ready", func(ctx context.Context) error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0", LabelSelector: module.LabelEnv + "=" + env})
		return errors.Join(err, same(n, ready(nodes)))
	})
	eventually("nothing is under way", w.quiet)
	before := measure()

	w.way.set(share)
	must(t, each(t.Context(), n*modules, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("m%d", i%modules)
		pod := module.Pod(ns, fmt.Sprintf("p%d", i), module.Template(name, module.Container(name, "1.0.0")))
		pod.Spec.NodeName, pod.Spec.NodeSelector = fmt.Sprintf("vnode.b%d", i/modules), nil
		_, err := client.CoreV1().Pods(ns).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}))
	eventually("every Pod is Ready", func(context.Context) error { return same(n*modules, seen.ready()) })
	full := measure()
	must(t, each(t.Context(), n*modules, func(ctx context.Context, i int) error {
		return client.CoreV1().Pods(ns).Delete(ctx, fmt.Sprintf("p%d", i), metav1.DeleteOptions{GracePeriodSeconds: new(int64(600))})
	}))
	eventually("every Pod is gone", func(context.Context) error { return same(0, seen.all()) })
	w.way.set(0)
	eventually("nothing is under way", w.quiet)

	w.way.report(t, client)
	var after measured
	defer func() {
		t.Logf("goroutines and heap: %s before, %s with all modules, %s afterwards", before, full, after)
		if t.Failed() {
			_ = pprof.Lookup("goroutine").WriteTo(os.Stdout, 1) // for who looks into it
		}
	}()
	eventually("goroutines and memory are as before", func(context.Context) error {
		if after = measure(); after.goroutines > before.goroutines+10 || after.heap > before.heap+16<<20+uint64(n)*journal {
			return fmt.Errorf("%s, before %s", after, before)
		}
		return nil
	})
	if log := w.log.String(); strings.Contains(log, "has not renewed its lease in time") || strings.Contains(log, "forbidden") {
		t.Errorf("the controller has lost its bases, or may not do what it has to:\n%s", log)
	}
}

// report checks that there was a load, and that the controller has bounds.
func (d *disturbance) report(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	schemas, err := client.FlowcontrolV1().FlowSchemas().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range schemas.Items {
		if n := d.flows[string(s.UID)]; n > 0 {
			t.Logf("%d requests by the flow schema %s at the priority level %s", n, s.Name, s.Spec.PriorityLevelConfiguration.Name)
		}
	}
	if d.flows[""] > 0 || len(d.flows) == 0 {
		t.Errorf("priority and fairness is off: %v", d.flows)
	}
	t.Logf("failed requests: %v; at most %d were under way", d.failed, d.most)
	for _, way := range ways {
		if d.failed[way] == 0 {
			t.Errorf("no request failed by %s: that is no disturbance", way)
		}
	}
	if d.most > requests {
		t.Errorf("%d requests were under way at once, want at most %d", d.most, requests)
	}
}

// world is the controller under test.
type world struct {
	*controller.Controller
	way *disturbance
	log *log
}

// startController runs a controller with the rights of an installed one, until the test ends.
func startController(t *testing.T, b *box.Box, at string) *world {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.Folder(), "module-controller.kubeconfig"))
	must(t, err)
	w := &world{log: &log{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		if w.way == nil {
			w.way = newDisturbance(next)
		}
		return w.way
	})
	w.Controller, err = controller.New(controller.Options{
		Config: config, ClientID: "load", Env: env, MQTT: &controller.MQTTOptions{Broker: at}, Drain: -1,
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
		if t.Failed() {
			text := w.log.String()
			t.Logf("the controller's log ends:\n%s", text[max(0, len(text)-8<<10):])
		}
	})
	return w
}

// quiet says what is under way, as the metrics tell.
func (w *world) quiet(context.Context) error {
	answer := httptest.NewRecorder()
	w.Metrics().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	metrics, err := bench.ParseMetrics(answer.Body)
	if err == nil && metrics["module_controller_queue_depth"] == nil {
		err = errors.New("there is no such metric")
	}
	return errors.Join(err, same(0, int(metrics.Sum("module_controller_queue_depth", nil))))
}

// log keeps what a controller logs.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startBroker runs a broker in this process, and returns its address.
func startBroker(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	stop, err := mochi.Serve(listener)
	must(t, err)
	t.Cleanup(func() { must(t, stop()) })
	return listener.Addr().String()
}

// slow is how long a base takes to install a module.
const slow = 2 * time.Second

// startBase runs a base until the test ends.
func startBase(t *testing.T, at string, i int) {
	t.Helper()
	b, err := fakebase.New(fakebase.Options{
		Identity: fmt.Sprintf("b%d", i), Env: env, IP: fmt.Sprintf("198.19.%d.%d", i/250, i%250+1),
		MQTT:      &fakebase.MQTTOptions{Broker: "tcp://" + at},
		Catalogue: &fakebase.Catalogue{Fetch: fakebase.FetchNever, InstallTime: fakebase.Delay{Min: fakebase.Duration(slow)}},
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
}

// sight is what the API server shows of the Pods.
type sight struct {
	corev1listers.PodNamespaceLister
}

// follow follows the Pods until the test ends.
func follow(t *testing.T, client kubernetes.Interface) sight {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(ns))
	pods := factory.Core().V1().Pods()
	pods.Informer()
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	for _, synced := range factory.WaitForCacheSync(t.Context().Done()) {
		if !synced {
			t.Fatal("the Pods are not listed")
		}
	}
	return sight{pods.Lister().Pods(ns)}
}

func (s sight) all() int { return s.count(func(*corev1.Pod) bool { return true }) }

func (s sight) ready() int { return s.count(module.IsReady) }

func (s sight) count(good func(*corev1.Pod) bool) (n int) {
	pods, _ := s.List(k8slabels.Everything()) // an indexer in memory has no error
	for _, pod := range pods {
		if good(pod) {
			n++
		}
	}
	return n
}

func ready(nodes *corev1.NodeList) (n int) {
	for i := range nodes.Items {
		if check.NodeReady(&nodes.Items[i]) {
			n++
		}
	}
	return n
}

func same(want, got int) error {
	if want != got {
		return fmt.Errorf("%d of %d", got, want)
	}
	return nil
}

// each does f for 0 to n-1, at most 20 at a time.
func each(ctx context.Context, n int, f func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(20)
	for i := range n {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

type measured struct {
	goroutines int
	heap       uint64
}

func (m measured) String() string { return fmt.Sprintf("%d and %d MB", m.goroutines, m.heap>>20) }

func measure() measured {
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	return measured{runtime.NumGoroutine(), memory.HeapAlloc}
}
