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
)

// readyRules are for a Pod that is Ready.
var readyRules = []rule{
	{AlreadyInstalled, func(v *view) *finding {
		if podCondition(v.Pod, api.ConditionCurrent).Reason != api.ReasonUnchanged {
			return nil
		}
		return &finding{ready: true, cause: v.serves() + "; the base had this version from this URL already, so nothing was sent to it", advice: "to release another jar, raise BIZ_VERSION"}
	}},
	{UnsupportedFields, func(v *view) *finding {
		fields := v.ignored()
		if len(fields) == 0 {
			return nil
		}
		return &finding{ready: true, cause: v.serves() + "; the base ignores " + unsupported.List(fields) + " of its spec",
			advice: "leave out what is ignored, or do it in the base or in the module's own code"}
	}},
	{PodReady, func(v *view) *finding { return &finding{ready: true, cause: v.serves()} }},
}

// kindRules say that a Pod is no module Pod.
var kindRules = []rule{
	{ModuleLabelMissing, func(v *view) *finding {
		onBase := v.Node != nil && workload.IsBase(v.Node)
		if isModule(v.Pod) || !onBase && !looksLikeModule(v.Pod) {
			return nil
		}
		advice := fmt.Sprintf("label the Pod, or the metadata of its template, %s: %s", labels.Component, labels.Module)
		if value := labels.Value(v.Pod.Labels, labels.Component); value != "" {
			return &finding{cause: fmt.Sprintf("the label %s of the Pod is %s and not %s, so the module controller ignores it", labels.Component, value, labels.Module), advice: advice}
		}
		if onBase && !looksLikeModule(v.Pod) {
			advice = fmt.Sprintf("keep the Pod off bases, which run only modules: add a required node affinity %s NotIn [%s] to its template; or, if it is a module, %s", labels.Component, labels.Vnode, advice)
		}
		return &finding{cause: fmt.Sprintf("the Pod does not have the label %s=%s, so the module controller ignores it", labels.Component, labels.Module), advice: advice}
	}},
	{NotAModule, func(v *view) *finding {
		if isModule(v.Pod) {
			return nil
		}
		cause := fmt.Sprintf("%s is no module Pod: it lacks the label %s=%s", v.name(), labels.Component, labels.Module)
		if v.bound() {
			cause += ", and runs on the ordinary Node " + v.Pod.Spec.NodeName
		}
		return &finding{ready: podReady(v.Pod), cause: cause + "; its phase is " + string(v.Pod.Status.Phase), advice: "see: kubectl describe pod " + v.Pod.Name}
	}},
	{OnOrdinaryNode, func(v *view) *finding {
		return when(v.Node != nil && !workload.IsBase(v.Node), fmt.Sprintf("the module Pod is bound to %s, which is no base but an ordinary Node", v.Pod.Spec.NodeName),
			fmt.Sprintf("select bases with the nodeSelector %s: %s, and make the Pod anew", labels.Component, labels.Vnode))
	}},
}

// deletedRules are for a Pod that is being deleted.
var deletedRules = []rule{
	{TerminatingFinalizer, func(v *view) *finding {
		p := v.Pod
		runs := slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil })
		return when(len(p.Finalizers) > 0 && (!runs || v.unbound()),
			fmt.Sprintf("%s is deleted and nothing of it is on a base any more; the finalizer %s keeps it in the API", v.name(), strings.Join(p.Finalizers, ", ")),
			"look whether the program that has set the finalizer runs; without it: kubectl patch pod "+p.Name+` --type merge -p '{"metadata":{"finalizers":null}}'`)
	}},
	{UninstallFailing, func(v *view) *finding {
		e, there := v.event(string(v.Pod.UID), errcode.ArkletUninstallBizFailed.Type(), errcode.ArkletUninstallBizTimedOut.Type(), errcode.ArkletNetworkError.Type())
		return when(there && !eventTime(e).Before(v.deletedAt()), fmt.Sprintf("the module of the deleted Pod could not be uninstalled, %s ago: %s", v.ago(eventTime(e)), sentence(e.Message)),
			"look at the base; the controller tries again, and the Pod goes when the module is gone or its grace period has ended, at "+clock(v.Pod.DeletionTimestamp.Time))
	}},
	{TerminatingUnserved, func(v *view) *finding {
		a, found := v.evaluate(servingRules)
		if !found {
			return nil
		}
		return &finding{because: a.Reason, cause: fmt.Sprintf("%s is deleted, and nobody uninstalls its module: %s", v.name(), a.Cause), advice: a.Advice}
	}},
	{Terminating, func(v *view) *finding {
		return &finding{cause: fmt.Sprintf("%s is deleted for %s: its module drains, so that requests cease to come, and is uninstalled then", v.name(), v.ago(v.deletedAt())),
			advice: "wait: that takes the time of MODULE_DRAIN and of an uninstall, or longer while a successor is on its way or a Service sends it requests; the grace period ends at " + clock(v.Pod.DeletionTimestamp.Time)}
	}},
}

// endRules are for a Pod that has ended.
var endRules = []rule{
	{GaveWay, func(v *view) *finding { // document 5.2, batch update
		c, w := v.waiting()
		if w == nil || w.Reason != api.ReasonDeactivated {
			return nil
		}
		newer := ""
		for i := range v.OnBases {
			p := &v.OnBases[i]
			if p.UID != v.Pod.UID && podReady(p) && slices.ContainsFunc(p.Spec.Containers, func(o corev1.Container) bool { return o.Name == c.Name }) {
				newer = ", Pod " + p.Name
			}
		}
		return &finding{cause: fmt.Sprintf("the Pod gave way: a newer Pod of module %s serves on %s%s", c.Name, v.onBase(), newer),
			advice: "delete the Pod, or the workload that keeps it: two versions of a module do not serve on one base"}
	}},
	{PodEnded, func(v *view) *finding {
		s := v.Pod.Status
		return when(ended(v.Pod), fmt.Sprintf("%s has ended for good with the phase %s: %s", v.name(), s.Phase, cmp.Or(sentence(strings.TrimSpace(s.Reason+" "+s.Message)), "it does not say why")),
			"delete the Pod; its workload makes another one")
	}},
}

func isModule(p *corev1.Pod) bool { return workload.IsModule(p.Labels) }

// ended reports whether a Pod has come to its end: no Service has it any more, whatever its conditions are.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// serves returns since when a Pod is Ready, and where.
func (v *view) serves() string {
	since := podCondition(v.Pod, corev1.PodReady).LastTransitionTime.Time
	return fmt.Sprintf("%s is Ready for %s, since %s: %s serves %s", v.name(), v.ago(since), clock(since), v.onBase(), modules(v.Pod))
}

// ignored returns the fields of the Pod that mean nothing to a module.
func (v *view) ignored() []unsupported.Field {
	if v.Pod == nil || !isModule(v.Pod) {
		return nil
	}
	return unsupported.OfPod(v.Pod)
}

// looksLikeModule reports whether a Pod without the label was meant to be a module.
func looksLikeModule(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == labels.TaintVirtualNode }) ||
		slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv })
		})
}

// deletedAt returns when the deletion began, to the second: DeletionTimestamp is when it must be over.
func (v *view) deletedAt() time.Time {
	return v.Pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(v.Pod.DeletionGracePeriodSeconds, 0)) * time.Second)
}
