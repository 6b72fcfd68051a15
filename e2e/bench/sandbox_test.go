package bench

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/bench"
)

const (
	daemonPart     = "daemon"
	controllerPart = box.ControllerBinary

	namespace  = metav1.NamespaceDefault
	app        = "order"
	oldVersion = "1.0.0"
	newVersion = "2.0.0"

	// limit is the timeout of one step. pollEvery is the time between two checks of a condition.
	limit     = 10 * time.Minute
	pollEvery = 20 * time.Millisecond
	// sampleEvery is the interval of memory samples.
	sampleEvery = 250 * time.Millisecond
)

// ctx is cancelled by Ctrl-C. The benchmarks then fail and remove their sandboxes.
var ctx context.Context

func TestMain(m *testing.M) {
	var stop context.CancelFunc
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := m.Run()
	stop()
	os.Exit(code)
}

// sandbox is a sandbox under measurement. Its methods fail the benchmark on errors.
type sandbox struct {
	*testing.B
	box    *box.Box
	client kubernetes.Interface
	// upTime is the duration of the up command.
	upTime time.Duration

	bases     int
	pods      cache.Store
	stopWatch context.CancelFunc
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// startSandbox creates a sandbox. The sandbox is removed when the benchmark ends.
func startSandbox(b *testing.B, bases int) *sandbox {
	b.Helper()
	b.ReportMetric(0, "ns/op") // the benchmark measures its steps, not the whole
	bin, err := box.FindBinaries("../..")
	must(b, err)
	home, err := os.MkdirTemp("", "koup-bench-") // paths of sockets must be short
	must(b, err)
	s := &sandbox{B: b, box: &box.Box{Bin: bin, Home: home, Name: "bench"}, bases: bases, stopWatch: func() {}}
	b.Cleanup(func() {
		s.down()
		must(b, os.RemoveAll(home))
	})
	start := time.Now()
	must(b, s.box.Up(ctx, v1alpha1.Spec{Bases: []v1alpha1.BaseSet{{Count: &bases}},
		Wait: &metav1.Duration{Duration: limit}}))
	s.upTime = time.Since(start)
	config, err := s.box.REST()
	must(b, err)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	s.client, err = kubernetes.NewForConfig(config)
	must(b, err)
	s.watchPods()
	return s
}

// wait sleeps, without requests to the sandbox.
func (s *sandbox) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		s.Fatal(context.Cause(ctx))
	}
}

func (s *sandbox) down() {
	s.stopWatch()
	must(s.B, s.box.Down(context.Background()))
}

// watchPods follows the Pods with a single watch, because repeated list requests would distort the measurement.
func (s *sandbox) watchPods() {
	watched, stop := context.WithCancel(ctx)
	s.stopWatch = stop
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	factory.Start(watched.Done())
	if !cache.WaitForCacheSync(watched.Done(), informer.HasSynced) {
		s.Fatal("the watch of Pods did not start")
	}
	s.pods = informer.GetStore()
}

// count returns the total number of Pods, and how many of them have the given version, are Ready and are not being
// deleted.
func (s *sandbox) count(version string) (all, ready int) {
	for _, object := range s.pods.List() {
		all++
		if pod, is := object.(*corev1.Pod); is && module.IsReady(pod) && pod.DeletionTimestamp == nil &&
			pod.Spec.Containers[0].Env[0].Value == version {
			ready++
		}
	}
	return all, ready
}

// waitPods waits until n Pods of the version are Ready and no other Pods exist.
func (s *sandbox) waitPods(version string, n int) {
	s.Helper()
	err := wait.PollUntilContextTimeout(ctx, pollEvery, limit, true, func(context.Context) (bool, error) {
		all, ready := s.count(version)
		return all == n && ready == n, nil
	})
	if err != nil {
		all, ready := s.count(version)
		s.Fatalf("waiting for %d Ready Pods of version %s: %v; there are %d Pods, %d of them Ready", n, version, err,
			all, ready)
	}
}

func template() corev1.PodTemplateSpec {
	return module.Template(app, module.Container(app, oldVersion))
}

// createDeployment creates a Deployment with a Pod for each base, and waits until all are Ready.
func (s *sandbox) createDeployment(spread func(*corev1.PodTemplateSpec)) {
	t := template()
	spread(&t)
	d := module.Deployment(namespace, app, int32(s.bases), t) //nolint:gosec // at most 10,000
	_, err := s.client.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{})
	must(s.B, err)
	s.waitPods(oldVersion, s.bases)
}

// createDaemonSet creates a DaemonSet, and waits until its Pod is Ready on every base.
func (s *sandbox) createDaemonSet() {
	_, err := s.client.AppsV1().DaemonSets(namespace).Create(ctx, module.DaemonSet(namespace, app, template()),
		metav1.CreateOptions{})
	must(s.B, err)
	s.waitPods(oldVersion, s.bases)
}

