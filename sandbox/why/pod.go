package why

import (
	"cmp"
	"fmt"
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

// pod explains a Pod, along the chain from the scheduler to the module.
func pod(v *view) *Answer {
	a := v.first(readyPod, notAModule, deletedPod, endedPod, unscheduled, serving, liveness, command, health, leaving)
	return &a
}

func readyPod(v *view) *Answer {
	if v.deleted() || !podReady(v.Pod) || !isModule(v.Pod) || ended(v.Pod) {
		return nil
	}
	fields := v.ignored()
	switch {
	case podCondition(v.Pod, api.ConditionCurrent).Reason == api.ReasonUnchanged:
		return &Answer{Ready: true, Reason: AlreadyInstalled,
			Cause:  v.serves() + "; the base had this version from this URL already, so nothing was sent to it",
			Advice: "to release another jar, raise BIZ_VERSION"}
	case len(fields) > 0:
		return &Answer{Ready: true, Reason: UnsupportedFields,
			Cause:  v.serves() + "; the base ignores " + unsupported.List(fields) + " of its spec",
			Advice: "leave out what is ignored, or do it in the base or in the module's own code"}
	}
	return &Answer{Ready: true, Reason: PodReady, Cause: v.serves()}
}

// notAModule explains a Pod that is not a module Pod, or is on an ordinary Node.
func notAModule(v *view) *Answer {
	onBase := v.Node != nil && workload.IsBase(v.Node)
	switch {
	case isModule(v.Pod) && v.Node != nil && !onBase:
		return &Answer{Reason: OnOrdinaryNode,
			Cause: fmt.Sprintf("the module Pod is bound to %s, which is an ordinary Node, not a base",
				v.Pod.Spec.NodeName),
			Advice: fmt.Sprintf("select bases with the nodeSelector %s: %s, and recreate the Pod", labels.Component,
				labels.Vnode)}
	case isModule(v.Pod):
		return nil
	case !onBase && !LooksLikeModule(&v.Pod.Spec):
		cause := fmt.Sprintf("%s is not a module Pod: it does not have the label %s=%s", v.name(), labels.Component,
			labels.Module)
		if v.bound() {
			cause += ", and runs on the ordinary Node " + v.Pod.Spec.NodeName
		}
		return &Answer{Reason: NotAModule, Ready: podReady(v.Pod),
			Cause:  cause + "; its phase is " + string(v.Pod.Status.Phase),
			Advice: "see: kubectl describe pod " + v.Pod.Name}
	}
	advice := fmt.Sprintf("label the Pod, or the metadata of its template, %s: %s", labels.Component, labels.Module)
	if value := labels.Value(v.Pod.Labels, labels.Component); value != "" {
		return &Answer{Reason: ModuleLabelMissing,
			Cause: fmt.Sprintf("the label %s of the Pod is %s and not %s, so the module controller ignores it",
				labels.Component, value, labels.Module), Advice: advice}
	}
	if onBase && !LooksLikeModule(&v.Pod.Spec) {
		advice = fmt.Sprintf("keep the Pod off bases, which run only modules: add a required node affinity %s NotIn "+
			"[%s] to its template; or, if it is a module, %s", labels.Component, labels.Vnode, advice)
	}
	return &Answer{Reason: ModuleLabelMissing,
		Cause: fmt.Sprintf("the Pod does not have the label %s=%s, so the module controller ignores it",
			labels.Component, labels.Module), Advice: advice}
}

func deletedPod(v *view) *Answer {
	if !v.deleted() {
		return nil
	}
	p := v.Pod
	runs := slices.ContainsFunc(p.Status.ContainerStatuses,
		func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil })
	if len(p.Finalizers) > 0 && (!runs || v.unbound()) {
		return &Answer{Reason: TerminatingFinalizer,
			Cause: fmt.Sprintf(
				"%s is being deleted, and no base has its modules any more; the finalizer %s keeps it in the API",
				v.name(), strings.Join(p.Finalizers, ", ")),
			Advice: "check that the program that set the finalizer is running; to remove the finalizer: " +
				"kubectl patch pod " + p.Name + ` --type merge -p '{"metadata":{"finalizers":null}}'`}
	}
	e, found := v.event(string(p.UID), errcode.ArkletUninstallBizFailed.Type(),
		errcode.ArkletUninstallBizTimedOut.Type(), errcode.ArkletNetworkError.Type())
	if found && !events.LastTime(&e).Before(v.deletedAt()) {
		return &Answer{Reason: UninstallFailing,
			Cause: fmt.Sprintf("the module of the deleted Pod could not be uninstalled, %s ago: %s",
				v.ago(events.LastTime(&e)), sentence(e.Message)),
			Advice: "check the base; the controller tries again; the Pod is deleted when the module is uninstalled, " +
				"or when its grace period ends at " + clock(p.DeletionTimestamp.Time)}
	}
	if a := serving(v); a != nil {
		return &Answer{Reason: TerminatingUnserved, Because: a.Reason,
			Cause:  fmt.Sprintf("%s is being deleted, and no controller uninstalls its module: %s", v.name(), a.Cause),
			Advice: a.Advice}
	}
	return &Answer{Reason: Terminating,
		Cause: fmt.Sprintf("%s has been terminating for %s: its module drains, and is uninstalled after that",
			v.name(), v.ago(v.deletedAt())),
		Advice: "wait: this takes MODULE_DRAIN and an uninstall, or longer while a successor is being installed or a " +
			"Service still sends requests; the grace period ends at " + clock(p.DeletionTimestamp.Time)}
}

