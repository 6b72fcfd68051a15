// Package deploy holds the manifests of the module controller, so that a program can apply what a
// person applies with kubectl.
//
//	*.yaml      the controller inside a cluster, put together by kustomization.yaml
//	board/      the board inside a cluster, which only reads
//	outside/    the bindings of a controller that runs outside the cluster
//	samples/    the examples of the Koupleless documents, corrected; each says what and why
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

// User is the name that the manifests of Objects give the controller's rights to.
const User = "module-controller"

// FS holds the manifests: those of a controller inside a cluster at its root, and outside/.
//
//go:embed *.yaml outside/*.yaml
var FS embed.FS

// Samples holds the corrected examples, as samples/NAME.yaml.
//
//go:embed samples/*.yaml
var Samples embed.FS

// Objects returns what a controller needs that runs outside the cluster as User: the definition of
// Module, a ClusterRole and a ClusterRoleBinding, and in the namespace kube-node-lease a Role and a
// RoleBinding. Apply them in this order. A namespaced object bears its namespace; a fresh API
// server makes kube-node-lease only moments after it is ready, so be prepared to try again. Each
// call returns objects of its own. An error means a broken build.
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

// Parse returns the objects of a YAML text with one or more documents, in order. Documents that
// hold nothing but comments are left out. It refuses a key that stands twice in one mapping.
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
