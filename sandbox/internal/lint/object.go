package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

// object is one object of a file.
type object struct {
	file string
	doc  *strictyaml.Document
	root string // path of the object in its document, for items of a List
	kind string
	meta metav1.Object
}

func (o *object) title() string {
	if o.meta == nil {
		return o.kind
	}
	return strings.TrimSuffix(o.kind+"/"+cmp.Or(o.meta.GetName(), o.meta.GetGenerateName()), "/")
}

// line is where a field of the object stands.
func (o *object) line(field string) int {
	if o.root != "" {
		field = strings.TrimSuffix(o.root+"."+field, ".")
	}
	return o.doc.Line(field)
}

// workload is an object that is a Pod or makes Pods.
type workload struct {
	object
	// template of the Pods; at is the path of their metadata and spec, empty for a Pod itself.
	template corev1.PodTemplateSpec
	at       string
	selector *metav1.LabelSelector

	typed any // the whole of it
}

// in is the path of a field of the template.
func (w *workload) in(field string) string {
	if w.at == "" {
		return field
	}
	return w.at + "." + field
}

// service is a Service.
type service struct {
	object
	selector map[string]string
}

// read reads all objects of a text.
func (l *linter) read(input Input) {
	sources, problems := strictyaml.ParseAll(input.Name, input.Text)
	for _, source := range sources {
		content := map[string]any{}
		doc, more := source.Decode(&content, strictyaml.Options{})
		problems = append(problems, more...)
		l.one(input.Name, doc, "", content)
	}
	for _, p := range problems {
		l.findings = append(l.findings, Finding{Rule: "yaml", Level: Error, File: input.Name, Line: p.Line, Message: strings.TrimPrefix(p.Field+": "+p.Detail, ": "), Excerpt: p.Excerpt})
	}
}

// one reads one object, or the items of a List.
func (l *linter) one(file string, doc *strictyaml.Document, root string, content map[string]any) {
	o := object{file: file, doc: doc, root: root}
	o.kind, _ = content["kind"].(string)
	if items, ok := content["items"].([]any); ok && strings.HasSuffix(o.kind, "List") {
		for i, item := range items {
			if item, ok := item.(map[string]any); ok {
				l.one(file, doc, fmt.Sprintf("items[%d]", i), item)
			}
		}
		return
	}
	text, err := json.Marshal(content)
	if err != nil {
		return // what was not plain data has been told
	}
	if err := l.typed(o, text); err != nil && !strings.Contains(string(text), "${{") {
		l.find("shape", &o, "", "it does not have the shape of a %s: %s", o.kind, strings.TrimPrefix(err.Error(), "json: "))
	}
}

// kinds are those that modules are made of, and their types.
var kinds = map[string]func() any{
	"Service":     func() any { return &corev1.Service{} },
	"Pod":         func() any { return &corev1.Pod{} },
	"Deployment":  func() any { return &appsv1.Deployment{} },
	"DaemonSet":   func() any { return &appsv1.DaemonSet{} },
	"StatefulSet": func() any { return &appsv1.StatefulSet{} },
	"ReplicaSet":  func() any { return &appsv1.ReplicaSet{} },
	"Job":         func() any { return &batchv1.Job{} },
	"CronJob":     func() any { return &batchv1.CronJob{} },
}

// typed reads the kinds that modules are made of. What can be read is kept, whatever the error is.
func (l *linter) typed(o object, text []byte) error {
	made := kinds[o.kind]
	if made == nil {
		return nil
	}
	typed := made()
	err := json.Unmarshal(text, typed)
	o.meta, _ = typed.(metav1.Object)
	w := &workload{object: o, typed: typed, at: "spec.template"}
	switch x := typed.(type) {
	case *corev1.Service:
		l.services = append(l.services, &service{o, x.Spec.Selector})
		return err
	case *corev1.Pod:
		w.at, w.template = "", corev1.PodTemplateSpec{ObjectMeta: x.ObjectMeta, Spec: x.Spec}
	case *appsv1.Deployment:
		w.template, w.selector = x.Spec.Template, x.Spec.Selector
	case *appsv1.DaemonSet:
		w.template, w.selector = x.Spec.Template, x.Spec.Selector
	case *appsv1.StatefulSet:
		w.template, w.selector = x.Spec.Template, x.Spec.Selector
	case *appsv1.ReplicaSet:
		w.template, w.selector = x.Spec.Template, x.Spec.Selector
	case *batchv1.Job:
		w.template, w.selector = x.Spec.Template, x.Spec.Selector
	case *batchv1.CronJob:
		w.at, w.template = "spec.jobTemplate.spec.template", x.Spec.JobTemplate.Spec.Template
	}
	l.workloads = append(l.workloads, w)
	if w.module() {
		l.modules = append(l.modules, w)
	}
	return err
}

// module tells whether the Pods are, or mean to be, modules.
func (w *workload) module() bool {
	spec := w.template.Spec
	return labels.Value(w.template.Labels, "component") == labels.Module || labels.Value(w.meta.GetLabels(), "component") == labels.ModuleDeployment ||
		slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == labels.TaintVirtualNode }) ||
		slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { _, set := version(c); return set })
}

// version returns the module's version of a container, and whether it gives one in any way. A
// version from elsewhere than a plain value is empty.
func version(c corev1.Container) (string, bool) {
	for _, env := range c.Env {
		if env.Name == labels.VersionEnv {
			return env.Value, env.Value != "" || env.ValueFrom != nil
		}
	}
	return "", false
}
