package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/examples"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/lint"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

// manifestsFlag is the flag for existing manifests of a module.
const manifestsFlag = "manifests"

// ownModule is a module in existing manifests.
type ownModule struct {
	examples.Manifests
	// name is the name of the module, and env the environment that its Pods tolerate; empty if the
	// Pods tolerate all environments or have no such toleration.
	name, env string
	// unknown lists the kinds in Files that a sandbox does not have. omitted lists files with only such kinds.
	unknown, omitted []string
}

// ownObject is an object in a manifest file.
type ownObject struct {
	*unstructured.Unstructured
	file string
}

// readModule reads the module from the manifests in paths, which are files and directories below dir.
func (s *commands) readModule(dir string, paths []string) (*ownModule, error) {
	m := &ownModule{}
	objects, err := s.readObjects(dir, paths, m)
	if err != nil {
		return nil, err
	}
	template, err := m.findWorkload(objects)
	if err != nil {
		return nil, err
	}
	m.readTemplate(template)
	if err := m.findService(objects, template); err != nil {
		return nil, err
	}
	for kind, name := range map[string]string{m.Kind: m.Workload, "Service": cmp.Or(m.Service, m.Workload)} {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return nil, usageError{fmt.Errorf("the name %q of the %s is invalid: %s", name, kind,
				strings.Join(problems, "; "))}
		}
	}
	return m, nil
}

var plainPath = regexp.MustCompile(`^[\w./-]+$`)

// readObjects returns the objects in the manifests, and adds their files and unknown kinds to m. It omits files that
// contain only objects of unknown kinds, such as a kustomization.yaml.
func (s *commands) readObjects(dir string, paths []string, m *ownModule) (all []ownObject, err error) {
	if slices.Contains(paths, "-") {
		return nil, usageError{fmt.Errorf("--manifests requires files, because the scenarios apply them; write the " +
			"manifests to a file")}
	}
	_, inputs, err := s.readInputs(paths)
	if err != nil {
		return nil, err
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolving the directory %q: %w", dir, err)
	}
	for _, in := range inputs {
		file, err := filepath.Abs(in.Name)
		if err != nil {
			return nil, fmt.Errorf("resolving the path %q: %w", in.Name, err)
		}
		file, err = filepath.Rel(root, file)
		if err != nil || !filepath.IsLocal(file) || !plainPath.MatchString(filepath.ToSlash(file)) {
			return nil, usageError{fmt.Errorf("manifest %q: the path must be below %s, and consist of letters, digits "+
				"and the characters _ . / -", in.Name, root)}
		}
		file = filepath.ToSlash(file)
		if slices.Contains(m.Files, file) || slices.Contains(m.omitted, file) {
			continue // already read, for example from its directory
		}
		objects, err := decodeObjects(in)
		if err != nil {
			return nil, usageError{err}
		}
		var unknown []string
		for _, o := range objects {
			if !scheme.Scheme.Recognizes(o.GroupVersionKind()) && o.GetKind() != "CustomResourceDefinition" {
				unknown = append(unknown, o.GetKind())
			}
		}
		if len(unknown) == len(objects) {
			m.omitted = append(m.omitted, file)
			continue
		}
		m.Files, m.unknown = append(m.Files, file), append(m.unknown, unknown...)
		for _, o := range objects {
			all = append(all, ownObject{o, file})
		}
	}
	return all, nil
}

func decodeObjects(in lint.Input) (objects []*unstructured.Unstructured, err error) {
	sources, problems := strictyaml.ParseAll(in.Name, in.Text)
	for _, source := range sources {
		content := map[string]any{}
		_, more := source.Decode(&content, strictyaml.Options{})
		problems = append(problems, more...)
		v1alpha1.EachObject(content, nil, func(o map[string]any, _ *field.Path) {
			objects = append(objects, &unstructured.Unstructured{Object: o})
		})
	}
	return objects, problems.Err()
}

// findWorkload sets the workload of m, and returns its Pod template.
func (m *ownModule) findWorkload(objects []ownObject) (*corev1.PodTemplateSpec, error) {
	var found []string
	var template *corev1.PodTemplateSpec
	for _, o := range objects {
		var t *corev1.PodTemplateSpec
		replicas := 3
		var err error
		switch kind := o.GroupVersionKind().GroupKind(); kind {
		case appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind():
			var d appsv1.Deployment
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d)
			t = &d.Spec.Template
			// The controller sets the replicas of a peer Deployment.
			if labels.Value(d.Labels, labels.Strategy) != labels.Peer {
				replicas = max(1, int(ptr.Deref(d.Spec.Replicas, 1)))
			}
		case appsv1.SchemeGroupVersion.WithKind("DaemonSet").GroupKind():
			var d appsv1.DaemonSet
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d)
			t = &d.Spec.Template
		default:
			continue
		}
		if err != nil {
			return nil, usageError{invalidObject(o, err)}
		}
		if labels.Value(t.Labels, labels.Component) != labels.Module {
			continue
		}
		for _, c := range t.Spec.Containers {
			if c.Name == "" {
				continue
			}
			found = append(found, fmt.Sprintf("%s of %s %s in %s", c.Name, o.GetKind(), o.GetName(), o.file))
			m.name = c.Name
		}
		m.Kind, m.Workload, m.Replicas, template = o.GetKind(), o.GetName(), replicas, t
	}
	switch {
	case len(found) == 0:
		return nil, usageError{fmt.Errorf("the manifests contain no Deployment or DaemonSet with a module (files: "+
			"%s); the Pod template must have a container and the label %s: %s",
			strings.Join(slices.Concat(m.Files, m.omitted), ", "), labels.Component, labels.Module)}
	case len(found) > 1:
		return nil, usageError{fmt.Errorf("--manifests supports one module, but the files contain %d: %s; select the "+
			"files of one module and one environment", len(found), strings.Join(found, ", "))}
	}
	return template, nil
}

