package lint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

// object is one Kubernetes object in an input.
type object struct {
	file             string
	doc              *strictyaml.Document
	root             string // path of the object in its document; empty unless it is an item of a List
	apiVersion, kind string
	meta             metav1.ObjectMeta
}

// title returns kind/name, or only the kind if the object has no name.
func (o *object) title() string {
	return strings.Trim(o.kind+"/"+cmp.Or(o.meta.Name, o.meta.GenerateName), "/")
}

func (o *object) line(field string) int {
	if o.root != "" {
		field = strings.TrimSuffix(o.root+"."+field, ".")
	}
	return o.doc.Line(field)
}

// workload is a Pod, or an object of any kind that contains a Pod template.
type workload struct {
	object
	// template is the Pod template. at is the path of the template in the object; it is empty for a Pod, which has no
	// template.
	template corev1.PodTemplateSpec
	at       string
	selector *metav1.LabelSelector
	// typed is the decoded object if its kind is in kinds; nil for all other kinds.
	typed any
}

func (w *workload) in(field string) string {
	if w.at == "" {
		return field
	}
	return w.at + "." + field
}

// service is an object of kind Service.
type service struct {
	object
	selector map[string]string
}

// read reads all objects in an input.
func (l *linter) read(input Input) {
	sources, problems := strictyaml.ParseAll(input.Name, input.Text)
	for _, source := range sources {
		content := map[string]any{}
		doc, more := source.Decode(&content, strictyaml.Options{})
		problems = append(problems, more...)
		if kind, apiVersion := content["kind"], content["apiVersion"]; input.Found &&
			(kind == nil || apiVersion == nil) && len(more) == 0 {
			continue
		}
		l.readObject(input.Name, doc, "", content)
	}
	for _, p := range problems {
		f := Finding{Rule: "yaml", Level: Error, File: input.Name, Line: p.Line,
			Message: strings.TrimPrefix(p.Field+": "+p.Detail, ": "), Excerpt: p.Excerpt}
		if bytes.Contains(input.Text, []byte("{{")) && !bytes.Contains(input.Text, []byte("${{")) {
			f.Fix = l.in(fixTemplate, nil)
		}
		l.findings = append(l.findings, f)
	}
}

// readObject reads one object. If the object is a List, it reads the items of the List.
func (l *linter) readObject(file string, doc *strictyaml.Document, root string, content map[string]any) {
	o := object{file: file, doc: doc, root: root}
	o.apiVersion, _ = content["apiVersion"].(string)
	o.kind, _ = content["kind"].(string)
	if of, is := strings.CutSuffix(o.kind, "List"); is && (content["items"] != nil || of == "") {
		l.items(&o, of, content["items"])
		return
	}
	if text, err := json.Marshal(content["metadata"]); err == nil {
		_ = json.Unmarshal(text, &o.meta) // literal and typed report the errors
	}
	if o.kind != "" {
		l.objects = append(l.objects, o.title())
	}
	typed, custom := l.kindOf(&o)
	if typed != nil {
		l.decodeTyped(o, typed, content)
		return
	}
	before := len(l.workloads)
	if !isPolicy(&o) {
		l.findTemplates(o, "spec", content["spec"])
		l.findTemplates(o, "template", content["template"])
	}
	if o.kind == "Kustomization" && strings.HasPrefix(o.apiVersion, "kustomize.config.k8s.io/") {
		l.find(NotChecked, &o, "", msgKustomization, nil).Fix = l.in(fixKustomization, nil)
		return
	}
	if custom && len(l.workloads) == before {
		l.opaque = append(l.opaque, &o)
		l.find(NotChecked, &o, "", msgNoPodTemplate, args{"kind": o.kind, "apiVersion": o.apiVersion}).Fix = ""
	}
}

