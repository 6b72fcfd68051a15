package rights

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/audit"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
)

// TestRules makes the controller send all kinds of requests. It checks that the controller uses each RBAC rule of the
// manifests, and sends no request that the rules do not allow.
func TestRules(t *testing.T) {
	granted, err := audit.Granted()
	must(t, err)
	ns := namespace(t)
	createWorkloads(t, ns)
	causeConflicts(t, ns)
	changeModule(t, ns)
	requestLogs(t, ns, readyPod(t, ns, "m"))
	_, err = up.RemoveBases(t.Context(), sandbox.RemoveRequest{Count: 1})
	must(t, err)
	must(t, client.AppsV1().Deployments(ns).Delete(t.Context(), "m", metav1.DeleteOptions{}))
	disableStreamingLists(t)
	t.Run("unreachable base", func(t *testing.T) { onHostileBase(t, ns, overMQTT(t)) })

	var log audit.Log
	eventually(t, "every rule is used", func(context.Context) error {
		log = audit.Log{}
		if err := log.Read(shared.Instead, shared.Name, granted); err != nil {
			return err
		}
		if unused := granted.Unused(&log); len(unused) > 0 {
			return fmt.Errorf("unused permissions: %q", unused)
		}
		return nil
	})
	if beyond := granted.Violations(&log); len(beyond)+len(log.Refused) > 0 {
		t.Errorf("requests that no rule allows: %q; rejected requests: %q", beyond, log.Refused)
	}
	t.Logf("%d requests of %d kinds, %d bytes", log.Events, len(log.Requests), log.Bytes)
}

// changeModule removes a label from a Module object, which the controller must restore.
func changeModule(t *testing.T, ns string) {
	t.Helper()
	dynamicClient, err := dynamic.NewForConfig(config)
	must(t, err)
	modules := dynamicClient.Resource(module.Resource).Namespace(ns)
	name := readyPod(t, ns, "peer").Name + ".peer"
	requireLabel := func() {
		t.Helper()
		eventually(t, "the Module "+name+" has the label of its name", func(ctx context.Context) error {
			m, err := modules.Get(ctx, name, metav1.GetOptions{})
			if err == nil && m.GetLabels()[labels.ModuleName] != "peer" {
				err = fmt.Errorf("labels %v", m.GetLabels())
			}
			return err
		})
	}
	requireLabel()
	_, err = modules.Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+labels.ModuleName+`":null}}}`), metav1.PatchOptions{})
	must(t, err)
	requireLabel()
}

// requestLogs requests the log of a module Pod while a Pod for its base exists. The node of this Pod does not exist,
// so the controller reports that it cannot read the log of the base.
func requestLogs(t *testing.T, ns string, pod *corev1.Pod) {
	t.Helper()
	node := nodeOf(t, pod)
	ofBase, err := client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: node.Labels[corev1.LabelHostname]},
		Spec: corev1.PodSpec{NodeName: "absent",
			Containers: []corev1.Container{{Name: "base", Image: "base"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	ofBase.Status.PodIP = pod.Status.PodIP
	ofBase.Status.PodIPs = pod.Status.PodIPs
	_, err = client.CoreV1().Pods(ns).UpdateStatus(t.Context(), ofBase, metav1.UpdateOptions{})
	must(t, err)
	log, err := client.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	must(t, err)
	note, rest, _ := strings.Cut(string(log), "\n")
	if !strings.HasPrefix(note, "# reading the log of base Pod "+ofBase.Name) ||
		!strings.Contains(rest, "installBiz answered: SUCCESS") {
		t.Errorf("log %q", log)
	}
}

func namespace(t *testing.T) string {
	t.Helper()
	name := envconf.RandomName("rights", 12)
	_, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if err := client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	return name
}

// createWorkloads creates a Deployment whose module version is in a ConfigMap and whose Pods do not tolerate an
// environment taint, a peer Deployment, and a DaemonSet that no base matches. The controller records two Events for
// the DaemonSet.
func createWorkloads(t *testing.T, ns string) {
	t.Helper()
	_, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "versions"}, Data: map[string]string{"m": "1.0.0"},
	}, metav1.CreateOptions{})
	must(t, err)
	template := templateWithoutEnv("m")
	template.Spec.Containers[0].Env[0] = corev1.EnvVar{Name: module.EnvVersion, ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "versions"}, Key: "m"},
	}}
	deploy(t, module.Deployment(ns, "m", 1, template))
	peer := module.Deployment(ns, "peer", 1, module.Template("peer", module.Container("peer", "1.0.0")))
	module.OnePerBase(&peer.Spec.Template)
	peer.Labels = map[string]string{
		"virtual-kubelet.koupleless.io/component": "module-deployment",
		"virtual-kubelet.koupleless.io/strategy":  "peer",
	}
	deploy(t, peer)
	_, err = client.AppsV1().DaemonSets(ns).Create(t.Context(),
		module.DaemonSet(ns, "nowhere", templateWithoutEnv("nowhere")),
		metav1.CreateOptions{})
	must(t, err)
	_, err = client.AppsV1().DaemonSets(ns).Patch(t.Context(), "nowhere", types.MergePatchType,
		[]byte(`{"spec":{"minReadySeconds":1}}`), metav1.PatchOptions{})
	must(t, err)
}

