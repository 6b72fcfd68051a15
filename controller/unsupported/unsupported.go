// Package unsupported finds the fields of a Pod that have no effect on a base. A module is not a container, but a set
// of classes in the JVM of its base. The controller reports the fields in an Event of the Pod, and koupsandbox lint
// reports them as a finding. The functions are pure.
package unsupported

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/workload"
)

// Field describes a field of a Pod spec that is ignored on a base.
type Field struct {
	// Name is the short name of the field, such as startupProbe or preStop. It is a key of Names.
	Name string
	// Path is the path of the field, for example spec.containers[0].startupProbe.
	Path string
	// Why is the reason why the field is ignored, as a sentence without a full stop.
	Why string
}

// Of returns the ignored fields of a Pod spec, in the order of the spec. It omits fields with the default values of
// Kubernetes, and fields that only Kubernetes uses, such as ports and requests.
func Of(spec corev1.PodSpec) []Field {
	w := walker{sidecars: map[string]bool{}}
	_, others := workload.Modules(spec)
	for _, c := range others {
		w.sidecars[c.Name] = true
	}
	w.walkFields(reflect.ValueOf(spec), "spec")
	return w.found
}

// OfPod returns the ignored fields of a Pod: the fields of its spec, and Job if a Job created it. It omits resource
// limits that a LimitRange has set.
func OfPod(pod *corev1.Pod) []Field {
	fields := Of(pod.Spec)
	if strings.Contains(pod.Annotations["kubernetes.io/limit-ranger"], " limit for ") {
		fields = slices.DeleteFunc(fields, func(f Field) bool { return f.Name == "limits" })
	}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Job" {
		fields = append(fields, Job)
	}
	return fields
}

// walker collects the ignored fields of one Pod spec.
type walker struct {
	sidecars map[string]bool
	version  map[string]bool // variables that the version of the current container depends on
	found    []Field
}

func (w *walker) add(name, path string) {
	w.found = append(w.found, Field{Name: name, Path: path, Why: Names[name]})
}

// addOnce adds a field, unless a field of the same name has already been added for another element of the same list.
func (w *walker) addOnce(name, path string) {
	list := path
	if i := strings.LastIndexByte(path, '['); i >= 0 {
		list = path[:i]
	}
	if !slices.ContainsFunc(w.found, func(f Field) bool { return f.Name == name && strings.HasPrefix(f.Path, list) }) {
		w.add(name, path)
	}
}

// walkFields adds the ignored fields of a structure.
func (w *walker) walkFields(v reflect.Value, path string) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		r, at := table[v.Type()][name], path+"."+name
		switch {
		case r.matches(v.Field(i)):
			w.add(r.fieldName(name), at)
		case r.checkFields:
			w.walkParts(v.Field(i), at)
		}
	}
}

// walkParts adds the ignored fields of a structure, or of a list of structures.
func (w *walker) walkParts(v reflect.Value, path string) {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return
	case v.Kind() == reflect.Pointer:
		w.walkParts(v.Elem(), path)
		return
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			w.walkParts(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
		return
	}
	switch x := v.Interface().(type) {
	case corev1.EnvVar:
		if !w.version[x.Name] {
			w.addOnce(env, path)
		}
	case corev1.Volume:
		switch {
		case x.PersistentVolumeClaim != nil || x.Ephemeral != nil: // which creates a claim
			w.addOnce(claim, path)
		case !strings.HasPrefix(x.Name, "kube-api-access-"): // these are added to every Pod
			w.addOnce(volumes, "spec.volumes")
		}
	case corev1.Container:
		if w.sidecars[x.Name] {
			w.add(sidecars, path)
			return
		}
		w.version = workload.VersionVariables(x)
		w.walkFields(v, path)
	default:
		w.walkFields(v, path)
	}
}

// List joins the names of fields without duplicates, such as "startupProbe, preStop".
func List(fields []Field) string {
	var names []string
	for _, f := range fields {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, ", ")
}