func endedPod(v *view) *Answer {
	if c, w := v.waiting(); w != nil && w.Reason == api.ReasonDeactivated {
		newer := ""
		for i := range v.OnBases {
			p := &v.OnBases[i]
			if p.UID != v.Pod.UID && podReady(p) &&
				slices.ContainsFunc(p.Spec.Containers, func(o corev1.Container) bool { return o.Name == c.Name }) {
				newer = ", Pod " + p.Name
			}
		}
		return &Answer{Reason: GaveWay,
			Cause: fmt.Sprintf("the Pod was superseded: a newer Pod of module %s is active on %s%s", c.Name,
				v.onBase(), newer),
			Advice: "delete the Pod or its workload: only one version of a module is active on a base"}
	}
	if !ended(v.Pod) {
		return nil
	}
	s := v.Pod.Status
	return &Answer{Reason: PodEnded,
		Cause: fmt.Sprintf("%s has ended with the phase %s: %s", v.name(), s.Phase,
			cmp.Or(sentence(strings.TrimSpace(s.Reason+" "+s.Message)), "no reason given")),
		Advice: "delete the Pod; its workload creates another one"}
}

func isModule(p *corev1.Pod) bool { return workload.IsModule(p.Labels) }

// ended reports whether the phase of a Pod is final.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// serves returns since when a Pod is Ready, and where.
func (v *view) serves() string {
	since := podCondition(v.Pod, corev1.PodReady).LastTransitionTime.Time
	return fmt.Sprintf("%s is Ready for %s, since %s: %s serves %s", v.name(), v.ago(since), clock(since), v.onBase(),
		modules(v.Pod))
}

// ignored returns the fields of the Pod that mean nothing to a module.
func (v *view) ignored() []unsupported.Field {
	if v.Pod == nil || !isModule(v.Pod) {
		return nil
	}
	return unsupported.OfPod(v.Pod)
}

// LooksLikeModule reports whether a Pod has a toleration or a variable that only module Pods need.
func LooksLikeModule(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Tolerations,
		func(t corev1.Toleration) bool { return t.Key == labels.TaintVirtualNode }) ||
		slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv })
		})
}

// deletedAt returns when the deletion began, to the second: DeletionTimestamp is when it must be over.
func (v *view) deletedAt() time.Time {
	return v.Pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(v.Pod.DeletionGracePeriodSeconds, 0)) * time.Second)
}
