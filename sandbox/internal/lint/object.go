package lint

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

// object is one object of a file.
type object struct {
	file string
	doc  *strictyaml.Document
	root string // path of the object in its document, for items of a List
	kind string
	meta metav1.ObjectMeta
}

func (o *object) title() string {
	return strings.TrimSuffix(o.kind+"/"+cmp.Or(o.meta.Name, o.meta.GenerateName), "/")
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
	// template of the Pods; at is the path of their metadata and spec, empty for a
	// Pod itself.
	template corev1.PodTemplateSpec
	at       string
	selector *metav1.LabelSelector

	deployment  *appsv1.Deployment
	daemonSet   *appsv1.DaemonSet
	statefulSet *appsv1.StatefulSet
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
	corev1.Service
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
		l.findings = append(l.findings, Finding{Rule: "yaml", Level: Error, File: input.Name, Line: p.Line, Message: strings.TrimPrefix(p.Field+": "+p.Detail, ": ")})
	}
}

// one reads one object, or the items of a List.
func (l *linter) one(file string, doc *strictyaml.Document, root string, content map[string]any) {
	o := object{file: file, doc: doc, root: root}
	o.kind, _ = content["kind"].(string)
	if items, ok := content["items"].([]any); ok && strings.HasSuffix(o.kind, "List") {
		for i, item := range items {
			if item, ok := item.(map[string]any); ok {
				l.one(file, doc, "items["+itoa(i)+"]", item)
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

// typed reads the kinds that modules are made of.
func (l *linter) typed(o object, text []byte) error {
	w := &workload{object: o, at: "spec.template"}
	keep := func(err error, meta metav1.ObjectMeta, template corev1.PodTemplateSpec, selector *metav1.LabelSelector) error {
		w.meta, w.template, w.selector = meta, template, selector
		l.workloads = append(l.workloads, w)
		return err
	}
	switch o.kind {
	case "Service":
		s := &service{object: o}
		err := json.Unmarshal(text, &s.Service)
		s.meta = s.ObjectMeta
		l.services = append(l.services, s)
		return err
	case "Pod":
		var pod corev1.Pod
		err := json.Unmarshal(text, &pod)
		w.at = ""
		return keep(err, pod.ObjectMeta, corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}, nil)
	case "Deployment":
		w.deployment = &appsv1.Deployment{}
		err := json.Unmarshal(text, w.deployment)
		return keep(err, w.deployment.ObjectMeta, w.deployment.Spec.Template, w.deployment.Spec.Selector)
	case "DaemonSet":
		w.daemonSet = &appsv1.DaemonSet{}
		err := json.Unmarshal(text, w.daemonSet)
		return keep(err, w.daemonSet.ObjectMeta, w.daemonSet.Spec.Template, w.daemonSet.Spec.Selector)
	case "StatefulSet":
		w.statefulSet = &appsv1.StatefulSet{}
		err := json.Unmarshal(text, w.statefulSet)
		return keep(err, w.statefulSet.ObjectMeta, w.statefulSet.Spec.Template, w.statefulSet.Spec.Selector)
	case "ReplicaSet":
		var set appsv1.ReplicaSet
		err := json.Unmarshal(text, &set)
		return keep(err, set.ObjectMeta, set.Spec.Template, set.Spec.Selector)
	case "Job":
		var job batchv1.Job
		err := json.Unmarshal(text, &job)
		return keep(err, job.ObjectMeta, job.Spec.Template, job.Spec.Selector)
	}
	return nil
}

// The names that the documents give to labels, taints and variables of modules.
const (
	prefix          = "virtual-kubelet.koupleless.io/"
	olderPrefix     = "module-controller.koupleless.io/"
	versionVariable = "BIZ_VERSION"
	virtualNode     = "schedule.koupleless.io/virtual-node"
	nodeEnv         = "schedule.koupleless.io/node-env"
)

// component returns the component label of either prefix.
func component(labels map[string]string) string {
	return cmp.Or(labels[prefix+"component"], labels[olderPrefix+"component"])
}

// module tells whether the Pods are, or mean to be, modules.
func (w *workload) module() bool {
	spec := w.template.Spec
	return component(w.template.Labels) == "module" || component(w.meta.Labels) == "module-deployment" ||
		slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == virtualNode }) ||
		slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { _, set := version(c); return set })
}

// version returns the module's version of a container, and whether it gives one in
// any way. A version from elsewhere than a plain value is empty.
func version(c corev1.Container) (string, bool) {
	for _, env := range c.Env {
		if env.Name == versionVariable {
			return env.Value, env.Value != "" || env.ValueFrom != nil
		}
	}
	return "", false
}
