package moduleview

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/koupleless/koupsandbox/controller/errcode"
)

func waitingStatus(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "biz1",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

// modulePod returns a Pod of module biz1. Without a status, the Pod is not scheduled.
func modulePod(statuses ...corev1.ContainerStatus) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u1"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "biz1", Image: "file:///m/biz1.jar", Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: "1.0.0"}},
		}}},
	}
	if len(statuses) > 0 {
		pod.Spec.NodeName = "vnode.1"
		pod.Status = corev1.PodStatus{PodIP: "198.18.0.1", ContainerStatuses: statuses}
	}
	return pod
}

func node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "vnode.1",
			Labels: map[string]string{"base.koupleless.io/host-name": "base-1"}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.1"}}},
	}
}

func TestDesiredModule(t *testing.T) {
	running := corev1.ContainerStatus{Name: "biz1", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	want := &Module{
		TypeMeta: metav1.TypeMeta{APIVersion: "koupleless.io/v1alpha1", Kind: "Module"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "p.biz1", Namespace: "default",
			Labels: map[string]string{
				"koupleless.alipay.com/base-instance-ip":   "198.18.0.1",
				"koupleless.alipay.com/base-instance-name": "base-1",
				"module.koupleless.io/name":                "biz1",
				"module.koupleless.io/version":             "1.0.0",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u1"}},
		},
		Spec:   Spec{ModuleSpec{Name: "biz1", Version: "1.0.0", URL: "file:///m/biz1.jar"}},
		Status: Status{Status: Available, PodName: "p", NodeName: "vnode.1", BaseIP: "198.18.0.1", BaseName: "base-1"},
	}
	pod := modulePod(running)
	if diff := cmp.Diff(want, desiredModule(pod, pod.Spec.Containers[0], node())); diff != "" {
		t.Errorf("Module (-want +got):\n%s", diff)
	}
}

// TestDesiredModuleHasInstalledVersion checks that the Module object shows a version from a ConfigMap after the
// version is installed.
func TestDesiredModuleHasInstalledVersion(t *testing.T) {
	for id, want := range map[string]string{"": "", "arklet://198.18.0.1:biz1:3.0.0": "3.0.0"} {
		pod := modulePod(corev1.ContainerStatus{Name: "biz1", ContainerID: id})
		pod.Spec.Containers[0].Env[0] = corev1.EnvVar{Name: "BIZ_VERSION", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "versions"}, Key: "biz1"},
		}}
		if got := desiredModule(pod, pod.Spec.Containers[0], nil); got.Spec.Module.Version != want ||
			got.Labels["module.koupleless.io/version"] != want {
			t.Errorf("container %q: version %q, labels %v", id, got.Spec.Module.Version, got.Labels)
		}
	}
}

