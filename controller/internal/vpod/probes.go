package vpod

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/internal/probe"
)

// updateProbes starts the probes of a module if the module is active. Otherwise, it stops them.
func (p *Provider) updateProbes(ctx context.Context, v podSnapshot, name string, b base.Snapshot,
	oldStatus corev1.PodStatus) {
	i := slices.IndexFunc(v.pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	c := v.pod.Spec.Containers[i]
	if c.ReadinessProbe == nil && c.LivenessProbe == nil {
		return
	}
	biz, exists := b.Module(name, v.module.Version)
	if !exists || biz.State != arklet.StateActivated || !v.wants() {
		p.prober.Forget(v.uid, name)
		return
	}
	t := probe.Target{Pod: v.uid, Container: name, Base: v.identity, Started: biz.Latest.At,
		ContextPath: biz.WebContextPath, Readiness: c.ReadinessProbe, Liveness: c.LivenessProbe}
	t.WasReady = slices.ContainsFunc(oldStatus.ContainerStatuses,
		func(s corev1.ContainerStatus) bool { return s.Name == name && s.Ready })
	for _, spec := range []**corev1.Probe{&t.Readiness, &t.Liveness} {
		if *spec == nil || (*spec).HTTPGet == nil {
			*spec = nil
			continue
		}
		address, err := probe.Address(v.pod, p.opts.Node(v.pod.Spec.NodeName), b.IP, c, (*spec).HTTPGet)
		if err != nil {
			p.opts.Recorder.Event(v.pod, corev1.EventTypeWarning, api.ReasonUnhealthy, "cannot probe: "+err.Error())
			*spec = nil
			continue
		}
		t.Address = address
	}
	p.prober.Set(t)
	if ctx.Err() != nil { // the base is not served any more: StopServing may have run before Set
		p.prober.Forget(v.uid, name)
	}
}

// handleProbeResult handles a changed result of a probe. A module is reinstalled after its liveness probe has failed.
func (p *Provider) handleProbeResult(r probe.Result) {
	e, known := p.store.get(r.Pod)
	if !known {
		return
	}
	key := slotKey{e.identity, r.Container}
	var pod *corev1.Pod
	unhealthy := false
	p.store.change(func() {
		pod = e.pod
		l := p.store.slot(key)
		i := slices.IndexFunc(e.modules, func(m module) bool { return m.Name == r.Container })
		if l == nil || i < 0 || r.Kind != probe.Liveness || r.Healthy {
			return
		}
		l.memory.Update(e.modules[i].Version,
			func(installed *plan.InstalledVersion) { installed.Unhealthy, unhealthy = true, true })
	})
	if !r.Healthy {
		p.opts.Recorder.Event(pod, corev1.EventTypeWarning, api.ReasonUnhealthy,
			string(r.Kind)+" probe failed: "+r.Message)
	}
	if unhealthy {
		p.opts.Recorder.Event(pod, corev1.EventTypeNormal, api.ReasonLivenessFailed,
			"the liveness probe of module "+r.Container+" failed: the module will be uninstalled and installed again")
	}
	p.trigger(key)
}
