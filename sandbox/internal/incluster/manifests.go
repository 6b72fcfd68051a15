package incluster

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
)

const (
	// Namespace and name of the Deployment in the manifests, which is also the value of its Pods' label.
	namespace = "koupleless-system"
	name      = "module-controller"
	nameLabel = "app.kubernetes.io/name"
	// kubeletSecret is where the manifests look for the certificate with which the controller serves logs and exec.
	kubeletSecret = "module-controller-kubelet"
	// secretsAnnotation of a Pod holds a digest of the Secrets that it has read.
	secretsAnnotation = "koupsandbox/secrets"
	// brokerFolder is where the controller finds the broker's authority, in the Secret of its password.
	brokerFolder, brokerCA = "/etc/module-controller/broker", "ca.crt"
)

// resources are the files of controller/deploy/kustomization.yaml, in its order, but for the Deployment, which comes last.
var resources = []string{
	"namespace.yaml", "crd.yaml", "clusterrole.yaml", "role.yaml", "serviceaccount.yaml", "bindings.yaml", "service.yaml",
}

// manifests returns everything to apply, in order.
func manifests(o Options) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, file := range resources {
		parsed, err := parse(file)
		if err != nil {
			return nil, err
		}
		objects = append(objects, parsed...)
	}
	deployment, err := deployment(o)
	if err != nil {
		return nil, err
	}
	for _, typed := range []struct {
		kind   schema.GroupVersionKind
		object runtime.Object
	}{
		{corev1.SchemeGroupVersion.WithKind("Secret"), secret(name, map[string][]byte{
			"mqtt-username": []byte(o.Broker.Username), "mqtt-password": []byte(o.Broker.Password), brokerCA: o.Broker.CA,
		})},
		{corev1.SchemeGroupVersion.WithKind("Secret"), secret(kubeletSecret, map[string][]byte{
			corev1.TLSCertKey: o.Kubelet.Cert, corev1.TLSPrivateKeyKey: o.Kubelet.Key, "ca.crt": o.Kubelet.ClientCA,
		})},
		{appsv1.SchemeGroupVersion.WithKind("Deployment"), deployment},
	} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed.object)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", typed.kind.Kind, err)
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(typed.kind)
		unstructured.RemoveNestedField(u.Object, "status")
		objects = append(objects, u)
	}
	for _, object := range objects {
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[cluster.ManagedBy] = cluster.MarkName
		object.SetLabels(labels)
	}
	return objects, nil
}

// parse reads a file of controller/deploy.
func parse(file string) ([]*unstructured.Unstructured, error) {
	text, err := deploy.FS.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading manifest: %w", err)
	}
	objects, err := deploy.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parsing manifest %s: %w", file, err)
	}
	return objects, nil
}

func secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: data}
}

// deployment is that of the manifests, with the image and the settings of this sandbox.
func deployment(o Options) (*appsv1.Deployment, error) {
	parsed, err := parse("deployment.yaml")
	if err != nil {
		return nil, err
	}
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(parsed[0].Object, d); err != nil {
		return nil, fmt.Errorf("reading the controller's Deployment: %w", err)
	}
	d.Spec.Replicas = ptr.To(int32(o.Replicas))
	// Other Secrets are other Pods: a Pod reads them when it starts.
	d.Spec.Template.Annotations = map[string]string{secretsAnnotation: digestOf(o)}
	pod := &d.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = ptr.To[int64](5) // it needs a moment to give up its leases
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "broker", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: name, Items: []corev1.KeyToPath{{Key: brokerCA, Path: brokerCA}},
	}}})
	c := &pod.Containers[0]
	c.Image, c.ImagePullPolicy = ImageName, corev1.PullNever
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "broker", MountPath: brokerFolder, ReadOnly: true})
	c.ReadinessProbe.PeriodSeconds = 1 // somebody is waiting
	settings := map[string]string{
		"ENV":                   o.Env,
		"MQTT_BROKER":           o.Broker.Host,
		"MQTT_PORT":             o.Broker.Port,
		"MQTT_CA_PATH":          path.Join(brokerFolder, brokerCA),
		"KUBELET_PROXY_ENABLED": "true",
	}
	maps.Copy(settings, o.Settings)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		set(c, key, settings[key])
	}
	return d, nil
}

// digestOf is a digest of all that is in the Secrets.
func digestOf(o Options) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(o.Broker.Username), []byte(o.Broker.Password), o.Broker.CA, o.Kubelet.Cert, o.Kubelet.Key, o.Kubelet.ClientCA} {
		h.Write(binary.AppendUvarint(nil, uint64(len(part)))) // so that no two parts flow into one another; a hash takes everything
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// set gives a variable a value, in the place of what it had.
func set(c *corev1.Container, key, value string) {
	variable := corev1.EnvVar{Name: key, Value: value}
	if i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == key }); i >= 0 {
		c.Env[i] = variable
	} else {
		c.Env = append(c.Env, variable)
	}
}
