// Package deploy embeds the manifests of the module controller.
//
//	*.yaml      a controller in a cluster; kustomization.yaml lists the manifests
//	board/      a read-only board in a cluster
//	outside/    the role bindings for a controller that runs outside the cluster
//	samples/    corrected examples of the Koupleless documentation; comments explain the corrections
package deploy

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// User is the Kubernetes user to which the objects returned by Objects grant the permissions of the controller.
const User = "module-controller"

// FS contains the manifests for a controller in a cluster, and the directory "outside" for a controller outside the
// cluster.
//
//go:embed *.yaml outside/*.yaml
var FS embed.FS

// Samples contains the corrected Koupleless examples as samples/NAME.yaml.
//
//go:embed samples/*.yaml
var Samples embed.FS

// Objects returns the objects for a controller that runs outside the cluster as User: the CustomResourceDefinition of
// Module, a ClusterRole, a ClusterRoleBinding, and a Role and a RoleBinding in the namespace kube-node-lease. Apply
// the objects in this order. Retry if the namespace kube-node-lease does not exist yet: a new API server creates it
// shortly after it becomes ready. The caller owns the objects. An error means that the embedded manifests are
// invalid.
func Objects() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, name := range []string{"crd.yaml", "clusterrole.yaml", "role.yaml", "outside/bindings.yaml"} {
		text, err := FS.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading manifest: %w", err)
		}
		parsed, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("parsing manifest %s: %w", name, err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

// Parse returns the objects in a YAML text with one or more documents, in document order. It omits documents that
// contain only comments. A duplicate key is an error.
func Parse(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		asJSON, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, err
		}
		if string(asJSON) == "null" {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(asJSON); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}
