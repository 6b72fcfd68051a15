package unsupported

import (
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/probe"
)

// use classifies a field of a Pod by the component that uses it.
type use int

const (
	// supported: the controller implements the field.
	supported use = iota + 1
	// kubernetes: only the API server, the scheduler and other controllers use the field, as for any Pod.
	kubernetes
	// neutral: a module behaves the same whatever the value is, or another field is reported instead.
	neutral
	// ignored: nothing uses the field.
	ignored
	// partly: some values are supported, and set reports the others.
	partly
	// parts: the fields of the value are in the table too.
	parts
)

// rule is the treatment of a field.
type rule struct {
	use use
	// name is the key in Names; empty means the name of the field.
	name string
	// why is the reason that an ignored value has no effect, in a sentence without a full stop.
	why string
	// set reports whether a value asks for something that is ignored. A value that the API server sets
	// by default does not. Nil: every value that is not empty does.
	set func(o Options, v reflect.Value) bool
}

// The reasons that several fields have in common.
const (
	ofJVM      = "a module runs in the JVM of its base, with the user, the processes and the network of the base"
	ofHost     = "a module resolves names as its base does, and has the host name of its base"
	noProcess  = "a module has no process of its own"
	noCommand  = "a module has no process that a command could run in"
	mainClass  = "a module starts by the main class of its jar"
	restarts   = "a module runs until it is uninstalled and never completes, so Never and OnFailure have no effect"
	noDevices  = "a base has no devices for modules"
	noMessages = "a module has no files of its own, and the status shows the message of the base"
)

// table has a rule for every field of its types. The handlers of a probe are inline fields, which notHTTP
// checks.
var table = map[reflect.Type]map[string]rule{
	reflect.TypeFor[corev1.PodSpec](): {
		"volumes":                       {use: parts},
		"initContainers":                {use: ignored, why: "a base runs no containers, so nothing runs before the module"},
		"containers":                    {use: parts},
		"ephemeralContainers":           {use: ignored, why: "a base runs no containers, so kubectl debug has nothing to attach to"},
		"restartPolicy":                 {use: ignored, why: restarts, set: not(string(corev1.RestartPolicyAlways))},
		"terminationGracePeriodSeconds": {use: supported},
		"activeDeadlineSeconds":         {use: ignored, why: "a module runs until its Pod is deleted, and the Pod does not fail after that time"},
		"dnsPolicy":                     {use: ignored, why: ofHost, set: not(string(corev1.DNSClusterFirst))},
		"nodeSelector":                  {use: kubernetes},
		"serviceAccountName":            {use: ignored, why: "a module has the credentials of its base, and no token of a service account", set: not("default")},
		"serviceAccount":                {use: neutral}, // a copy of serviceAccountName
		"automountServiceAccountToken":  {use: neutral},
		"nodeName":                      {use: kubernetes},
		"hostNetwork":                   {use: ignored, why: ofJVM},
		"hostPID":                       {use: ignored, why: ofJVM},
		"hostIPC":                       {use: ignored, why: ofJVM},
		"shareProcessNamespace":         {use: ignored, why: ofJVM, set: is(true)},
		"securityContext":               {use: ignored, why: ofJVM, set: filled},
		"imagePullSecrets":              {use: ignored, why: "the base downloads the jar with its own credentials"},
		"hostname":                      {use: kubernetes}, // DNS records of headless Services
		"subdomain":                     {use: kubernetes},
		"affinity":                      {use: kubernetes},
		"schedulerName":                 {use: kubernetes},
		"tolerations":                   {use: kubernetes},
		"hostAliases":                   {use: ignored, why: ofHost},
		"priorityClassName":             {use: kubernetes},
		"priority":                      {use: kubernetes},
		"dnsConfig":                     {use: ignored, why: ofHost},
		"readinessGates":                {use: supported},
		"runtimeClassName":              {use: ignored, why: ofJVM},
		"enableServiceLinks":            {use: neutral},
		"preemptionPolicy":              {use: kubernetes},
		"overhead":                      {use: kubernetes},
		"topologySpreadConstraints":     {use: kubernetes},
		"setHostnameAsFQDN":             {use: ignored, why: ofHost, set: is(true)},
		"os":                            {use: kubernetes},
		"hostUsers":                     {use: ignored, why: ofJVM, set: is(false)},
		"schedulingGates":               {use: kubernetes},
		"resourceClaims":                {use: ignored, why: noDevices},
		"resources":                     {use: parts},
		"hostnameOverride":              {use: ignored, why: ofHost},
		"workloadRef":                   {use: kubernetes},
	},
	reflect.TypeFor[corev1.Container](): {
		"name":                     {use: supported},
		"image":                    {use: supported},
		"command":                  {use: ignored, why: mainClass},
		"args":                     {use: ignored, why: mainClass},
		"workingDir":               {use: ignored, why: noProcess},
		"ports":                    {use: kubernetes},
		"envFrom":                  {use: ignored, why: "a module sees the environment of its base"},
		"env":                      {use: parts},
		"resources":                {use: parts},
		"resizePolicy":             {use: neutral},
		"restartPolicy":            {use: ignored, why: restarts, set: not(string(corev1.ContainerRestartPolicyAlways))},
		"restartPolicyRules":       {use: ignored, why: restarts},
		"volumeMounts":             {use: neutral}, // volumes are reported
		"volumeDevices":            {use: neutral},
		"livenessProbe":            {use: partly, why: "the base itself reports whether a module is alive; in addition, only httpGet is supported", set: notHTTP},
		"readinessProbe":           {use: partly, why: "the base itself reports whether a module is ready; in addition, only httpGet is supported", set: notHTTP},
		"startupProbe":             {use: ignored, why: "the base itself reports when a module has started"},
		"lifecycle":                {use: parts},
		"terminationMessagePath":   {use: ignored, why: noMessages, set: not(corev1.TerminationMessagePathDefault)},
		"terminationMessagePolicy": {use: ignored, why: noMessages, set: not(string(corev1.TerminationMessageReadFile))},
		"imagePullPolicy":          {use: ignored, why: "the base downloads the jar whenever it installs a module", set: not(string(corev1.PullIfNotPresent))},
		"securityContext":          {use: ignored, why: ofJVM, set: filled},
		"stdin":                    {use: ignored, why: noProcess},
		"stdinOnce":                {use: ignored, why: noProcess},
		"tty":                      {use: ignored, why: noProcess},
	},
	reflect.TypeFor[corev1.Probe](): {
		"initialDelaySeconds": {use: supported},
		"timeoutSeconds": {use: ignored, name: "probe.timeoutSeconds", why: "a probe waits for an answer for at most " + probe.MaxTimeout.String(), set: func(_ Options, v reflect.Value) bool {
			return time.Duration(v.Int())*time.Second > probe.MaxTimeout
		}},
		"periodSeconds":                 {use: supported},
		"successThreshold":              {use: supported},
		"failureThreshold":              {use: supported},
		"terminationGracePeriodSeconds": {use: ignored, name: "probe.terminationGracePeriodSeconds", why: "a module that fails its liveness probe is uninstalled without a grace period"},
	},
	reflect.TypeFor[corev1.Lifecycle](): {
		"postStart": {use: ignored, why: noCommand},
		"preStop": {use: partly, why: noCommand + "; only sleep is supported", set: func(o Options, v reflect.Value) bool {
			return !o.PreStopSleep || v.Interface().(*corev1.LifecycleHandler).Sleep == nil
		}},
		"stopSignal": {use: ignored, why: noProcess},
	},
	reflect.TypeFor[corev1.ResourceRequirements](): {
		"requests": {use: kubernetes},
		"limits": {use: ignored, why: "a base does not limit the resources of single modules", set: func(_ Options, v reflect.Value) bool {
			for name := range v.Interface().(corev1.ResourceList) {
				if !strings.Contains(string(name), "/") { // the scheduler uses limits of extended resources
					return true
				}
			}
			return false
		}},
		"claims": {use: ignored, name: "resourceClaims", why: noDevices},
	},
}