// templateWithoutEnv returns a Pod template without a toleration of the environment taint.
func templateWithoutEnv(app string) corev1.PodTemplateSpec {
	template := module.Template(app, module.Container(app, "1.0.0"))
	template.Spec.Tolerations = template.Spec.Tolerations[:1]
	return template
}

func deploy(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	_, err := client.AppsV1().Deployments(d.Namespace).Create(t.Context(), d, metav1.CreateOptions{})
	must(t, err)
	readyPod(t, d.Namespace, d.Name)
}

// readyPod waits until a Pod with the label app is Ready, and returns this Pod.
func readyPod(t *testing.T, ns, app string) (pod *corev1.Pod) {
	t.Helper()
	eventually(t, "a Pod of "+app+" is Ready", func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if module.IsReady(&p) {
				pod = &p
				return nil
			}
		}
		return fmt.Errorf("0 of %d Pods are Ready", len(pods.Items))
	})
	return pod
}

// disableStreamingLists restarts the controller without streaming lists. The controller then sends list requests, as
// it does if an API server does not support streaming lists.
func disableStreamingLists(t *testing.T) {
	t.Helper()
	before, err := up.SetController(t.Context(),
		sandbox.ControllerRequest{APIView: true, Env: map[string]string{"KUBE_FEATURE_WatchListClient": "false"}})
	must(t, err)
	_, err = up.SetController(t.Context(), before)
	must(t, err)
}

// causeConflicts makes the API server reject one status update of a Pod and one of a Node, and changes the Node. The
// controller must then read the objects again and repair the Node.
func causeConflicts(t *testing.T, ns string) {
	t.Helper()
	for _, resource := range []string{"pods/status", "nodes/status"} {
		_, err := up.SetFault(t.Context(), fault.Injection{Target: v1alpha1.TargetAPI, Fault: v1alpha1.Fault{
			ID: resource, Kind: v1alpha1.APIRefuse, Status: 409, Match: v1alpha1.FaultMatch{Resource: resource},
			Count: 1,
		}})
		must(t, err)
	}
	node := readyPod(t, ns, "m").Spec.NodeName
	for _, patch := range []string{`{"metadata":{"labels":{"type":null}}}`, `{"spec":{"taints":null}}`} {
		_, err := client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{})
		must(t, err)
	}
	eventually(t, "the label and the taints of the Node are restored", func(ctx context.Context) error {
		n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err == nil && (n.Labels["type"] == "" || len(n.Spec.Taints) < 2) {
			err = errors.New("they are not")
		}
		return err
	})
	_, err := client.AppsV1().Deployments(ns).Patch(t.Context(), "m", types.MergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"again":"yes"}}}}}`), metav1.PatchOptions{})
	must(t, err)
	eventually(t, "the Deployment is rolled out", func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments(ns).Get(ctx, "m", metav1.GetOptions{})
		if err == nil && (d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != 1 ||
			d.Status.Replicas != 1 || d.Status.ReadyReplicas != 1) {
			err = fmt.Errorf("status of the Deployment: %+v", d.Status)
		}
		return err
	})
}
