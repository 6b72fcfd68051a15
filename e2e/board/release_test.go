package board

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// createStock creates a Deployment with one module on each of the two bases, and its Service.
func createStock(t *testing.T, r *liveBoard) {
	t.Helper()
	template := module.Template("stock", module.Container("stock", "1.0.0"))
	module.OnePerBase(&template)
	d := module.Deployment("default", "stock", 2, template)
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromInt32(1)),
		MaxUnavailable: ptr.To(intstr.FromInt32(0))}
	_, err := r.api.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{})
	check.Must(t, err)
	_, err = r.api.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "stock"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "stock"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}, metav1.CreateOptions{})
	check.Must(t, err)
}

// panelShows waits until the panel of a workload shows the given version, number of updated Pods and state.
func (r *liveBoard) panelShows(version, updated, state string) {
	r.t.Helper()
	r.wait(fmt.Sprintf(`(() => { const p = document.querySelector(".panel"); const text = (s) => p?.querySelector(s)?.textContent;
		return text(".progress .to") === %s && text(".progress .numbers") === %s && text("dl dd") === %s; })()`,
		quote(version), quote(updated), quote(state)))
}

// releaseVersion checks that a user can start a release on the board, that the board shows the module states of each
// base in the correct order, and that no request is lost.
func releaseVersion(t *testing.T, r *liveBoard) {
	createStock(t, r)
	r.show("view=log&kinds=module&sel=workload:deployment/default/stock")
	r.panelShows("1.0.0", "2/2", "ready")
	r.show("sel=service:default/stock")
	r.wait(`document.querySelector(".panel dl dd")?.textContent === "2 of 2 endpoints ready"`)
	r.requireAction("Start traffic", map[string]string{"rate": "50", "stream": "shoppers"},
		"sending 50 requests per second to stock of Service stock")
	r.show("view=log&kinds=module&sel=workload:deployment/default/stock")
	r.requireAction("Release a version", map[string]string{"version": "2.0.0"},
		"deployment/stock was updated to stock:2.0.0")
	r.panelShows("2.0.0", "2/2", "ready")
	d, err := r.api.AppsV1().Deployments("default").Get(t.Context(), "stock", metav1.GetOptions{})
	check.Must(t, err)
	if image := d.Spec.Template.Spec.Containers[0].Image; image != module.URL("stock", "2.0.0") {
		t.Errorf("the image of the Deployment is %s", image)
	}
	changes := func(base string) []string {
		rows := get[[]string](r.page,
			`[...document.querySelectorAll(".virtual tbody tr:not(.gap)")].map((r) => [...r.cells].slice(2, 5).map((c) => c.innerText.trim()).join(" "))`)
		slices.Reverse(rows) // the newest is the first row
		rows = slices.DeleteFunc(rows, func(s string) bool { return !strings.HasPrefix(s, base+" ") })
		for i, s := range rows {
			rows[i] = strings.TrimPrefix(s, base+" ")
		}
		return rows
	}
	want := []string{
		"stock:1.0.0 being installed", "stock:1.0.0 active", "stock:2.0.0 being installed",
		"stock:1.0.0 deactivated switch to new biz stock:2.0.0",
		"stock:2.0.0 active switch from old biz: stock:1.0.0", "stock:1.0.0 stopped", "stock:1.0.0 gone",
	}
	for _, base := range []string{"base-1", "base-2"} {
		check.Eventually(t.Context(), t, pageTime, "the old version is uninstalled from "+base,
			func(context.Context) error {
				if diff := cmp.Diff(want, changes(base)); diff != "" {
					return fmt.Errorf("changes of %s (-want +got):\n%s", base, diff)
				}
				return nil
			})
	}
	r.screenshot("real-release")
	r.show("view=traffic&sel=stream:/shoppers")
	message := r.runAction("Stop the traffic", nil)
	var sent, lost int
	if _, err := fmt.Sscanf(message, "shoppers was stopped: %d requests, %d lost", &sent, &lost); err != nil ||
		sent < 50 ||
		lost != 0 {
		t.Errorf("message %q; want at least 50 requests and 0 lost", message)
	}
	r.show("view=lanes")
	r.screenshot("real-lanes")
}

