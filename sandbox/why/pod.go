package why

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/unsupported"
	"github.com/koupleless/koupsandbox/controller/workload"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// pod explains a Pod. It applies the rules in order, along the chain from the scheduler to the module.
func pod(v *explainer) *Answer {
	a := v.first(readyPod, notAModule, deletedPod, explainTerminatedPod, explainUnscheduled, explainServing, liveness,
		command, health, explainLeaving)
	return &a
}

func readyPod(v *explainer) *Answer {
	if v.deleted() || !podReady(v.Pod) || !isModule(v.Pod) || ended(v.Pod) {
		return nil
	}
	since := podCondition(v.Pod, corev1.PodReady).LastTransitionTime.Time
	ready := args{"pod": v.name(), "age": v.ago(since), "since": clock(since), "base": v.onBase(),
		"modules": modules(v.Pod)}
	a := v.answer(msgPodReady, ready)
	fields := v.ignored()
	switch {
	case podCondition(v.Pod, api.ConditionCurrent).Reason == api.ReasonUnchanged:
		a = v.answer(msgAlreadyInstalled, args{"ready": a.Cause})
	case len(fields) > 0:
		a = v.answer(msgUnsupportedFields, args{"ready": a.Cause, "fields": unsupported.List(fields)})
	}
	a.Ready = true
	return a
}

// notAModule explains a Pod that is not a module Pod, or that runs on an ordinary Node.
func notAModule(v *explainer) *Answer {
	onBase := v.Node != nil && workload.IsBase(v.Node)
	switch {
	case isModule(v.Pod) && v.Node != nil && !onBase:
		return v.answer(msgOnOrdinaryNode, args{"node": v.Pod.Spec.NodeName})
	case isModule(v.Pod):
		return nil
	case !onBase && !LooksLikeModule(&v.Pod.Spec):
		where := ""
		if v.bound() {
			where = v.in(partOrdinaryNode, args{"node": v.Pod.Spec.NodeName})
		}
		a := v.answer(msgNotAModule,
			args{"pod": v.name(), "where": where, "phase": v.Pod.Status.Phase, "name": v.Pod.Name})
		a.Ready = podReady(v.Pod)
		return a
	}
	if value := labels.Value(v.Pod.Labels, labels.Component); value != "" {
		return v.answer(msgWrongComponent, args{"value": value})
	}
	if onBase && !LooksLikeModule(&v.Pod.Spec) {
		return v.answer(msgNoModuleOnBase, nil)
	}
	return v.answer(msgNoComponent, nil)
}

func deletedPod(v *explainer) *Answer {
	if !v.deleted() {
		return nil
	}
	p := v.Pod
	runs := slices.ContainsFunc(p.Status.ContainerStatuses,
		func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil })
	if len(p.Finalizers) > 0 && (!runs || v.unbound()) {
		return v.answer(msgTerminatingFinalizer,
			args{"pod": v.name(), "finalizers": strings.Join(p.Finalizers, ", "), "name": p.Name})
	}
	end := clock(p.DeletionTimestamp.Time)
	e, found := v.event(string(p.UID), errcode.ArkletUninstallBizFailed.Type(),
		errcode.ArkletUninstallBizTimedOut.Type(), errcode.ArkletNetworkError.Type())
	if found && !events.LastTime(&e).Before(v.deletedAt()) {
		return v.answer(msgUninstallFailing,
			args{"age": v.ago(events.LastTime(&e)), "message": sentence(e.Message), "end": end})
	}
	if a := explainServing(v); a != nil {
		unserved := v.answer(msgTerminatingUnserved, args{"pod": v.name(), "cause": a.Cause, "advice": a.Advice})
		unserved.Because = a.Reason
		return unserved
	}
	return v.answer(msgTerminating, args{"pod": v.name(), "age": v.ago(v.deletedAt()), "end": end})
}

func explainTerminatedPod(v *explainer) *Answer {
	if c, w := v.waiting(); w != nil && w.Reason == api.ReasonDeactivated {
		newer := ""
		for i := range v.OnBases {
			p := &v.OnBases[i]
			if p.UID != v.Pod.UID && podReady(p) &&
				slices.ContainsFunc(p.Spec.Containers, func(o corev1.Container) bool { return o.Name == c.Name }) {
				newer = v.in(partPod, args{"pod": p.Name})
			}
		}
		return v.answer(msgSuperseded, args{"module": c.Name, "base": v.onBase(), "newer": newer})
	}
	if !ended(v.Pod) {
		return nil
	}
	s := v.Pod.Status
	return v.answer(msgPodEnded, args{"pod": v.name(), "phase": s.Phase,
		"message": cmp.Or(sentence(strings.TrimSpace(s.Reason+" "+s.Message)), v.in(partNoReason, nil))})
}

func isModule(p *corev1.Pod) bool { return workload.IsModule(p.Labels) }

// ended reports whether a Pod has ended: its phase is Succeeded or Failed.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// ignored returns the fields of the Pod spec that have no effect for a module.
func (v *explainer) ignored() []unsupported.Field {
	if v.Pod == nil || !isModule(v.Pod) {
		return nil
	}
	return unsupported.OfPod(v.Pod)
}

// LooksLikeModule reports whether a Pod has a toleration or an environment variable that only module Pods need.
func LooksLikeModule(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Tolerations,
		func(t corev1.Toleration) bool { return t.Key == labels.TaintVirtualNode }) ||
		slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv })
		})
}

// deletedAt returns the time at which the deletion of the Pod started, with a resolution of one second. It computes
// this time from DeletionTimestamp, which is the end of the grace period.
func (v *explainer) deletedAt() time.Time {
	return v.Pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(v.Pod.DeletionGracePeriodSeconds, 0)) * time.Second)
}
