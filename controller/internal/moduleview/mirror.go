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
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// desiredModule returns the Module object for a container of a Pod. node is the Node of the Pod, or nil if the Node
// is unknown.
func desiredModule(pod *corev1.Pod, container corev1.Container, node *corev1.Node) *Module {
	if resolved, err := workload.Resolve(pod, container, refuseConfigMap); err == nil {
		container = resolved
	}
	m := workload.ModuleOf(&pod.ObjectMeta, container)
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
			PodName: pod.Name, NodeName: pod.Spec.NodeName, BaseIP: pod.Status.PodIP,
		},
	}
	if node != nil {
		out.Status.BaseName = node.Labels[labels.BaseHost]
	}
	out.SetGroupVersionKind(kind)
	out.Labels = map[string]string{}
	for key, value := range map[string]string{
		labels.BaseIP: out.Status.BaseIP, labels.BaseInstance: out.Status.BaseName, labels.ModuleName: m.Name,
		labels.ModuleVersion: m.Version,
	} {
		if value != "" && len(validation.IsValidLabelValue(value)) == 0 { // for example, an IPv6 address is invalid
			out.Labels[key] = value
		}
	}
	setState(&out.Status, pod, container.Name)
	return out
}

// errNotRead is the error that refuseConfigMap returns. A Module object shows a version from a ConfigMap only after
// the version is installed.
var errNotRead = errors.New("ConfigMaps are not read for Module objects")

func refuseConfigMap(types.NamespacedName, string) (string, error) { return "", errNotRead }

// nameOf returns the name of the Module object for a container: the Pod name, a dot and the container name. Container
// names contain no dots, so the names are unique in a namespace. If the name is too long, a hash replaces a part of
// the Pod name.
func nameOf(pod *corev1.Pod, container string) string {
	name := pod.Name + "." + container
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	hash := sha256.Sum256([]byte(pod.Name))
	end := fmt.Sprintf("-%x.%s", hash[:8], container)
	return strings.TrimRight(pod.Name[:validation.DNS1123SubdomainMaxLength-len(end)], "-.") + end
}

// setState sets the fields Status, Reason, Message and Code from the status of a Pod.
func setState(s *Status, pod *corev1.Pod, container string) {
	i := slices.IndexFunc(pod.Status.ContainerStatuses,
		func(c corev1.ContainerStatus) bool { return c.Name == container })
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
		s.Reason, s.Message = conditionReason(pod, corev1.PodReady)
	case pod.Spec.NodeName == "":
		s.Reason, s.Message = conditionReason(pod, corev1.PodScheduled)
	}
	if s.Reason == corev1.PodReasonUnschedulable {
		s.Code = string(errcode.ModuleControllerInsufficientHealthyBaseInstance)
	} else if code, _, found := strings.Cut(s.Message, ": "); found {
		if info, ok := errcode.Lookup(code); ok {
			s.Code = string(info.Code)
		}
	}

	switch {
	case pod.DeletionTimestamp != nil:
		s.Status = Terminating
	case c.State.Running != nil && c.Ready:
		s.Status = Available
	case s.Reason == api.ReasonDeactivated, s.Reason == api.ReasonNotActivated:
		s.Status = Deactivated
	case s.Reason == api.ReasonResolved, s.Code == string(errcode.ArkletInstallModuleExecuting),
		s.Code == string(errcode.ModuleControllerBaseInstanceInOperation):
		s.Status = Upgrading
	case s.Reason == api.ReasonBroken, s.Code != "" && c.State.Waiting != nil, pod.Status.Phase == corev1.PodFailed:
		s.Status = Failed
	default:
		s.Status = Pending
	}
}

// conditionReason returns the reason and message of a Pod condition that is not True. Both are empty if the condition
// is True or not set.
func conditionReason(pod *corev1.Pod, condition corev1.PodConditionType) (reason, message string) {
	c := podstatus.Condition(&pod.Status, condition)
	if c == nil || c.Status == corev1.ConditionTrue {
		return "", ""
	}
	return c.Reason, c.Message
}
