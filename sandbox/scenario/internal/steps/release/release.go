// Package release executes the step release.
package release

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec releases a version of a module and waits until the run has observed the change.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Release) (string, error) {
	return e.Change(ctx, a.Ref(), v1alpha1.ReleaseCheck{},
		func(t steps.ObjectRef, o *unstructured.Unstructured) (*unstructured.Unstructured, string, error) {
			operations, module, err := plan(o, a.Module, a.Version)
			if err != nil {
				return nil, "", steps.Fail("%s: %v", t, err)
			}
			written, err := e.Kube.Patch(ctx, t.Type, t.Namespace, t.Name, "json", operations)
			return written, fmt.Sprintf("released %s %s in %s", module, a.Version, t), err
		})
}

// operation is one operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value"`
}

func replace(path, from, to string) []operation {
	return []operation{{"test", path, from}, {"replace", path, to}}
}

// plan returns the JSON patch that changes a workload to another version of a module, and the name of the module.
func plan(o *unstructured.Unstructured, name, version string) ([]operation, string, error) {
	root, content := "", o.Object
	if o.GetKind() != "Pod" {
		root = "/spec/template"
		inner, found, err := unstructured.NestedMap(o.Object, "spec", "template")
		if err != nil || !found {
			return nil, "", fmt.Errorf("spec.template contains no Pod template; use a patch step")
		}
		content = inner
	}
	var template corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &template); err != nil {
		return nil, "", fmt.Errorf("decoding the Pod template: %w", err)
	}
	i, err := container(template.Spec, name)
	if err != nil {
		return nil, "", err
	}
	c := template.Spec.Containers[i]
	present, err := workload.Version(&template.ObjectMeta, c)
	switch {
	case err != nil:
		return nil, "", err
	case present == "":
		return nil, "", fmt.Errorf("container %q does not set %s", c.Name, labels.VersionEnv)
	case present == version:
		return nil, "", fmt.Errorf("module %q already has version %s; release another version", c.Name, version)
	}
	image := replaceVersion(c.Image, present, version)
	if image == c.Image {
		return nil, "", fmt.Errorf(
			"image %q of container %q does not contain the version %s; change both with a patch step", c.Image,
			c.Name, present)
	}
	at := fmt.Sprintf("%s/spec/containers/%d", root, i)
	path, err := versionPath(root, at, c)
	if err != nil {
		return nil, "", err
	}
	return append(replace(at+"/image", c.Image, image), replace(path, present, version)...), c.Name, nil
}

// container returns the index of the container with the given module name. An empty name means the only module.
func container(spec corev1.PodSpec, name string) (int, error) {
	modules, _ := workload.Modules(spec)
	var names []string
	for _, m := range modules {
		names = append(names, m.Name)
	}
	known := strings.Join(names, ", ")
	switch {
	case name == "" && len(names) > 1:
		return 0, fmt.Errorf("the Pod has several modules; set module to one of: %s", known)
	case name == "" && len(names) == 1:
		name = names[0]
	case !slices.Contains(names, name):
		return 0, fmt.Errorf("unknown module %q; available: %s", name, known)
	}
	return slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name }), nil
}

// versionPath returns the JSON patch path of the value that determines the version of a container. This is the value
// of BIZ_VERSION, or of a label or annotation of the Pod template. at is the path of the container, and root is the
// path of the Pod template.
func versionPath(root, at string, c corev1.Container) (string, error) {
	i := len(c.Env) - 1
	for c.Env[i].Name != labels.VersionEnv {
		i--
	}
	v := c.Env[i]
	if v.ValueFrom == nil && !strings.Contains(v.Value, "$") {
		return fmt.Sprintf("%s/env/%d/value", at, i), nil
	}
	if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil {
		kind, key, isMap := strings.Cut(strings.TrimSuffix(v.ValueFrom.FieldRef.FieldPath, "']"), "['")
		if isMap {
			return root + "/" + strings.ReplaceAll(kind, ".", "/") + "/" +
				strings.NewReplacer("~", "~0", "/", "~1").Replace(key), nil
		}
	}
	return "", fmt.Errorf("container %q sets %s with valueFrom or a $(VAR) reference; change the referenced value "+
		"with a patch step", c.Name, labels.VersionEnv)
}

var (
	wordBegins = regexp.MustCompile(`(^|[^\pL\pN.])$`)
	wordEnds   = regexp.MustCompile(`^($|[^\pL\pN.]|\.\pL)`)
)

// replaceVersion replaces every occurrence of a version that is a whole word in the path or the query of a URL.
func replaceVersion(url, from, to string) string {
	host := 0
	if scheme := strings.Index(url, "://"); scheme >= 0 {
		host = scheme + len("://")
	}
	path := host + strings.Index(url[host:], "/") + 1
	parts := strings.Split(url[path:], from)
	replaced, before := url[:path]+parts[0], parts[0]
	for _, after := range parts[1:] {
		version := from
		if wordBegins.MatchString(before) && wordEnds.MatchString(after) {
			version = to
		}
		replaced += version + after
		before = from + after
	}
	return replaced
}
