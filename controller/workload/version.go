package workload

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// ErrUnresolved reports that a version cannot be read yet: the version is in a ConfigMap (see Resolve), or in
// metadata that the Pod has but its template does not have.
var ErrUnresolved = errors.New("the version is not known yet")

// Causes of errors for versions that cannot be read. The errors of Version wrap them.
var (
	errExpands = fmt.Errorf("expands to more than %d bytes, the maximum for a version", arklet.MaxName)
	errNoField = errors.New("which the Pod does not have")
	errSource  = errors.New("use a plain value, a fieldRef to a label or an annotation, or a configMapKeyRef")
)

// Version returns the BIZ_VERSION of a container as a kubelet computes it: if a variable is set several times, the
// last value is used, $(NAME) is replaced by the value of a variable that precedes it, $$ is a dollar sign, and a
// reference to an unknown variable stays as it is. Version supports plain values, fieldRefs to metadata, and
// configMapKeyRefs that Resolve has replaced. The result is empty if the variable is not set. meta is the metadata of
// the Pod or template.
//
// The error has an error code. It wraps ErrUnresolved if the version cannot be known yet.
func Version(meta *metav1.ObjectMeta, container corev1.Container) (string, error) {
	return (&environment{meta: meta, container: container}).version()
}

// Source is a ConfigMap key that the version of a container refers to.
type Source struct {
	ConfigMap types.NamespacedName
	Key       string
}

// VersionSources returns the ConfigMap keys that the version of a container refers to, in the order of their use. The
// result is nil if there are none. namespace is the namespace of the Pod.
func VersionSources(namespace string, container corev1.Container) (sources []Source) {
	if !slices.ContainsFunc(container.Env,
		func(v corev1.EnvVar) bool { return v.ValueFrom != nil && v.ValueFrom.ConfigMapKeyRef != nil }) {
		return nil
	}
	e := &environment{container: container, configMap: func(name, key string) (string, error) {
		sources = append(sources, Source{types.NamespacedName{Namespace: namespace, Name: name}, key})
		return "", nil
	}}
	_, _ = e.version() // an invalid version needs no ConfigMap; Version returns the error
	return sources
}

// VersionVariables returns the names of the variables that the version of a container depends on: BIZ_VERSION, and
// the variables that BIZ_VERSION refers to.
func VersionVariables(container corev1.Container) map[string]bool {
	e := &environment{container: container, usedNames: map[string]bool{labels.VersionEnv: true},
		configMap: func(string, string) (string, error) { return "", nil }}
	_, _ = e.version()
	return e.usedNames
}

// Resolve returns a copy of a container whose version is a plain value, so that ModuleOf and Check do not need the
// ConfigMaps. It does not change a container whose version refers to no ConfigMap.
//
// value returns the value of a ConfigMap key. value must not block. For a key that does not exist, value must return
// an error with the code OtherUpstreamInvalidParameter, which Resolve ignores for an optional reference. Resolve
// returns other errors of value.
//
// Like a kubelet, Resolve uses the value at the time of the installation: an installed version in the status of the
// Pod takes precedence over the ConfigMap, which may have changed since.
func Resolve(pod *corev1.Pod, container corev1.Container,
	value func(name types.NamespacedName, key string) (string, error)) (corev1.Container, error) {
	if len(VersionSources(pod.Namespace, container)) == 0 {
		return container, nil
	}
	v := installed(pod, container.Name)
	if v == "" {
		var err error
		v, err = (&environment{meta: &pod.ObjectMeta, container: container,
			configMap: func(name, key string) (string, error) {
				return value(types.NamespacedName{Namespace: pod.Namespace, Name: name}, key)
			}}).version()
		if err != nil {
			return container, err
		}
	}
	container.Env = []corev1.EnvVar{{Name: labels.VersionEnv, Value: strings.ReplaceAll(v, "$", "$$")}}
	return container, nil
}

// installed returns the installed version of a container's module from the status of the Pod; empty if there is none.
func installed(pod *corev1.Pod, container string) string {
	for _, c := range pod.Status.ContainerStatuses {
		if v := InstalledVersion(c); v != "" && c.Name == container {
			return v
		}
	}
	return ""
}

const containerIDScheme = "arklet://"

// ContainerID returns the container ID of a module in the Pod status. ip is the IP address of the base. The format is
// arklet://<ip>:<module>:<version>. An IPv6 address is in brackets.
func ContainerID(ip, module, version string) string {
	return containerIDScheme + net.JoinHostPort(ip, module) + ":" + version
}

// InstalledVersion returns the version of a module from the container ID in a container status; empty if there is
// none.
func InstalledVersion(c corev1.ContainerStatus) string {
	id, found := strings.CutPrefix(c.ContainerID, containerIDScheme)
	if !found {
		return ""
	}
	separator := ":" + c.Name + ":"
	if strings.HasPrefix(id, "[") { // the name of the module can be equal to a part of the address
		separator = "]" + separator
	}
	_, version, _ := strings.Cut(id, separator)
	return version
}

// environment evaluates the variables that the version of one container depends on.
type environment struct {
	meta *metav1.ObjectMeta // metadata of the Pod or template; if nil, references to metadata fields are empty
	// pod is the metadata of an existing Pod that is compared with the template whose metadata is meta; nil in all
	// other cases.
	pod       *metav1.ObjectMeta
	container corev1.Container
	// configMap reads a key of a ConfigMap in the namespace of the Pod. If configMap is nil, references to ConfigMaps
	// return ErrUnresolved.
	configMap func(name, key string) (string, error)
	usedNames map[string]bool // names of the evaluated variables; may be nil

	positions map[string][]int // positions of the variables in container.Env, by name
	values    map[int]string   // evaluated values by index in container.Env
}

