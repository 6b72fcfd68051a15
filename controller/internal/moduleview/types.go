package moduleview

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is where the API server serves Modules.
var Resource = schema.GroupVersionResource{Group: "koupleless.io", Version: "v1alpha1", Resource: "modules"}

// kind is the kind of a Module.
var kind = Resource.GroupVersion().WithKind("Module")

// Module is a module on a base, as the API server keeps it.
type Module struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is what the container asks for.
type Spec struct {
	Module ModuleSpec `json:"module"`
}

// ModuleSpec names a module: bizName, bizVersion and bizUrl.
type ModuleSpec struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	URL     string `json:"url,omitempty"`
}

// Status is what has become of it.
type Status struct {
	Status State `json:"status,omitempty"`
	// Reason and Message say why, as the container's state does.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Code is the full error code if there is one.
	Code     string `json:"code,omitempty"`
	PodName  string `json:"podName,omitempty"`
	NodeName string `json:"nodeName,omitempty"`
	BaseIP   string `json:"baseIP,omitempty"`
	BaseName string `json:"baseName,omitempty"`
	// Records are the states that the base has reported, oldest first.
	Records []Record `json:"records,omitempty"`
}

// Record is a state that the base has reported (protocol 5.2).
type Record struct {
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// ChangeTime is kept to the second.
	ChangeTime *metav1.Time `json:"changeTime,omitempty"`
}

// State is one word for the state of a module.
type State string

// The states. The words are those of the first generation's Module where it had one.
const (
	// Pending: not scheduled yet, or the base has not said anything of it.
	Pending State = "Pending"
	// Upgrading: the base is installing it.
	Upgrading State = "Upgrading"
	// Available: it serves.
	Available State = "Available"
	// Deactivated: another version serves on its base.
	Deactivated State = "Deactivated"
	// Failed: it could not be installed or has broken down.
	Failed State = "Failed"
	// Terminating: its Pod is being deleted.
	Terminating State = "Terminating"
)