func invalidObject(o ownObject, err error) error {
	return fmt.Errorf("%s %s is invalid: %w; to find the line, run: koupsandbox scenario lint %s", o.GetKind(),
		o.GetName(), err, o.file)
}

// readTemplate sets the fields of the bases on which the Pods can run, and the environment of m.
func (m *ownModule) readTemplate(t *corev1.PodTemplateSpec) {
	add := func(name, value string) { m.BaseFields = append(m.BaseFields, name+": "+value) }
	selected := map[string]string{}
	if a := t.Spec.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for _, term := range terms[:min(1, len(terms))] {
			for _, e := range term.MatchExpressions {
				if e.Operator == corev1.NodeSelectorOpIn && len(e.Values) > 0 {
					selected[e.Key] = e.Values[0]
				}
			}
		}
	}
	for key, value := range t.Spec.NodeSelector {
		selected[key] = value
	}
	if name := selected[labels.BaseName]; name != "" {
		add("baseName", strconv.Quote(name))
	}
	if version := selected[labels.BaseVersion]; version != "" {
		add("version", strconv.Quote(version))
	}
	requests := t.Spec.Containers[0].Resources
	memory, exists := requests.Requests[corev1.ResourceMemory]
	if !exists {
		memory = requests.Limits[corev1.ResourceMemory]
	}
	// During a release, a base has two versions in addition to its own classes.
	needed := resource.NewQuantity(2*memory.Value()+64<<20, resource.BinarySI)
	if needed.Cmp(resource.MustParse("256Mi")) > 0 { // the default of metaspace.max
		add("metaspace", "{max: "+needed.String()+"}")
	}
	if a := t.Spec.Affinity; a != nil && a.PodAntiAffinity != nil && m.Kind == "Deployment" {
		m.Spare = slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			func(term corev1.PodAffinityTerm) bool {
				selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
				return err == nil && selector.Matches(apilabels.Set(t.Labels)) &&
					slices.Contains([]string{corev1.LabelHostname, labels.BaseHost}, term.TopologyKey)
			})
	}
	for _, toleration := range t.Spec.Tolerations {
		if toleration.Key == labels.TaintEnv {
			m.env = toleration.Value
		}
	}
}

// findService sets the Service of m, and the port of the bases to which it sends requests.
func (m *ownModule) findService(objects []ownObject, t *corev1.PodTemplateSpec) error {
	for _, o := range objects {
		if o.GetAPIVersion() != "v1" || o.GetKind() != "Service" {
			continue
		}
		var service corev1.Service
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &service); err != nil {
			return usageError{invalidObject(o, err)}
		}
		spec := service.Spec
		if len(spec.Selector) == 0 || len(spec.Ports) == 0 ||
			!apilabels.SelectorFromSet(spec.Selector).Matches(apilabels.Set(t.Labels)) {
			continue
		}
		m.Service = service.Name
		port := spec.Ports[0].Port
		switch target := spec.Ports[0].TargetPort; {
		case target.Type == intstr.Int && target.IntVal != 0:
			port = target.IntVal
		case target.Type == intstr.String:
			ports := t.Spec.Containers[0].Ports
			i := slices.IndexFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == target.StrVal })
			if i < 0 {
				return usageError{fmt.Errorf("the Service %s has the targetPort %q, but the module %s has no port "+
					"with this name; add it to the ports of the container, or use a number", m.Service, target.StrVal,
					m.name)}
			}
			port = ports[i].ContainerPort
		}
		if port != 8080 { // the default of webPort
			m.BaseFields = append(m.BaseFields, fmt.Sprint("webPort: ", port))
		}
		return nil
	}
	return nil
}

// describe returns a description of the objects and bases that the scenarios use.
func (m *ownModule) describe() string {
	fields := append([]string{fmt.Sprint("count: ", m.Bases())}, m.BaseFields...)
	text := fmt.Sprintf("The scenarios use %s %s and these bases: {%s}.\n", m.Kind, m.Workload,
		strings.Join(fields, ", "))
	if m.Service == "" {
		text += "No Service selects its Pods, so they send requests only to the bases.\n"
	} else {
		text += "They send requests to Service " + m.Service + ".\n"
	}
	if m.Spare {
		text += fmt.Sprintf("One base is a spare, because the required anti-affinity excludes bases with an old Pod: "+
			"production needs at least %d bases.\n", m.Bases())
	}
	if len(m.omitted) > 0 {
		text += fmt.Sprintf("They omit these files, because a sandbox does not support their kinds: %s.\n",
			strings.Join(m.omitted, ", "))
	}
	if len(m.unknown) > 0 {
		text += fmt.Sprintf("A sandbox does not support these kinds: %s. Move their objects to files that are not in "+
			"--manifests, or apply their CustomResourceDefinition first.\n",
			strings.Join(slices.Compact(slices.Sorted(slices.Values(m.unknown))), ", "))
	}
	return text
}