// manageWorkloads checks that users can pause, approve and roll back releases, and scale workloads.
func manageWorkloads(t *testing.T, r *liveBoard) {
	r.show("view=workloads&sel=workload:deployment/default/stock")
	r.requireAction("Pause the rollout", nil, "the rollout of deployment/stock was paused")
	r.panelShows("2.0.0", "2/2", "paused")
	r.requireAction("Release a version", map[string]string{"version": "3.0.0"},
		"deployment/stock was updated to stock:3.0.0")
	r.panelShows("3.0.0", "0/2", "paused")
	r.requireAction("Approve", nil, "the rollout of deployment/stock was resumed")
	r.panelShows("3.0.0", "2/2", "ready")
	r.requireAction("Undo", nil, "deployment/stock was rolled back to revision 2")
	r.panelShows("2.0.0", "2/2", "ready")
	r.requireAction("Scale", map[string]string{"replicas": "1"}, "deployment/stock was scaled to 1 replica")
	r.panelShows("2.0.0", "1/1", "ready")

	ledger := module.Template("ledger", module.Container("ledger", "1.0.0"))
	module.OnePerBase(&ledger)
	set := module.StatefulSet("default", "ledger", 2, ledger)
	set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}
	_, err := r.api.AppsV1().StatefulSets("default").Create(t.Context(), set, metav1.CreateOptions{})
	check.Must(t, err)
	r.show("view=workloads&sel=workload:statefulset/default/ledger")
	r.panelShows("1.0.0", "2/2", "ready")
	r.requireAction("Release a version", map[string]string{"version": "2.0.0"},
		"statefulset/ledger was updated to ledger:2.0.0")
	r.panelShows("2.0.0", "1/2", "paused")
	r.wait(`document.querySelector(".batches")?.innerText.includes("waits: lower the partition to approve")`)
	r.screenshot("real-batches")
	r.requireAction("Approve a batch", map[string]string{"partition": "0"},
		"the partition of statefulset/ledger was set to 0")
	r.panelShows("2.0.0", "2/2", "ready")
	r.requireAction("Undo", nil, "statefulset/ledger was rolled back to revision 1")
	r.panelShows("1.0.0", "2/2", "ready")

	_, err = r.api.AppsV1().DaemonSets("default").Create(t.Context(),
		module.DaemonSet("default", "audit", module.Template("audit", module.Container("audit", "1.0.0"))),
		metav1.CreateOptions{})
	check.Must(t, err)
	r.show("view=workloads&sel=workload:daemonset/default/audit")
	r.panelShows("1.0.0", "2/2", "ready")
	r.requireAction("Release a version", map[string]string{"version": "2.0.0"},
		"daemonset/audit was updated to audit:2.0.0")
	r.panelShows("2.0.0", "2/2", "ready")
	r.requireAction("Undo", nil, "daemonset/audit was rolled back to revision 1")
	r.panelShows("1.0.0", "2/2", "ready")
	pods, err := r.api.CoreV1().Pods("default").List(t.Context(),
		metav1.ListOptions{LabelSelector: "app in (ledger, audit)"})
	check.Must(t, err)
	versions := map[string]int{}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil {
			versions[p.Labels["app"]+" "+p.Spec.Containers[0].Env[0].Value]++
		}
	}
	if diff := cmp.Diff(map[string]int{"ledger 1.0.0": 2, "audit 1.0.0": 2}, versions); diff != "" {
		t.Errorf("Pods (-want +got):\n%s", diff)
	}
}

func cordon(t *testing.T, r *liveBoard) {
	isCordoned := func() bool {
		nodes, err := r.api.CoreV1().Nodes().List(t.Context(),
			metav1.ListOptions{LabelSelector: module.LabelComponent + "=vnode"})
		check.Must(t, err)
		return slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Spec.Unschedulable })
	}
	r.show("sel=base:base-1")
	if message := r.runAction("Cordon", nil); !strings.HasPrefix(message, "Pods are no longer scheduled on vnode.") ||
		!isCordoned() {
		t.Errorf("message %q; a Node is unschedulable: %t", message, isCordoned())
	}
	r.wait(`document.querySelector(".panel dl").innerText.includes("cordoned")`)
	if message := r.runAction("Uncordon", nil); !strings.HasPrefix(message, "Pods can be scheduled on vnode.") ||
		isCordoned() {
		t.Errorf("message %q; a Node is unschedulable: %t", message, isCordoned())
	}
}

// runScenario checks that the board can run a scenario from the --scenarios directory, and that the log shows the
// steps of the scenario.
func runScenario(t *testing.T, r *liveBoard) {
	r.show("view=components")
	r.requireAction("Run a scenario", map[string]string{"scenario": "looks"}, "looks was started")
	r.show("view=log&kinds=step")
	r.wait(mainContains("the base is running"))
	r.wait(`/looks-\w+\s+passed/.test(document.querySelector("main").innerText)`)
	if get[bool](r.page, `document.querySelector("main").innerText.includes("00:00:00.000")`) {
		t.Error("a step has no timestamp")
	}
}