func (e *environment) version() (string, error) {
	e.positions, e.values = map[string][]int{}, map[int]string{}
	for i, v := range e.container.Env {
		e.positions[v.Name] = append(e.positions[v.Name], i)
	}
	v, _, err := e.lookup(labels.VersionEnv, len(e.container.Env))
	return v, err
}

// lookup returns the value of the last entry named name in container.Env[:end]. It skips entries without a value,
// see value. set is false if no entry has a value.
func (e *environment) lookup(name string, end int) (value string, set bool, err error) {
	at := e.positions[name]
	n, _ := slices.BinarySearch(at, end)
	for ; n > 0 && !set && err == nil; n-- {
		value, set, err = e.value(at[n-1])
	}
	return value, set, err
}

// value evaluates one entry of container.Env. set is false if the entry refers to an optional ConfigMap key that does
// not exist.
func (e *environment) value(i int) (value string, set bool, err error) {
	value, set = e.values[i]
	if set {
		return value, true, nil
	}
	v := e.container.Env[i]
	if e.usedNames != nil {
		e.usedNames[v.Name] = true
	}
	if v.Value == "" && v.ValueFrom != nil {
		value, err = e.sourceValue(v)
		if ref := v.ValueFrom.ConfigMapKeyRef; ref != nil && ptr.Deref(ref.Optional, false) &&
			errcode.Of(err) == errcode.OtherUpstreamInvalidParameter && e.configMap != nil {
			return "", false, nil
		}
	} else {
		value, err = e.expand(v.Value, i)
	}
	e.values[i] = value
	return value, true, err
}

// expand replaces the references in a value as Kubernetes does in env and command. It limits the length of the
// result, because the values of variables that refer to each other can grow exponentially.
func (e *environment) expand(value string, before int) (string, error) {
	var b strings.Builder
	for {
		text, rest, found := strings.Cut(value, "$")
		b.WriteString(text)
		if !found {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(strings.TrimPrefix(rest, "("), ")")
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			value = rest[1:]
		case strings.HasPrefix(rest, "(") && closed:
			v, set, err := e.lookup(name, before)
			if err != nil {
				return "", err
			}
			if !set {
				if len(e.container.EnvFrom) > 0 {
					return "", e.invalidError("refers to $(%.80s), which is not in env, and %w", name, errEnvFrom)
				}
				v = "$(" + name + ")"
			}
			b.WriteString(v)
			value = after
		default:
			b.WriteByte('$')
			value = rest
		}
		if b.Len() > arklet.MaxName {
			return "", e.invalidError("%w", errExpands)
		}
	}
}

// sourceValue returns the value of a variable with valueFrom.
func (e *environment) sourceValue(v corev1.EnvVar) (string, error) {
	from := "an unsupported source"
	switch s := v.ValueFrom; {
	case s.FieldRef != nil:
		return e.fieldValue(v.Name, s.FieldRef.FieldPath)
	case s.ConfigMapKeyRef != nil && e.configMap != nil:
		return e.configMap(s.ConfigMapKeyRef.Name, s.ConfigMapKeyRef.Key)
	case s.ConfigMapKeyRef != nil:
		return "", e.invalidError("is in key %.80q of ConfigMap %.80q: %w", s.ConfigMapKeyRef.Key,
			s.ConfigMapKeyRef.Name,
			ErrUnresolved)
	case s.SecretKeyRef != nil:
		from = "Secret " + s.SecretKeyRef.Name
	case s.ResourceFieldRef != nil:
		from = "a resourceFieldRef"
	case s.FileKeyRef != nil:
		from = "a file"
	}
	return "", e.unreadError(v.Name, from)
}

// fieldValue returns a field of the Pod's metadata. Its value can change while the Pod runs.
func (e *environment) fieldValue(variable, path string) (string, error) {
	if e.meta == nil {
		return "", nil
	}
	known := e.meta
	if e.pod != nil {
		known = e.pod
	}
	value, ofPod := "", true
	switch path {
	case "metadata.name":
		value = known.Name
	case "metadata.namespace":
		value = known.Namespace
	case "metadata.uid":
		value = string(known.UID)
	default:
		kind, key, isMap := strings.Cut(strings.TrimSuffix(path, "']"), "['")
		var from func(*metav1.ObjectMeta) map[string]string
		switch {
		case isMap && kind == "metadata.labels":
			from = (*metav1.ObjectMeta).GetLabels
		case isMap && kind == "metadata.annotations":
			from = (*metav1.ObjectMeta).GetAnnotations
		default:
			return "", e.unreadError(variable, "the field "+path)
		}
		var set bool
		value, set = from(e.meta)[key]
		if !set && e.pod != nil {
			value = from(e.pod)[key]
		}
		ofPod = slices.Contains(podLabels, key)
	}
	switch {
	case value != "":
		return value, nil
	case ofPod:
		return "", e.invalidError("refers to %.80s of the Pod: %w", path, ErrUnresolved)
	}
	return "", e.invalidError("refers to %.80s, %w", path, errNoField)
}

// podLabels contains the labels that Kubernetes controllers add to Pods but not to Pod templates.
var podLabels = []string{
	appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey, appsv1.StatefulSetPodNameLabel,
	appsv1.PodIndexLabel,
}

func (e *environment) unreadError(variable, from string) error {
	if variable == labels.VersionEnv {
		variable = "it"
	}
	return e.invalidError("cannot be read: %.80s comes from %.200s; %w", variable, from, errSource)
}

func (e *environment) invalidError(format string, args ...any) error {
	return errcode.New(errcode.OtherUpstreamInvalidParameter, labels.VersionEnv+" of container %.80q "+format,
		append([]any{e.container.Name}, args...)...)
}
