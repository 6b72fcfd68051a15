package moduleview

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// Reasons with which the controller marks a waiting container that is no failure; see
// internal/vpod.
var (
	installing  = []string{api.ReasonResolved}
	deactivated = []string{api.ReasonDeactivated, api.ReasonNotActivated}
	broken      = []string{api.ReasonBroken}
)

// mirror returns the Module of a container. node is the Pod's Node, nil if it is not known.
func mirror(pod *corev1.Pod, container corev1.Container, node *corev1.Node) *Module {
	if resolved, err := workload.Resolve(pod, container, unread); err == nil {
		container = resolved
	}
	m := workload.Of(&pod.ObjectMeta, container)
	out := &Module{
		ObjectMeta: metav1.ObjectMeta{
			Name:      nameOf(pod, container.Name),
			Namespace: pod.Namespace,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
			}},
		},
		Spec: Spec{Module: ModuleSpec{Name: m.Name, Version: m.Version, URL: m.URL}},
		Status: Status{
			PodName: pod.Name, NodeName: pod.Spec.NodeName, BaseIP: pod.Status.PodIP, BaseName: hostName(node),
		},
	}
	out.SetGroupVersionKind(kind)
	out.Labels = map[string]string{}
	for key, value := range map[string]string{
		labels.BaseIP: out.Status.BaseIP, labels.BaseInstance: out.Status.BaseName, labels.ModuleName: m.Name, labels.ModuleVersion: m.Version,
	} {
		if value != "" && len(validation.IsValidLabelValue(value)) == 0 { // an IPv6 address is none
			out.Labels[key] = value
		}
	}
	setState(&out.Status, pod, container.Name)
	return out
}

// errUnread is why a version that stands in a ConfigMap is not known before it is installed.
var errUnread = errors.New("no ConfigMap is read for the view of modules")

func unread(types.NamespacedName, string) (string, error) { return "", errUnread }

// nameOf returns the name of the Module of a container. The name of a container has no dot, so each container
// of a namespace has a unique Module name. In a long name, a hash replaces a part of the Pod name.
func nameOf(pod *corev1.Pod, container string) string {
	name := pod.Name + "." + container
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	hash := sha256.Sum256([]byte(pod.Name))
	end := fmt.Sprintf("-%x.%s", hash[:8], container)
	return strings.TrimRight(pod.Name[:validation.DNS1123SubdomainMaxLength-len(end)], "-.") + end
}

// setState sets the state of a Module and why it is in it.
func setState(s *Status, pod *corev1.Pod, container string) {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == container })
	var c corev1.ContainerStatus
	if i >= 0 {
		c = pod.Status.ContainerStatuses[i]
	}
	switch {
	case c.State.Waiting != nil:
		s.Reason, s.Message = c.State.Waiting.Reason, c.State.Waiting.Message
	case c.State.Terminated != nil:
		s.Reason, s.Message = c.State.Terminated.Reason, c.State.Terminated.Message
	case c.State.Running != nil && !c.Ready:
		s.Reason, s.Message = whyNot(pod, corev1.PodReady)
	case pod.Spec.NodeName == "":
		s.Reason, s.Message = whyNot(pod, corev1.PodScheduled)
	}
	if s.Reason == corev1.PodReasonUnschedulable {
		s.Code = string(errcode.ModuleControllerInsufficientHealthyBaseInstance)
	} else if info, ok := errcode.Lookup(leadingCode(s.Message)); ok {
		s.Code = string(info.Code)
	}

	switch {
	case pod.DeletionTimestamp != nil:
		s.Status = Terminating
	case c.State.Running != nil && c.Ready:
		s.Status = Available
	case slices.Contains(deactivated, s.Reason):
		s.Status = Deactivated
	case slices.Contains(installing, s.Reason), s.Code == string(errcode.ArkletInstallModuleExecuting),
		s.Code == string(errcode.ModuleControllerBaseInstanceInOperation):
		s.Status = Upgrading
	case slices.Contains(broken, s.Reason), s.Code != "" && c.State.Waiting != nil, pod.Status.Phase == corev1.PodFailed:
		s.Status = Failed
	default:
		s.Status = Pending
	}
}

// leadingCode returns the full error code that a message begins with, if it begins with one.
func leadingCode(message string) string {
	code, _, found := strings.Cut(message, ": ")
	if !found {
		return ""
	}
	return code
}

// whyNot returns why a condition of a Pod is not met, and nothing if it is.
func whyNot(pod *corev1.Pod, condition corev1.PodConditionType) (reason, message string) {
	for _, c := range pod.Status.Conditions {
		if c.Type == condition && c.Status != corev1.ConditionTrue {
			return c.Reason, c.Message
		}
	}
	return "", ""
}

// hostName returns the host name of a base, empty if it is not known.
func hostName(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	return node.Labels[labels.BaseHost]
}
