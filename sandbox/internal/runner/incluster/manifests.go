package incluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
)

const (
	// namespace and name are the namespace and the name of the Deployment in the manifests. name is also the value of
	// nameLabel on the Pods.
	namespace = "koupleless-system"
	name      = "module-controller"
	nameLabel = "app.kubernetes.io/name"
	// numberLabel is the label of a Deployment and its Pod that contains the number of the controller.
	numberLabel = "koupsandbox/controller"
	// kubeletSecret is the name of the Secret in the manifests that contains the certificate for logs and exec.
	kubeletSecret = "module-controller-kubelet"
	// revisionAnnotation is the Pod annotation that contains a digest of the settings and Secrets of the Pod.
	revisionAnnotation = "koupsandbox/revision"
	// brokerCA is the key of the broker's CA certificate in the Secret that contains the broker login.
	brokerCA = "ca.crt"
	// brokerVolume is the volume of the Secret that contains the broker login. brokerDir is its mount path.
	brokerVolume = "broker"
	brokerDir    = "/etc/module-controller/broker/"
	// heartbeatPort is the name of the port for HTTP heartbeats in the manifests.
	heartbeatPort = "http-tunnel"
	// podName is the environment variable that contains the name of the Pod.
	podName = "POD_NAME"
	// startFailures is the failure threshold of the startup probe, which runs every second. The threshold is one day,
	// so that a broker outage does not restart the Pod.
	startFailures = 24 * 60 * 60
	// gracePeriod is the termination grace period in seconds. It gives a controller time to release its Leases.
	gracePeriod = 5
)

// Settings contains the settings that all controllers share.
type Settings struct {
	// Replicas is the number of controllers. Required.
	Replicas int
	// Owner is the value of Options.Owner. Ensure sets it.
	Owner string
	// Image is the controller image of the Pods, which the nodes pull. Default: ImageName, which must have been
	// loaded onto the nodes.
	Image string
	// Env is the environment of the bases and the controllers. Required.
	Env string
	// ClientIDPrefix is the prefix of the CLIENT_ID of each controller. It is followed by the name of the Pod.
	// Default: the CLIENT_ID in the manifests.
	ClientIDPrefix string
	// Broker is the MQTT broker. Required.
	Broker Broker
	// Proxy is the URL of the HTTP proxy through which controllers send commands to bases. It includes the password.
	// Default: the HTTP tunnel is disabled.
	Proxy string
	// Token is the token that HTTP heartbeats must contain in their path. It is necessary because other clients can
	// also reach the NodePorts. Required with Proxy.
	Token string
	// Kubelet contains the certificates for serving logs and exec. Default: logs and exec are not served.
	Kubelet Kubelet
	// Variables contains environment variables that override the variables in the manifests. Default: none.
	Variables map[string]string
}

// Broker contains the settings with which controllers connect to an MQTT broker.
type Broker struct {
	Host, Port, Username, Password string
	// CA is the CA certificate of the broker, in PEM format. If it is empty, the controllers do not use TLS.
	CA []byte
	// Cert and Key are the client certificate and its key, in PEM format. Default: no client certificate.
	Cert, Key []byte
}

// files returns the files that the Deployment mounts for the broker connection, by file name.
func (b Broker) files() map[string][]byte {
	files := map[string][]byte{brokerCA: b.CA, corev1.TLSCertKey: b.Cert, corev1.TLSPrivateKeyKey: b.Key}
	maps.DeleteFunc(files, func(_ string, text []byte) bool { return len(text) == 0 })
	return files
}

// Kubelet contains the serving certificate and its key, and the CA certificate that verifies the client certificate
// of the API server. All are in PEM format.
type Kubelet struct {
	Cert, Key, ClientCA []byte
}

// resources lists the files in controller/deploy/kustomization.yaml, in the same order, with two exceptions. The
// Deployment is applied last. The NetworkPolicy is omitted, because the heartbeats of the sandbox come from outside
// the cluster and are authenticated with a token.
var resources = []string{
	"namespace.yaml", "crd.yaml", "clusterrole.yaml", "role.yaml", "serviceaccount.yaml", "bindings.yaml",
	"service.yaml",
}

// manifests returns all objects to apply, in the order in which they must be applied: the objects in resources, the
// Secrets, and the Deployments.
func manifests(s Settings) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, file := range resources {
		parsed, err := parse(file)
		if err != nil {
			return nil, err
		}
		objects = append(objects, parsed...)
	}
	logins := map[string][]byte{
		"mqtt-username": []byte(s.Broker.Username), "mqtt-password": []byte(s.Broker.Password),
		"http-tunnel-proxy": []byte(s.Proxy), "http-tunnel-token": []byte(s.Token),
	}
	maps.Copy(logins, s.Broker.files())
	for _, secret := range []*corev1.Secret{secret(name, logins), secret(kubeletSecret, map[string][]byte{
		corev1.TLSCertKey: s.Kubelet.Cert, corev1.TLSPrivateKeyKey: s.Kubelet.Key, "ca.crt": s.Kubelet.ClientCA,
	})} {
		object, err := toUnstructured(corev1.SchemeGroupVersion.WithKind("Secret"), secret)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	for number := 1; number <= s.Replicas; number++ {
		d, err := deployment(s, number)
		if err != nil {
			return nil, err
		}
		object, err := toUnstructured(appsv1.SchemeGroupVersion.WithKind("Deployment"), d)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	for _, object := range objects {
		cluster.SetOwner(object, "")
	}
	return objects, nil
}

func toUnstructured(kind schema.GroupVersionKind, object runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", kind.Kind, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	unstructured.RemoveNestedField(u.Object, "status")
	return u, nil
}

// heartbeatService returns a NodePort Service for heartbeats to one controller. Each controller has its own Service,
// because all controllers must receive the heartbeats of all bases.
func heartbeatService(number int) (*unstructured.Unstructured, error) {
	object, err := toUnstructured(corev1.SchemeGroupVersion.WithKind("Service"), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-heartbeats-%d", name, number), Namespace: namespace},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeNodePort,
			Selector: map[string]string{nameLabel: name, numberLabel: strconv.Itoa(number)},
			Ports: []corev1.ServicePort{
				{Name: heartbeatPort, Port: 7777, TargetPort: intstr.FromString(heartbeatPort)}},
			// kube-proxy needs about a second to add a Pod. This way it has done so before the controller is ready.
			PublishNotReadyAddresses: true,
		},
	})
	if err == nil {
		cluster.SetOwner(object, "")
	}
	return object, err
}