// items reads the items of a List. An item without a kind gets the kind that the List is for, as in kubectl.
func (l *linter) items(list *object, kind string, value any) {
	items, ok := value.([]any)
	if !ok {
		l.find("shape", list, "items", msgItemsNoList, args{"kind": list.kind})
	}
	for i, item := range items {
		at := strings.TrimPrefix(fmt.Sprintf("%s.items[%d]", list.root, i), ".")
		content, ok := item.(map[string]any)
		if !ok {
			l.find("shape", &object{file: list.file, doc: list.doc, root: at, kind: list.kind}, "",
				msgItemNoObject, args{"i": i})
			continue
		}
		if content["kind"] == nil && kind != "" {
			content["kind"], content["apiVersion"] = kind, cmp.Or(content["apiVersion"], any(list.apiVersion))
		}
		l.readObject(list.file, list.doc, at, content)
	}
}

// decodeTyped decodes an object whose kind is in kinds. If some fields have the wrong type, all other fields are still
// decoded. Field names are case-sensitive, as in the API server.
func (l *linter) decodeTyped(o object, typed any, content map[string]any) {
	for _, field := range []string{"metadata", "spec"} {
		if content[field] != nil {
			content[field] = l.checkLiterals(&o, field, content[field])
		}
	}
	text, err := json.Marshal(content)
	if err != nil {
		return // a finding of the rule yaml has reported the value that is not plain data
	}
	strict, err := kjson.UnmarshalStrict(text, typed, kjson.DisallowUnknownFields)
	if err != nil && !unknown(string(text)) {
		l.addDecodeFinding(&o, err)
	}
	for _, err := range strict {
		field, is := errors.AsType[kjson.FieldError](err)
		if is && !strings.HasPrefix(field.FieldPath(), "status") { // a newer API server may write more there
			l.invalid(&o, field.FieldPath(), fixUnknownField, msgUnknownField,
				args{"kind": o.kind, "field": field.FieldPath()})
		}
	}
	w := &workload{object: o, typed: typed, at: "spec.template"}
	switch x := typed.(type) {
	case *corev1.Service:
		l.services = append(l.services, &service{o, x.Spec.Selector})
		return
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
}

// addDecodeFinding adds a finding for the field of the wrong type that the decoder's error err reports.
func (l *linter) addDecodeFinding(o *object, err error) {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		l.find("shape", o, "", msgUnreadableField,
			args{"kind": o.kind, "error": strings.TrimPrefix(err.Error(), "json: ")})
		return
	}
	l.find("shape", o, wrong.Field, msgWrongType,
		args{"field": wrong.Field, "kind": o.kind, "type": wrong.Type.Kind(), "value": wrong.Value})
}

// findTemplates finds the Pod templates in a value, at any depth. A Pod template is an object whose spec has
// containers. The depth varies because custom resources nest Pod templates differently: a CloneSet in spec.template, a
// JobSet in spec.replicatedJobs[].template.spec.template.
func (l *linter) findTemplates(o object, at string, value any) {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			l.findTemplates(o, fmt.Sprintf("%s[%d]", at, i), item)
		}
	case map[string]any:
		spec, _ := value["spec"].(map[string]any)
		if _, is := spec["containers"].([]any); !is {
			for _, key := range sortedKeys(value) {
				l.findTemplates(o, at+member(key), value[key])
			}
			return
		}
		w := &workload{object: o, at: at}
		text, err := json.Marshal(l.checkLiterals(&o, at, value))
		if err == nil {
			err = json.Unmarshal(text, &w.template)
		}
		if err != nil && !unknown(string(text)) {
			l.addDecodeFinding(&o, err)
		}
		l.workloads = append(l.workloads, w)
	}
}

// module reports whether the Pods of the workload are module Pods or look like module Pods.
func (w *workload) module() bool {
	return labels.Value(w.template.Labels, "component") == labels.Module ||
		labels.Value(w.meta.GetLabels(), "component") == labels.ModuleDeployment ||
		why.LooksLikeModule(&w.template.Spec)
}