// Names are the names of all fields that Of can return, with the reason that each is ignored. The reference
// of modules lists them.
var Names = names()

func names() map[string]string {
	all := map[string]string{
		sidecars:  "a base runs modules only; the status shows the container as running, so that it does not keep the Pod from being Ready",
		volumes:   "a module sees the files of its base and no others, and nothing checks whether a ConfigMap or a Secret exists",
		claim:     "a module does not see the volume, and the scheduler keeps the Pod Pending until the claim is bound",
		templates: "a module does not see the volumes, and the scheduler keeps a Pod Pending until its claim is bound",
		env:       "a module sees the environment of its base; only the variable with its version is read",
		job:       "a module never completes, so a Job never ends, and a CronJob creates more and more Pods",
	}
	for _, rules := range table {
		for field, r := range rules {
			if r.why != "" {
				all[r.called(field)] = r.why
			}
		}
	}
	return all
}

// Names for fields that are not in the table.
const (
	sidecars  = "sidecars"
	volumes   = "volumes"
	claim     = "persistentVolumeClaim"
	templates = "volumeClaimTemplates"
	env       = "env"
	job       = "job"
)

// Job is reported for a Pod whose controller is a Job, and for the kind of a Job or CronJob itself.
// VolumeClaimTemplates is spec.volumeClaimTemplates of a StatefulSet.
var (
	Job                  = Field{Name: job, Path: "kind", Why: Names[job]}
	VolumeClaimTemplates = Field{Name: templates, Path: "spec.volumeClaimTemplates", Why: Names[templates]}
)

func (r rule) called(field string) string {
	if r.name != "" {
		return r.name
	}
	return field
}

// reports reports whether a value must be reported as ignored.
func (r rule) reports(o Options, v reflect.Value) bool {
	switch {
	case r.use != ignored && r.use != partly, isEmpty(v):
		return false
	case r.set != nil:
		return r.set(o, v)
	}
	return true
}

// isEmpty reports whether nothing is set.
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

// not returns a set function that reports every text except the defaults.
func not(defaults ...string) func(Options, reflect.Value) bool {
	return func(_ Options, v reflect.Value) bool { return !slices.Contains(defaults, reflect.Indirect(v).String()) }
}

// is returns a set function that reports a pointer to the value.
func is(value bool) func(Options, reflect.Value) bool {
	return func(_ Options, v reflect.Value) bool { return reflect.Indirect(v).Bool() == value }
}

// filled is a set function that reports a structure with any field set: the API server adds empty ones.
func filled(_ Options, v reflect.Value) bool { return !reflect.Indirect(v).IsZero() }

func notHTTP(o Options, v reflect.Value) bool {
	return !o.HTTPProbes || v.Interface().(*corev1.Probe).HTTPGet == nil
}
