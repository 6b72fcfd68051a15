package unsupported

import (
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/probe"
)

// rule defines whether a field is ignored. The zero value means that the field is not reported, because the
// controller or Kubernetes uses it, or because its value makes no difference for a module.
type rule struct {
	// name is the key of the field in Names. Default: the name of the field.
	name string
	// reason is the reason why the field is ignored, as a sentence without a full stop.
	reason string
	// set reports whether a value of the field is reported as ignored. It returns false for the default value of the
	// API server. If set is nil, every value that is not empty is reported.
	set func(v reflect.Value) bool
	// checkFields reports whether the table also has rules for the fields of the value. These rules apply if the value
	// itself is not reported.
	checkFields bool
}

// Reasons why fields are ignored that apply to several fields.
const (
	ofJVM      = "a module runs in the JVM of its base, with the user, the processes and the network of the base"
	ofHost     = "a module resolves names as its base does, and has the host name of its base"
	noProcess  = "a module has no process of its own"
	noCommand  = "a module has no process in which a command could run"
	mainClass  = "the main class in the jar starts the module"
	restarts   = "a module runs until it is uninstalled and never completes, so Never and OnFailure have no effect"
	noDevices  = "a base has no devices for modules"
	noMessages = "a module has no files of its own, and the status shows the message of the base"
)

// table contains a rule for every field of its types, except the inline handlers of a probe, which notHTTP checks.
var table = map[reflect.Type]map[string]rule{
	reflect.TypeFor[corev1.PodSpec](): {
		"volumes":        {checkFields: true},
		"initContainers": {reason: "a base runs no containers, so nothing runs before the module"},
		"containers":     {checkFields: true},
		"ephemeralContainers": {
			reason: "a base runs no containers, so kubectl debug has nothing to attach to"},
		"restartPolicy":                 {reason: restarts, set: isNoneOf(string(corev1.RestartPolicyAlways))},
		"terminationGracePeriodSeconds": {},
		"activeDeadlineSeconds": {
			reason: "a module runs until its Pod is deleted, and the Pod does not fail after that time"},
		"dnsPolicy":    {reason: ofHost, set: isNoneOf(string(corev1.DNSClusterFirst))},
		"nodeSelector": {},
		"serviceAccountName": {
			reason: "a module has the credentials of its base, and no token of a service account",
			set:    isNoneOf("default")},
		"serviceAccount":               {}, // the deprecated alias of serviceAccountName
		"automountServiceAccountToken": {},
		"nodeName":                     {},
		"hostNetwork":                  {reason: ofJVM},
		"hostPID":                      {reason: ofJVM},
		"hostIPC":                      {reason: ofJVM},
		"shareProcessNamespace":        {reason: ofJVM, set: isBool(true)},
		"securityContext":              {reason: ofJVM, set: isFilled},
		"imagePullSecrets":             {reason: "the base downloads the jar with its own credentials"},
		"hostname":                     {}, // DNS records of headless Services
		"subdomain":                    {},
		"affinity":                     {},
		"schedulerName":                {},
		"tolerations":                  {},
		"hostAliases":                  {reason: ofHost},
		"priorityClassName":            {},
		"priority":                     {},
		"dnsConfig":                    {reason: ofHost},
		"readinessGates":               {},
		"runtimeClassName":             {reason: ofJVM},
		"enableServiceLinks":           {},
		"preemptionPolicy":             {},
		"overhead":                     {},
		"topologySpreadConstraints":    {},
		"setHostnameAsFQDN":            {reason: ofHost, set: isBool(true)},
		"os":                           {},
		"hostUsers":                    {reason: ofJVM, set: isBool(false)},
		"schedulingGates":              {},
		"resourceClaims":               {reason: noDevices},
		"resources":                    {checkFields: true},
		"hostnameOverride":             {reason: ofHost},
		"schedulingGroup":              {},
		"evictionResponders":           {},
	},
	reflect.TypeFor[corev1.Container](): {
		"name":               {},
		"image":              {},
		"command":            {reason: mainClass},
		"args":               {reason: mainClass},
		"workingDir":         {reason: noProcess},
		"ports":              {},
		"envFrom":            {reason: "a module sees the environment of its base"},
		"env":                {checkFields: true},
		"resources":          {checkFields: true},
		"resizePolicy":       {},
		"restartPolicy":      {reason: restarts, set: isNoneOf(string(corev1.ContainerRestartPolicyAlways))},
		"restartPolicyRules": {reason: restarts},
		"volumeMounts":       {}, // volumes are reported
		"volumeDevices":      {},
		"livenessProbe": {checkFields: true,
			reason: "the base reports whether a module is running; in addition, only httpGet is supported",
			set:    notHTTP},
		"readinessProbe": {checkFields: true,
			reason: "the base reports whether a module is ready; in addition, only httpGet is supported",
			set:    notHTTP},
		"startupProbe":             {reason: "the base reports when a module has started"},
		"lifecycle":                {checkFields: true},
		"terminationMessagePath":   {reason: noMessages, set: isNoneOf(corev1.TerminationMessagePathDefault)},
		"terminationMessagePolicy": {reason: noMessages, set: isNoneOf(string(corev1.TerminationMessageReadFile))},
		"imagePullPolicy": {reason: "the base downloads the jar whenever it installs a module",
			set: isNoneOf(string(corev1.PullIfNotPresent))},
		"securityContext": {reason: ofJVM, set: isFilled},
		"stdin":           {reason: noProcess},
		"stdinOnce":       {reason: noProcess},
		"tty":             {reason: noProcess},
	},
	reflect.TypeFor[corev1.Probe](): {
		"initialDelaySeconds": {},
		"timeoutSeconds": {name: "probe.timeoutSeconds",
			reason: "a probe waits for an answer for at most " + probe.MaxTimeout.String(),
			set: func(v reflect.Value) bool {
				return time.Duration(v.Int())*time.Second > probe.MaxTimeout
			}},
		"periodSeconds":    {},
		"successThreshold": {},
		"failureThreshold": {},
		"terminationGracePeriodSeconds": {name: "probe.terminationGracePeriodSeconds",
			reason: "a module that fails its liveness probe is uninstalled without a grace period"},
	},
	reflect.TypeFor[corev1.Lifecycle](): {
		"postStart": {reason: noCommand},
		"preStop": {checkFields: true, reason: noCommand + "; only sleep is supported",
			set: func(v reflect.Value) bool {
				return v.Interface().(*corev1.LifecycleHandler).Sleep == nil
			}},
		"stopSignal": {reason: noProcess},
	},
	reflect.TypeFor[corev1.ResourceRequirements](): {
		"requests": {},
		"limits": {reason: "a base does not limit the resources of single modules", set: func(v reflect.Value) bool {
			for name := range v.Interface().(corev1.ResourceList) {
				if !strings.Contains(string(name), "/") { // the scheduler uses limits of extended resources
					return true
				}
			}
			return false
		}},
		"claims": {name: "resourceClaims", reason: noDevices},
	},
}

