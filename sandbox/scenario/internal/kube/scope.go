package kube

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// clusterScoped are the kinds of Kubernetes that have no namespace, by their groups.
var clusterScoped = map[string][]string{
	"":                             {"Namespace", "Node", "PersistentVolume"},
	"admissionregistration.k8s.io": {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"},
	"apiextensions.k8s.io":         {"CustomResourceDefinition"},
	"apiregistration.k8s.io":       {"APIService"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"networking.k8s.io":            {"IPAddress", "IngressClass", "ServiceCIDR"},
	"node.k8s.io":                  {"RuntimeClass"},
	"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io":               {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"},
}

// ClusterScoped reports whether a kind of Kubernetes itself has no namespace. It does not know custom resources.
func ClusterScoped(k schema.GroupKind) bool { return slices.Contains(clusterScoped[k.Group], k.Kind) }

// Outside returns why a run must not create an object, as a sentence with its fix, or "". A run creates
// objects in its namespace, and cluster-scoped objects whose names begin with its namespace, which no
// other run has.
func Outside(o *unstructured.Unstructured, isClusterScoped bool, namespace string) string {
	name := strings.TrimSpace(o.GetKind() + " " + o.GetName())
	switch own := o.GetNamespace(); {
	case own != "" && own != namespace:
		return fmt.Sprintf("%s belongs to namespace %s, but a run creates objects only in its own namespace, which is deleted at its end: remove metadata.namespace",
			name, own)
	case isClusterScoped && !strings.HasPrefix(o.GetName(), namespace+"-"):
		return fmt.Sprintf("%s is cluster-scoped, so other runs would share it: begin its name with ${{ run.namespace }}-, and the run deletes it at its end",
			name)
	}
	return ""
}