func TestDesiredModuleOmitsInvalidLabels(t *testing.T) {
	pod := modulePod(waitingStatus("", ""))
	pod.Status.PodIP = "2001:db8::1"
	pod.Spec.Containers[0].Env[0].Value = "1.0.0+build"
	got := desiredModule(pod, pod.Spec.Containers[0], nil)
	if diff := cmp.Diff(map[string]string{"module.koupleless.io/name": "biz1"}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got.Status.BaseIP != "2001:db8::1" {
		t.Errorf("base IP %q, want 2001:db8::1", got.Status.BaseIP)
	}
}

func TestStates(t *testing.T) {
	busy := errcode.New(errcode.ArkletInstallModuleExecuting, "busy").Error()
	inOperation := errcode.New(errcode.ModuleControllerBaseInstanceInOperation, "busy").Error()
	noDatabase := errcode.New(errcode.UserInstallModuleFailed, "no database").Error()
	unreachable := modulePod(corev1.ContainerStatus{Name: "biz1",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	unreachable.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "BaseInstanceNotReady",
			Message: "ModuleController.BaseInstanceNotReady: unreachable; wait"}}
	unschedulable := modulePod()
	unschedulable.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/3 nodes are available"}}
	deleting := modulePod(waitingStatus("BizResolved", ""))
	deleting.DeletionTimestamp = &metav1.Time{}
	failed := modulePod(waitingStatus("", ""))
	failed.Status.Phase = corev1.PodFailed
	stopped := modulePod(corev1.ContainerStatus{Name: "biz1",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "STOPPED", Message: "gone"}}})

	tests := []struct {
		name string
		pod  *corev1.Pod
		want Status
	}{
		{"not scheduled", modulePod(), Status{Status: Pending}},
		{"unschedulable", unschedulable,
			Status{Status: Pending, Reason: "Unschedulable", Message: "0/3 nodes are available",
				Code: "ModuleController.InsufficientHealthyBaseInstance"}},
		{"not reported by the base", modulePod(waitingStatus("ContainerCreating", "")),
			Status{Status: Pending, Reason: "ContainerCreating"}},
		{"being installed", modulePod(waitingStatus("BizResolved", "CREATED")),
			Status{Status: Upgrading, Reason: "BizResolved", Message: "CREATED"}},
		{"being installed by another command", modulePod(waitingStatus("InstallModuleExecuting", busy)),
			Status{Status: Upgrading, Reason: "InstallModuleExecuting",
				Message: busy, Code: "Arklet.InstallModuleExecuting"}},
		{"being uninstalled by another command", modulePod(waitingStatus("BaseInstanceInOperation", inOperation)),
			Status{Status: Upgrading, Reason: "BaseInstanceInOperation",
				Message: inOperation, Code: "ModuleController.BaseInstanceInOperation"}},
		{"replaced", modulePod(waitingStatus("BizDeactivate", "newer")),
			Status{Status: Deactivated, Reason: "BizDeactivate", Message: "newer"}},
		{"kept deactivated", modulePod(waitingStatus("BizNotActivated", "older")),
			Status{Status: Deactivated, Reason: "BizNotActivated", Message: "older"}},
		{"broken", modulePod(waitingStatus("BizBroken", "INSTALL_FAILED: x")),
			Status{Status: Failed, Reason: "BizBroken", Message: "INSTALL_FAILED: x"}},
		{"failed with a code", modulePod(waitingStatus("InstallModuleFailed", noDatabase)),
			Status{Status: Failed, Reason: "InstallModuleFailed",
				Message: noDatabase, Code: "User.InstallModuleFailed"}},
		{"Pod is Failed", failed, Status{Status: Failed}},
		{"stopped on the base", stopped, Status{Status: Pending, Reason: "STOPPED", Message: "gone"}},
		{"base is unreachable", unreachable,
			Status{Status: Pending, Reason: "BaseInstanceNotReady",
				Message: "ModuleController.BaseInstanceNotReady: unreachable; wait",
				Code:    "ModuleController.BaseInstanceNotReady"}},
		{"being deleted", deleting, Status{Status: Terminating, Reason: "BizResolved"}},
		{"status of another container",
			modulePod(corev1.ContainerStatus{Name: "biz2", Ready: true,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}), Status{Status: Pending}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got Status
			setState(&got, tt.pod, "biz1")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Module (-want +got):\n%s", diff)
			}
		})
	}
}

func TestName(t *testing.T) {
	names := map[string]bool{}
	for _, container := range []string{"biz1", "biz2", strings.Repeat("c", 63)} {
		for _, pod := range []string{"p", strings.Repeat("a", 253), strings.Repeat("a.", 126) + "a",
			strings.Repeat("a-", 126) + "a", strings.Repeat("a-", 126) + "b"} {
			name := nameOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}}, container)
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || names[name] ||
				!strings.HasSuffix(name, "."+container) {
				t.Errorf("the Module of container %q of Pod %q has the name %q: %v", container, pod, name, problems)
			}
			names[name] = true
		}
	}
}
