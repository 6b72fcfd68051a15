package moduleview

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is the API resource of Module objects.
var Resource = schema.GroupVersionResource{Group: "koupleless.io", Version: "v1alpha1", Resource: "modules"}

// kind is the API kind of Module objects.
var kind = Resource.GroupVersion().WithKind("Module")

// Module is the API object that shows the state of a module on a base.
type Module struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is the module that the container of the Pod requests.
type Spec struct {
	Module ModuleSpec `json:"module"`
}

// ModuleSpec contains the bizName, the bizVersion and the bizUrl of a module.
type ModuleSpec struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	URL     string `json:"url,omitempty"`
}

// Status is the state of the module on the base.
type Status struct {
	Status State `json:"status,omitempty"`
	// Reason and Message explain Status. They are copied from the state of the container, or from a condition of the
	// Pod.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Code is the error code; empty if there is no error.
	Code     string `json:"code,omitempty"`
	PodName  string `json:"podName,omitempty"`
	NodeName string `json:"nodeName,omitempty"`
	BaseIP   string `json:"baseIP,omitempty"`
	BaseName string `json:"baseName,omitempty"`
	// Records are the states that the base has reported, the oldest first.
	Records []Record `json:"records,omitempty"`
}

// Record is a state that the base has reported (protocol 5.2).
type Record struct {
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// ChangeTime is the time of the state change, with a precision of seconds.
	ChangeTime *metav1.Time `json:"changeTime,omitempty"`
}

// State is the state of a module, summarized in one word.
type State string

// States of a module. Where possible, the names are the same as in the Module resource of the first module
// controller.
const (
	// Pending is the state of a module whose Pod is not scheduled, or that the base has not reported yet.
	Pending State = "Pending"
	// Upgrading is the state of a module that the base is installing.
	Upgrading State = "Upgrading"
	// Available is the state of a module that is active and ready.
	Available State = "Available"
	// Deactivated is the state of a module that is not active because another version is active on the base.
	Deactivated State = "Deactivated"
	// Failed is the state of a module that could not be installed or is broken.
	Failed State = "Failed"
	// Terminating is the state of a module whose Pod is being deleted.
	Terminating State = "Terminating"
)