func parse(file string) ([]*unstructured.Unstructured, error) {
	text, err := deploy.FS.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading manifest %s: %w", file, err)
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

// deployment returns the Deployment for one controller. It is the Deployment in the manifests with the image and
// settings of the sandbox. The number label distinguishes its Pod from the Pods of other controllers.
func deployment(s Settings, number int) (*appsv1.Deployment, error) {
	parsed, err := parse("deployment.yaml")
	if err != nil {
		return nil, err
	}
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(parsed[0].Object, d); err != nil {
		return nil, fmt.Errorf("decoding the controller's Deployment: %w", err)
	}
	d.Name = runner.ComponentName(number)
	for _, labels := range []map[string]string{d.Labels, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels} {
		labels[numberLabel] = strconv.Itoa(number)
	}
	if s.Owner != "" {
		d.Spec.Template.Labels[cluster.SandboxLabel] = s.Owner
	}
	d.Spec.Replicas = ptr.To[int32](1)
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType} // as on this machine
	// Changed Secrets require new Pods, because a Pod reads Secrets only when it starts.
	d.Spec.Template.Annotations = map[string]string{revisionAnnotation: s.revision()}
	pod := &d.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = ptr.To[int64](gracePeriod)
	c := &pod.Containers[0]
	c.Image, c.ImagePullPolicy = ImageName, corev1.PullNever
	if s.Image != "" {
		c.Image, c.ImagePullPolicy = s.Image, corev1.PullIfNotPresent
	}
	c.ReadinessProbe.PeriodSeconds = 1 // up waits for readiness
	// A Pod becomes Ready after the first connection of the controller to the broker. Later, readiness does not depend
	// on the broker.
	c.StartupProbe = c.ReadinessProbe.DeepCopy()
	c.StartupProbe.HTTPGet.Path = "/tunnelz"
	c.StartupProbe.FailureThreshold = startFailures
	settings := map[string]string{
		"ENV":                   s.Env,
		"MQTT_BROKER":           s.Broker.Host,
		"MQTT_PORT":             s.Broker.Port,
		"BASE_NETWORKS":         runner.AllNetworks,
		"ENABLE_HTTP_TUNNEL":    strconv.FormatBool(s.Proxy != ""),
		"KUBELET_PROXY_ENABLED": strconv.FormatBool(len(s.Kubelet.Cert) > 0),
	}
	if s.ClientIDPrefix != "" {
		name := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
		// must come before CLIENT_ID, which refers to it
		c.Env = slices.Insert(c.Env, 0, corev1.EnvVar{Name: podName, ValueFrom: name})
		settings["CLIENT_ID"] = s.ClientIDPrefix + "$(" + podName + ")"
	}
	maps.Copy(settings, runner.Limits())
	s.Broker.mount(pod, settings)
	maps.Copy(settings, s.Variables)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		setEnv(c, key, settings[key])
	}
	return d, nil
}

// mount mounts the files for the broker connection, and sets the environment variables for the paths of these files.
func (b Broker) mount(pod *corev1.PodSpec, variables map[string]string) {
	files := b.files()
	for _, file := range []struct{ variable, name string }{
		{"MQTT_CA_PATH", brokerCA}, {"MQTT_CLIENT_CRT_PATH", corev1.TLSCertKey},
		{"MQTT_CLIENT_KEY_PATH", corev1.TLSPrivateKeyKey},
	} {
		variables[file.variable] = ""
		if files[file.name] != nil {
			variables[file.variable] = brokerDir + file.name
		}
	}
	for _, volume := range pod.Volumes {
		if volume.Name != brokerVolume || len(files) == 0 {
			continue
		}
		volume.Secret.Items = nil
		for _, name := range slices.Sorted(maps.Keys(files)) {
			volume.Secret.Items = append(volume.Secret.Items, corev1.KeyToPath{Key: name, Path: name})
		}
	}
}

// revision returns a digest of all settings except Replicas, because only a change of the other settings requires new
// Pods.
func (s Settings) revision() string {
	s.Replicas = 0
	text, _ := json.Marshal(s) // cannot fail for these types
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// setEnv sets an environment variable of a container. It replaces an existing value.
func setEnv(c *corev1.Container, key, value string) {
	variable := corev1.EnvVar{Name: key, Value: value}
	if i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == key }); i >= 0 {
		c.Env[i] = variable
	} else {
		c.Env = append(c.Env, variable)
	}
}