// rollOut updates the Deployment to the new version, and waits until all its Pods are Ready.
func (s *sandbox) rollOut() {
	patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q,"env":[{"name":%q,"value":%q}]}]}}}}`,
		app, module.URL(app, newVersion), module.EnvVersion, newVersion)
	_, err := s.client.AppsV1().Deployments(namespace).Patch(ctx, app, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	must(s.B, err)
	s.waitPods(newVersion, s.bases)
}

// deleteDeployment deletes the Deployment, and waits until its Pods are deleted. The controller keeps each Pod until
// its module is uninstalled.
func (s *sandbox) deleteDeployment() {
	background := metav1.DeletePropagationBackground
	must(s.B, s.client.AppsV1().Deployments(namespace).Delete(ctx, app,
		metav1.DeleteOptions{PropagationPolicy: &background}))
	s.waitPods(oldVersion, 0)
}

// requireModules fails unless n bases each report exactly one module, with the given version, and all other bases
// report no modules.
func (s *sandbox) requireModules(version string, n int) {
	s.Helper()
	opened, err := s.box.Open(ctx)
	must(s.B, err)
	defer opened.Close()
	list, err := opened.Bases(ctx, "")
	must(s.B, err)
	exact, modules := 0, 0
	for _, base := range list {
		modules += len(base.Modules)
		if strings.Join(base.Modules, ",") == app+":"+version+" ACTIVATED" {
			exact++
		}
	}
	if exact != n || modules != n {
		s.Fatalf("%d bases have exactly version %s, and there are %d modules; want %d", exact, version, modules, n)
	}
}

// unreadySince returns the number of Nodes that are not Ready, or became Ready after start. Kubernetes also sets a
// Node Not Ready if its Lease expires.
func (s *sandbox) unreadySince(start time.Time) int {
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(s.B, err)
	n := 0
	for _, node := range nodes.Items {
		if slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && (c.Status != corev1.ConditionTrue || c.LastTransitionTime.After(start))
		}) {
			n++
		}
	}
	return n
}

// usage contains the duration, the CPU time and the write requests of a step.
type usage struct {
	*testing.B
	time time.Duration
	// cpu is the CPU time in seconds, by process.
	cpu map[string]float64
	// allWrites counts all write requests that the API server received. podWrites is allWrites without the resources
	// of isUpkeep (Leases, Events, reviews). controllerWrites counts the write requests that the controller sent,
	// also without these resources.
	controllerWrites, allWrites, podWrites float64
}

// measure runs a step, and returns its usage.
func (s *sandbox) measure(step func()) usage {
	before := s.usage()
	start := time.Now()
	step()
	u := usage{B: s.B, time: time.Since(start), cpu: map[string]float64{}}
	after := s.usage()
	for name, seconds := range after.cpu {
		u.cpu[name] = seconds - before.cpu[name]
	}
	u.controllerWrites = after.controllerWrites - before.controllerWrites
	u.allWrites = after.allWrites - before.allWrites
	u.podWrites = after.podWrites - before.podWrites
	return u
}

// usage returns the totals since the sandbox started. The field time is not set.
func (s *sandbox) usage() usage {
	processes, err := s.box.Processes(ctx)
	must(s.B, err)
	u := usage{cpu: map[string]float64{}}
	for _, p := range processes {
		_, u.cpu[p.Component], err = p.Usage(ctx)
		must(s.B, err)
	}
	api, err := bench.APIMetrics(ctx, s.client.CoreV1().RESTClient())
	must(s.B, err)
	u.controllerWrites = s.controllerMetrics().Sum("module_controller_api_requests_total",
		func(labels map[string]string) bool {
			return isWrite(labels["method"]) && !isUpkeep(labels["resource"])
		})
	u.allWrites = api.Sum("apiserver_request_total",
		func(labels map[string]string) bool { return isWrite(labels["verb"]) })
	u.podWrites = api.Sum("apiserver_request_total", func(labels map[string]string) bool {
		return isWrite(labels["verb"]) && !isUpkeep(labels["resource"])
	})
	return u
}

func isWrite(verb string) bool {
	return slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, verb)
}

// isUpkeep reports whether podWrites and controllerWrites exclude a resource. They exclude Leases, which are written
// periodically, and Events and reviews, which do not change other objects.
func isUpkeep(resource string) bool {
	return slices.Contains([]string{"leases", "events", "subjectaccessreviews", "selfsubjectaccessreviews",
		"tokenreviews"}, resource)
}

func (s *sandbox) controllerMetrics() bench.Metrics {
	m, err := s.box.ControllerMetrics(ctx)
	must(s.B, err)
	return m
}

func (u usage) allCPU() (seconds float64) {
	for _, part := range u.cpu {
		seconds += part
	}
	return seconds
}

// reportPods reports the duration of a step, and its CPU time and write requests per Pod.
func (u usage) reportPods(step string, pods float64) {
	u.ReportMetric(u.time.Seconds(), step+"-s")
	u.ReportMetric(u.allCPU()*1e3/pods, "cpu-ms/Pod")
	u.ReportMetric(u.cpu[controllerPart]*1e3/pods, controllerPart+"-cpu-ms/Pod")
	u.ReportMetric(u.controllerWrites/pods, controllerPart+"-writes/Pod")
	u.ReportMetric(u.podWrites/pods, "writes/Pod")
}

// memory is the mean and the maximum resident memory of a process, in MB.
type memory struct{ mean, most float64 }

// sampleMemory samples the memory of all processes until end is called, and returns the result by process name. A
// single sample would depend on when the garbage collector last ran.
func (s *sandbox) sampleMemory() (end func() map[string]memory) {
	processes, err := s.box.Processes(ctx)
	must(s.B, err)
	sampling, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	used, samples := map[string]memory{}, 0.0
	go func() {
		defer close(done)
		wait.UntilWithContext(sampling, func(ctx context.Context) {
			samples++
			for _, p := range processes {
				rss, _, err := p.Usage(ctx)
				if err != nil {
					s.Error(err)
					return
				}
				megabytes := float64(rss) / 1e6
				m := used[p.Component]
				used[p.Component] = memory{m.mean + megabytes, max(m.most, megabytes)}
			}
		}, sampleEvery)
	}()
	return func() map[string]memory {
		cancel()
		<-done
		for name, m := range used {
			used[name] = memory{m.mean / samples, m.most}
		}
		return used
	}
}