// Names maps each field name that Of and OfPod can return to the reason why the field is ignored. The module
// resource reference lists these names.
var Names = names()

func names() map[string]string {
	all := map[string]string{
		sidecars: "a base runs modules only; the status shows the container as running, so that it does not keep " +
			"the Pod from being Ready",
		volumes: "a module sees the files of its base and no others, and nothing checks whether a ConfigMap or " +
			"a Secret exists",
		claim:     "a module does not see the volume, and the scheduler keeps the Pod Pending until the claim is bound",
		templates: "a module does not see the volumes, and the scheduler keeps a Pod Pending until its claim is bound",
		env:       "a module sees the environment of its base; only the variable with its version is read",
		job:       "a module never completes, so a Job never ends, and a CronJob creates Pods that never end",
	}
	for _, rules := range table {
		for field, r := range rules {
			if r.reason != "" {
				all[r.fieldName(field)] = r.reason
			}
		}
	}
	return all
}

// Keys in Names of fields that are not in the table.
const (
	sidecars  = "sidecars"
	volumes   = "volumes"
	claim     = "persistentVolumeClaim"
	templates = "volumeClaimTemplates"
	env       = "env"
	job       = "job"
)

// Job is the entry for Pods that a Job owns, and for Job and CronJob objects, which never complete.
// VolumeClaimTemplates is the entry for spec.volumeClaimTemplates of a StatefulSet.
var (
	Job                  = Field{Name: job, Path: "kind", Why: Names[job]}
	VolumeClaimTemplates = Field{Name: templates, Path: "spec.volumeClaimTemplates", Why: Names[templates]}
)

// fieldName returns the key of a field in Names.
func (r rule) fieldName(field string) string {
	if r.name != "" {
		return r.name
	}
	return field
}

// matches reports whether a value of a field is reported as ignored.
func (r rule) matches(v reflect.Value) bool {
	return r.reason != "" && !isEmpty(v) && (r.set == nil || r.set(v))
}

// isEmpty reports whether a value is an empty list or map, a nil pointer or a zero value.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Pointer:
		return v.IsNil()
	default:
		return v.IsZero()
	}
}

// isNoneOf returns a function for rule.set that returns true for every string that is not one of the defaults.
func isNoneOf(defaults ...string) func(reflect.Value) bool {
	return func(v reflect.Value) bool { return !slices.Contains(defaults, reflect.Indirect(v).String()) }
}

// isBool returns a function for rule.set that returns true for a pointer to value.
func isBool(value bool) func(reflect.Value) bool {
	return func(v reflect.Value) bool { return reflect.Indirect(v).Bool() == value }
}

// isFilled is a function for rule.set that returns true for a structure in which any field is set. It ignores empty
// structures, because the API server adds them.
func isFilled(v reflect.Value) bool { return !reflect.Indirect(v).IsZero() }

// notHTTP is a function for rule.set that returns true for a probe without httpGet.
func notHTTP(v reflect.Value) bool { return v.Interface().(*corev1.Probe).HTTPGet == nil }
