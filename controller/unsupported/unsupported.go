package unsupported

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Options say what a controller does for a Pod beside installing modules.
type Options struct {
	// VersionEnv is the environment variable that is read; all others are ignored.
	VersionEnv string
	// HTTPProbes says that readiness and liveness probes of type httpGet are made, PreStopSleep
	// that preStop.sleep is kept to. Default: they are ignored.
	HTTPProbes, PreStopSleep bool
}

// Controller is what the controller of this project does.
var Controller = Options{VersionEnv: "BIZ_VERSION", HTTPProbes: true, PreStopSleep: true}

// Reason is that of Events and of container states that tell of such fields.
const Reason = "Unsupported"

// Field is a field of a Pod spec that is ignored.
type Field struct {
	// Name is what people call it: startupProbe, preStop.
	Name string
	// Path is where it stands, from the spec on: spec.containers[0].startupProbe.
	Path string
	// Why says what becomes of it, in a sentence without a full stop.
	Why string
}

// Names are those of all fields that Of may return, with what becomes of each; the documents have
// them in a table.
var Names = map[string]string{
	"initContainers":      "a base runs no containers, so nothing runs before the module",
	"ephemeralContainers": "a base runs no containers, so kubectl debug has nothing to attach to",
	"startupProbe":        "the base itself says when a module has started",
	"readinessProbe":      "the base itself says whether a module serves; only httpGet can be asked beside",
	"livenessProbe":       "the base itself says whether a module lives; only httpGet can be asked beside",
	"postStart":           "a module has no process that a command could run in",
	"preStop":             "a module has no process that a command could run in; only sleep can be kept to",
	"volumes":             "a module sees the files of its base and no others, and nobody looks whether the sources are there",
	"env":                 "a module sees the environment of its base; only the variable with its version is read",
	"envFrom":             "a module sees the environment of its base",
	"command":             "a module starts by the main class of its jar",
	"args":                "a module starts by the main class of its jar",
	"restartPolicy":       "a module runs until it is uninstalled and never completes, so nothing ends with Never or OnFailure",
	"job":                 "a module never completes, so a Job never ends, and a CronJob piles up Pods",
}

// Of returns the fields of a Pod spec that are ignored, in the order of the spec. Volumes that
// Kubernetes itself adds do not count, and neither does what only describes (ports) or guides the
// scheduler (resources).
func Of(spec corev1.PodSpec, o Options) []Field {
	var fields []Field
	add := func(there bool, name, path string) {
		if there {
			fields = append(fields, Field{Name: name, Path: path, Why: Names[name]})
		}
	}
	add(len(spec.InitContainers) > 0, "initContainers", "spec.initContainers")
	add(len(spec.EphemeralContainers) > 0, "ephemeralContainers", "spec.ephemeralContainers")
	add(slices.ContainsFunc(spec.Volumes, own), "volumes", "spec.volumes")
	add(spec.RestartPolicy != "" && spec.RestartPolicy != corev1.RestartPolicyAlways, "restartPolicy", "spec.restartPolicy")
	for i, c := range spec.Containers {
		at := func(field string) string { return fmt.Sprintf("spec.containers[%d].%s", i, field) }
		add(len(c.Command) > 0, "command", at("command"))
		add(len(c.Args) > 0, "args", at("args"))
		add(len(c.EnvFrom) > 0, "envFrom", at("envFrom"))
		other := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name != o.VersionEnv })
		add(other >= 0, "env", at(fmt.Sprintf("env[%d]", other)))
		add(c.StartupProbe != nil, "startupProbe", at("startupProbe"))
		add(!o.probed(c.ReadinessProbe), "readinessProbe", at("readinessProbe"))
		add(!o.probed(c.LivenessProbe), "livenessProbe", at("livenessProbe"))
		if l := c.Lifecycle; l != nil {
			add(l.PostStart != nil, "postStart", at("lifecycle.postStart"))
			add(l.PreStop != nil && (!o.PreStopSleep || l.PreStop.Sleep == nil), "preStop", at("lifecycle.preStop"))
		}
	}
	return fields
}

// probed tells whether there is nothing to a probe that would be ignored.
func (o Options) probed(p *corev1.Probe) bool { return p == nil || o.HTTPProbes && p.HTTPGet != nil }

// own tells whether a volume is one that somebody asked for: the service account admission adds the
// others to every Pod.
func own(v corev1.Volume) bool { return !strings.HasPrefix(v.Name, "kube-api-access-") }

// Asked returns the names of the volumes that somebody asked for, which is all that Of looks at:
// for whoever keeps many Pods and has no use for the rest. None is nil.
func Asked(volumes []corev1.Volume) []corev1.Volume {
	var asked []corev1.Volume
	for _, v := range volumes {
		if own(v) {
			asked = append(asked, corev1.Volume{Name: v.Name})
		}
	}
	return asked
}

// List joins the names of fields, each once, as an Event says them: "startupProbe, preStop".
func List(fields []Field) string {
	var names []string
	for _, f := range fields {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, ", ")
}

// Job is the field of a Pod whose controller is a Job, and the kind of a Job or CronJob itself.
var Job = Field{Name: "job", Path: "kind", Why: Names["job"]}
