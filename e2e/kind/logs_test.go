package kind

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// deploy creates a Pod with one module on a base of the sandbox, waits until the Pod is Ready, and returns it.
func deploy(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return deployOn(t, name, "base") // not on a base that another test is deleting
}

// deployOn creates a Pod with one module on a base with the given application name, waits until the Pod is Ready, and
// returns it.
func deployOn(t *testing.T, name, base string) *corev1.Pod {
	t.Helper()
	pod := module.Pod("default", name, module.Template(name, module.Container(name, "1.0.0")))
	pod.Spec.NodeSelector = map[string]string{module.LabelBaseName: base}
	return create(t, pod)
}

// create creates a Pod, waits until it is Ready, and returns it.
func create(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	pods, name := client.CoreV1().Pods(pod.Namespace), pod.Name
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := pods.Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // the Pod is deleted together with its base
			t.Errorf("deleting the Pod: %v", err)
		}
	})
	eventually(t, "Pod "+name+" is Ready", func(ctx context.Context) (err error) {
		pod, err = pods.Get(ctx, name, metav1.GetOptions{})
		if err == nil && !module.IsReady(pod) {
			err = fmt.Errorf("the Pod is %s", pod.Status.Phase)
		}
		return err
	})
	return pod
}

// TestLogsAndExec checks that logs and exec of a module work: the API server of the cluster must reach the kubelet
// API in the Pod of the controller.
func TestLogsAndExec(t *testing.T) {
	pod := deploy(t, "with-a-log")
	text, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name,
		&corev1.PodLogOptions{TailLines: ptr.To[int64](100)}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(text), "installBiz answered: SUCCESS") {
		t.Errorf("log %q, error %v", text, err)
	}
	config, err := shared.REST()
	must(t, err)
	api, err := resources.New(config)
	must(t, err)
	var stdout, stderr bytes.Buffer
	err = api.ExecInPod(t.Context(), pod.Namespace, pod.Name, pod.Name, []string{"ark", "queryAllBiz"}, &stdout,
		&stderr)
	if err != nil || !strings.Contains(stdout.String(), pod.Name) {
		t.Errorf("ark queryAllBiz: stdout %q, stderr %q, error %v", stdout.String(), stderr.String(), err)
	}
}

// TestBasePodLog checks that the log of a module is the log of its base, if the base runs in a Pod in the namespace of
// the module Pod.
func TestBasePodLog(t *testing.T) {
	const name = "base-with-a-log"
	broker, err := shared.Broker()
	must(t, err)
	authority, err := os.ReadFile(broker.CAFile)
	must(t, err)
	files := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data: map[string]string{"ca.crt": string(authority)}}
	_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), files, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, client.CoreV1().ConfigMaps("default").Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	ofSandbox, err := client.CoreV1().Pods("default").Get(t.Context(), "koupsandbox-bases-0", metav1.GetOptions{})
	must(t, err)
	base := create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			Volumes: []corev1.Volume{{Name: "broker", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}},
			Containers: []corev1.Container{{
				Name: "java", Image: ofSandbox.Spec.Containers[0].Image,
				Args: []string{"--mqtt", "ssl://" + broker.Addr, "--mqtt-ca", "/broker/ca.crt",
					"--mqtt-username", "base", "--name", name, "--host-name", name},
				VolumeMounts: []corev1.VolumeMount{{Name: "broker", MountPath: "/broker"}},
				Env: []corev1.EnvVar{
					{Name: "FAKEBASE_MQTT_PASSWORD", Value: broker.Passwords.Base},
					{Name: "FAKEBASE_IP", ValueFrom: &corev1.EnvVarSource{
						FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
				},
			}},
		},
	})
	pod := deployOn(t, "on-a-base-with-a-log", name)
	read := func(pod *corev1.Pod, lines int64) string {
		t.Helper()
		log, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name,
			&corev1.PodLogOptions{TailLines: &lines}).DoRaw(t.Context())
		must(t, err)
		return string(log)
	}
	last := read(base, 1)
	if log := read(pod, 100); last == "" || !strings.Contains(log, last) {
		t.Errorf("the log of the module is %q, and does not contain the line %q of its base", log, last)
	}
	if log := read(pod, 1); strings.Count(log, "\n") != 1 {
		t.Errorf("the last line is %q", log)
	}
}
