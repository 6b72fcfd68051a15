package kube

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var clusterScoped = strings.Fields(`
	Namespace Node PersistentVolume ClusterRole.rbac.authorization.k8s.io
	ClusterRoleBinding.rbac.authorization.k8s.io PriorityClass.scheduling.k8s.io StorageClass.storage.k8s.io
	CSIDriver.storage.k8s.io IngressClass.networking.k8s.io RuntimeClass.node.k8s.io
	CustomResourceDefinition.apiextensions.k8s.io APIService.apiregistration.k8s.io
	CertificateSigningRequest.certificates.k8s.io MutatingWebhookConfiguration.admissionregistration.k8s.io
	ValidatingWebhookConfiguration.admissionregistration.k8s.io
	ValidatingAdmissionPolicy.admissionregistration.k8s.io
	ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io
`)

// ClusterScoped reports whether a built-in kind is cluster-scoped. It sends no request to the API server.
func ClusterScoped(k schema.GroupKind) bool { return slices.Contains(clusterScoped, k.String()) }

// OutsideRun returns the reason why a run must not create an object, and how to fix the scenario. It returns "" if
// the run may create the object. A run may create objects in its own namespace, and cluster-scoped objects whose
// names start with the unique name of this namespace.
func OutsideRun(o *unstructured.Unstructured, isClusterScoped bool, namespace string) string {
	name := strings.TrimSpace(o.GetKind() + " " + o.GetName())
	switch own := o.GetNamespace(); {
	case own != "" && own != namespace:
		return fmt.Sprintf("%s is in namespace %s, but a run can create objects only in its own namespace, which is "+
			"deleted at the end of the run; remove metadata.namespace", name, own)
	case isClusterScoped && !strings.HasPrefix(o.GetName(), namespace+"-"):
		return fmt.Sprintf("%s is cluster-scoped, so other runs would share it; begin its name with "+
			"${{ run.namespace }}- (it is deleted at the end of the run)", name)
	}
	return ""
}

// MoveIntoRun removes the namespaces of the objects in a manifest file, so that Apply creates the objects in the
// namespace of the run. It returns an error if two objects differ only in their namespaces.
func MoveIntoRun(objects []*unstructured.Unstructured) (err error) {
	namespaces := map[string]string{}
	for _, o := range objects {
		key, namespace := o.GroupVersionKind().GroupKind().String()+" "+o.GetName(), o.GetNamespace()
		if other, exists := namespaces[key]; exists && other != namespace {
			err = fmt.Errorf("%s %s exists in two namespaces, %q and %q (\"\": not set), but a run creates all "+
				"objects in its own namespace; remove one of the two objects", o.GetKind(), o.GetName(),
				other, namespace)
		}
		namespaces[key] = namespace
		unstructured.RemoveNestedField(o.Object, "metadata", "namespace")
	}
	return err
}
