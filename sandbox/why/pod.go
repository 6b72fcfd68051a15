package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/unsupported"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// The reason of the condition api.ConditionCurrent of a module that was there, by
// controller/internal/vpod/status.go (originUnchanged).
const unchanged = "Unchanged"

// readyRules are for a Pod that is Ready.
var readyRules = []rule{
	{AlreadyInstalled, whenReady(alreadyInstalled)},
	{UnsupportedFields, whenReady(readyButIgnored)},
	{PodReady, whenReady(ready)},
}

// kindRules say that a Pod is no module Pod.
var kindRules = []rule{
	{ModuleLabelMissing, moduleLabelMissing},
	{NotAModule, notAModule},
	{OnOrdinaryNode, onOrdinaryNode},
}

// endRules are for a Pod that goes, or has ended.
var endRules = []rule{
	{TerminatingFinalizer, whenDeleting(terminatingFinalizer)},
	{UninstallFailing, whenDeleting(uninstallFailing)},
	{TerminatingUnserved, whenDeleting(terminatingUnserved)},
	{Terminating, whenDeleting(terminating)},
	{GaveWay, gaveWay},
	{PodEnded, podEnded},
}

func isModule(p *corev1.Pod) bool { return workload.IsModule(p.Labels) }

func whenReady(find func(*view) *finding) func(*view) *finding {
	return func(v *view) *finding {
		if v.Pod.DeletionTimestamp != nil || !podReady(v.Pod) || !isModule(v.Pod) || ended(v.Pod) {
			return nil
		}
		return find(v)
	}
}

// ended tells whether a Pod has come to its end: no Service has it any more, whatever its conditions say.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// serves says since when a Pod is Ready, and where.
func (v *view) serves() string {
	since := podCondition(v.Pod, corev1.PodReady).LastTransitionTime.Time
	return fmt.Sprintf("%s is Ready for %s, since %s: %s serves %s", v.name(), v.ago(since), clock(since), v.onBase(), modules(v.Pod))
}

func alreadyInstalled(v *view) *finding {
	if c := podCondition(v.Pod, api.ConditionCurrent); c.Reason == unchanged {
		return &finding{ready: true, cause: v.serves() + "; the base had this version from this URL already, so nothing was sent to it",
			advice: "to release another jar, raise BIZ_VERSION"}
	}
	return nil
}

// ignored are the fields of the Pod that mean nothing to a module.
func (v *view) ignored() []unsupported.Field {
	if v.Pod == nil || !isModule(v.Pod) {
		return nil
	}
	fields := unsupported.Of(v.Pod.Spec, unsupported.Controller)
	if owner := metav1.GetControllerOf(v.Pod); owner != nil && owner.Kind == "Job" {
		fields = append(fields, unsupported.Job)
	}
	return fields
}

func readyButIgnored(v *view) *finding {
	fields := v.ignored()
	if len(fields) == 0 {
		return nil
	}
	return &finding{ready: true, cause: v.serves() + "; the base ignores " + unsupported.List(fields) + " of its spec",
		advice: "leave out what is ignored, or do it in the base or in the module's own code"}
}

func ready(v *view) *finding { return &finding{ready: true, cause: v.serves()} }

// looksLikeModule tells whether a Pod without the label was meant to be one.
func looksLikeModule(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == labels.TaintVirtualNode }) ||
		slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv })
		})
}

func moduleLabelMissing(v *view) *finding {
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
}

func notAModule(v *view) *finding {
	if isModule(v.Pod) {
		return nil
	}
	cause := fmt.Sprintf("%s is no module Pod: it lacks the label %s=%s", v.name(), labels.Component, labels.Module)
	if v.Pod.Spec.NodeName != "" {
		cause += ", and runs on the ordinary Node " + v.Pod.Spec.NodeName
	}
	return &finding{ready: podReady(v.Pod), cause: cause + "; its phase is " + string(v.Pod.Status.Phase), advice: "see: kubectl describe pod " + v.Pod.Name}
}

