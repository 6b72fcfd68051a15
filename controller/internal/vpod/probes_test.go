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

// web is a base's web listener that the probes of a world reach without a network, since theirs is
// a time of its own.
type web struct {
	healthy atomic.Bool
	asked   atomic.Int64
}

func (b *web) RoundTrip(r *http.Request) (*http.Response, error) {
	b.asked.Add(1)
	w := httptest.NewRecorder()
	if !b.healthy.Load() || r.URL.Host != "198.18.0.1:8080" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return w.Result(), nil
}

func probed(w *world, readiness, liveness bool) *web {
	b := &web{}
	b.healthy.Store(true)
	w.prober = probe.New(probe.Options{Changed: w.probed, Transport: b})
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
	w.pass(3 * time.Second)
	return b
}

// probeEvery has the module of Pod p1 probed in other periods.
func (w *world) probeEvery(seconds int32) {
	pod := w.pod("p1")
	pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = seconds
	w.update(pod)
}

func TestProbes(t *testing.T) {
	in(t, "readiness: the Pod is Ready when the base and the probe say so", Options{}, func(t *testing.T, w *world) {
		b := probed(w, true, false)
		w.wantShow("p1", "Running Ready")
		b.healthy.Store(false)
		w.pass(3 * time.Second)
		w.wantShow("p1", "Running")
		b.healthy.Store(true)
		w.pass(2 * time.Second)
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
	})
	in(t, "liveness: the module is installed anew", Options{}, func(t *testing.T, w *world) {
		b := probed(w, false, true)
		w.wantShow("p1", "Running Ready")
		w.base.takeCommands()
		b.healthy.Store(false)
		w.pass(3 * time.Second)
		b.healthy.Store(true)
		w.pass(5 * time.Second)
		wantDiff(t, "readiness", []string{"p1=Ready", "p1=NotReady", "p1=Ready"}, w.readiness())
		wantDiff(t, "commands", []string{"uninstallBiz biz1:1", "installBiz biz1:1"}, w.base.takeCommands())
		w.wantRestarts("p1", 1)
		var killing bool
		for e := w.nextEvent(); e != "no event"; e = w.nextEvent() {
			killing = killing || strings.Contains(e, api.ReasonLivenessFailed)
		}
		if !killing {
			t.Error("no Event tells of it")
		}
	})
}

func TestPreStopSleep(t *testing.T) {
	in(t, "the module stays that long", Options{}, func(t *testing.T, w *world) {
		c := container("biz1", "1")
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 10}}}
		w.create("p1", c)
		w.pass(time.Second)
		w.delete("p1")
		w.pass(9 * time.Second)
		wantDiff(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.pass(3 * time.Second)
		w.wantShow("p1", "gone")
	})
}

func TestVersionInAConfigMap(t *testing.T) {
	in(t, "read when the Pod comes, and again while it is missing", Options{}, func(t *testing.T, w *world) {
		c := container("biz1", "1")
		c.Env = []corev1.EnvVar{{Name: labels.VersionEnv,
			ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "versions"}, Key: "biz1",
			}}}}
		w.create("p1", c)
		w.pass(3 * time.Second)
		if got := w.show("p1"); strings.Contains(got, "Ready") {
			t.Errorf("pod p1 is %q without its ConfigMap", got)
		}
		versions := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "versions", Namespace: "default"},
			Data: map[string]string{"biz1": "7"}}
		if _, err := w.api.CoreV1().ConfigMaps("default").Create(t.Context(), versions,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "commands", []string{string(arklet.CommandInstallBiz) + " biz1:7"}, w.base.takeCommands())
	})
}
