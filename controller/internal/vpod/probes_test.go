package vpod

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/probe"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// webListener simulates the web listener of a base. Probes reach it without a network.
type webListener struct {
	healthy  atomic.Bool
	requests atomic.Int64
}

func (b *webListener) RoundTrip(r *http.Request) (*http.Response, error) {
	b.requests.Add(1)
	w := httptest.NewRecorder()
	if !b.healthy.Load() || r.URL.Host != "198.18.0.1:8080" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return w.Result(), nil
}

func startProbes(w *fixture, readiness, liveness bool) *webListener {
	b := &webListener{}
	b.healthy.Store(true)
	w.prober = probe.New(probe.Options{Changed: w.handleProbeResult, Transport: b})
	go w.prober.Start(w.t.Context())
	c := container("biz1", "1")
	every := &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/biz1/health", Port: intstr.FromInt32(1)}},
		PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 2,
	}
	if readiness {
		c.ReadinessProbe = every
	}
	if liveness {
		c.LivenessProbe = every
	}
	pod := w.create("p1", c)
	pod.Annotations = map[string]string{labels.WebPort: "8080"}
	w.update(pod)
	w.advance(3 * time.Second)
	return b
}

// setProbePeriod changes the period of the readiness probe of Pod p1.
func (w *fixture) setProbePeriod(seconds int32) {
	pod := w.pod("p1")
	pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = seconds
	w.update(pod)
}

func TestProbes(t *testing.T) {
	runTest(t, "readiness: the Pod is Ready while the module is active and the probe succeeds", Options{},
		func(t *testing.T, w *fixture) {
			b := startProbes(w, true, false)
			w.wantSummary("p1", "Running Ready")
			b.healthy.Store(false)
			w.advance(3 * time.Second)
			w.wantSummary("p1", "Running")
			b.healthy.Store(true)
			w.advance(2 * time.Second)
			w.wantSummary("p1", "Running Ready")
			wantEqual(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
		})
	runTest(t, "liveness: the module is installed again", Options{}, func(t *testing.T, w *fixture) {
		b := startProbes(w, false, true)
		w.wantSummary("p1", "Running Ready")
		w.base.takeCommands()
		b.healthy.Store(false)
		w.advance(3 * time.Second)
		b.healthy.Store(true)
		w.advance(5 * time.Second)
		wantEqual(t, "readiness", []string{"p1=Ready", "p1=NotReady", "p1=Ready"}, w.readiness())
		wantEqual(t, "commands", []string{"uninstallBiz biz1:1", "installBiz biz1:1"}, w.base.takeCommands())
		w.wantRestarts("p1", 1)
		var reported bool
		for e := w.nextEvent(); e != "no event"; e = w.nextEvent() {
			reported = reported || strings.Contains(e, api.ReasonLivenessFailed)
		}
		if !reported {
			t.Errorf("no Event with reason %s", api.ReasonLivenessFailed)
		}
	})
}

func TestPreStopSleep(t *testing.T) {
	runTest(t, "delays the uninstall", Options{}, func(t *testing.T, w *fixture) {
		c := container("biz1", "1")
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 10}}}
		w.create("p1", c)
		w.advance(time.Second)
		w.delete("p1")
		w.advance(9 * time.Second)
		wantEqual(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.advance(3 * time.Second)
		w.wantSummary("p1", "gone")
	})
}

func TestVersionInConfigMap(t *testing.T) {
	runTest(t, "read when the Pod is added, and again while the ConfigMap is missing", Options{},
		func(t *testing.T, w *fixture) {
			c := container("biz1", "1")
			c.Env = []corev1.EnvVar{{Name: labels.VersionEnv,
				ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "versions"}, Key: "biz1",
				}}}}
			w.create("p1", c)
			w.advance(3 * time.Second)
			if got := w.summary("p1"); strings.Contains(got, "Ready") {
				t.Errorf("status of pod p1 without its ConfigMap: %q", got)
			}
			versions := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "versions", Namespace: "default"},
				Data: map[string]string{"biz1": "7"}}
			if _, err := w.api.CoreV1().ConfigMaps("default").Create(t.Context(), versions,
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.advance(time.Minute)
			w.wantSummary("p1", "Running Ready")
			wantEqual(t, "commands", []string{string(arklet.CommandInstallBiz) + " biz1:7"}, w.base.takeCommands())
		})
}