func onOrdinaryNode(v *view) *finding {
	if v.Node == nil || workload.IsBase(v.Node) {
		return nil
	}
	return &finding{cause: fmt.Sprintf("the module Pod is bound to %s, which is no base but an ordinary Node", v.Node.Name),
		advice: fmt.Sprintf("select bases with the nodeSelector %s: %s, and make the Pod anew", labels.Component, labels.Vnode)}
}

func whenDeleting(find func(*view) *finding) func(*view) *finding {
	return func(v *view) *finding {
		if v.Pod.DeletionTimestamp == nil {
			return nil
		}
		return find(v)
	}
}

// terminatingFinalizer: nothing is left on the base, and somebody holds the Pod in the API.
func terminatingFinalizer(v *view) *finding {
	p := v.Pod
	over := !slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil })
	if len(p.Finalizers) == 0 || !over && p.Spec.NodeName != "" {
		return nil
	}
	return &finding{cause: fmt.Sprintf("%s is deleted and nothing of it is on a base any more; the finalizer %s keeps it in the API", v.name(), strings.Join(p.Finalizers, ", ")),
		advice: "look whether the program that has set the finalizer runs; without it: kubectl patch pod " + p.Name + ` --type merge -p '{"metadata":{"finalizers":null}}'`}
}

func uninstallFailing(v *view) *finding {
	e, there := v.event(string(v.Pod.UID), errcode.ArkletUninstallBizFailed.Type(), errcode.ArkletUninstallBizTimedOut.Type(), errcode.ArkletNetworkError.Type())
	if !there || eventTime(e).Before(v.deletedAt().Time) {
		return nil
	}
	return &finding{cause: fmt.Sprintf("the module of the deleted Pod could not be uninstalled, %s ago: %s", v.ago(eventTime(e)), sentence(e.Message)),
		advice: "look at the base; the controller tries again, and the Pod goes when the module is gone or its grace period has ended, at " + clock(v.Pod.DeletionTimestamp.Time)}
}

// deletedAt is when the deletion began, to the second: DeletionTimestamp is when it is to be over.
func (v *view) deletedAt() metav1.Time {
	at := *v.Pod.DeletionTimestamp
	if v.Pod.DeletionGracePeriodSeconds != nil {
		at.Time = at.Add(-seconds(*v.Pod.DeletionGracePeriodSeconds))
	}
	return at
}

func terminatingUnserved(v *view) *finding {
	for _, r := range servingRules {
		if f := r.find(v); f != nil {
			return &finding{because: r.reason, cause: fmt.Sprintf("%s is deleted, and nobody uninstalls its module: %s", v.name(), f.cause), advice: f.advice}
		}
	}
	return nil
}

func terminating(v *view) *finding {
	at := v.deletedAt().Time
	return &finding{cause: fmt.Sprintf("%s is deleted for %s: its module drains, so that requests cease to come, and is uninstalled then", v.name(), v.ago(at)),
		advice: "wait: that takes the time of MODULE_DRAIN and of an uninstall, or longer while a successor is on its way or a Service sends it requests; the grace period ends at " + clock(v.Pod.DeletionTimestamp.Time)}
}

// gaveWay: another version of the module serves on the base (document 5.2, batch update).
func gaveWay(v *view) *finding {
	c, w := v.waiting()
	if w == nil || w.Reason != reasonDeactivated {
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
}

func podEnded(v *view) *finding {
	s := v.Pod.Status
	if !ended(v.Pod) {
		return nil
	}
	return &finding{cause: fmt.Sprintf("%s has ended for good with the phase %s: %s", v.name(), s.Phase, cmp.Or(sentence(strings.TrimSpace(s.Reason+" "+s.Message)), "it does not say why")),
		advice: "delete the Pod; its workload makes another one"}
}
