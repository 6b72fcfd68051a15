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

// stock applies a Deployment with one module on each of the two bases, and its Service.
func stock(t *testing.T, r *live) {
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

// panelShows waits until the panel says of a workload how many Pods have which version, and its state.
func (r *live) panelShows(version, updated, state string) {
	r.t.Helper()
	r.wait(fmt.Sprintf(`(() => { const p = document.querySelector(".panel"); const text = (s) => p?.querySelector(s)?.textContent;
		return text(".progress .to") === %s && text(".progress .numbers") === %s && text("dl dd") === %s; })()`,
		quote(version), quote(updated), quote(state)))
}

// A release by the board's own action is followed to its end: every version on every base, in order,
// and no request is lost.
func aRelease(t *testing.T, r *live) {
	stock(t, r)
	r.look("view=log&kinds=module&sel=workload:deployment/default/stock")
	r.panelShows("1.0.0", "2/2", "ready")
	r.look("sel=service:default/stock")
	r.wait(`document.querySelector(".panel dl dd")?.textContent === "2 of 2 endpoints ready"`)
	r.does("Start traffic", map[string]string{"rate": "50", "stream": "shoppers"},
		"sending 50 requests per second to stock of Service stock")
	r.look("view=log&kinds=module&sel=workload:deployment/default/stock")
	r.does("Release a version", map[string]string{"module": "stock", "version": "2.0.0"},
		"deployment/stock was updated to stock:2.0.0")
	r.panelShows("2.0.0", "2/2", "ready")
	d, err := r.api.AppsV1().Deployments("default").Get(t.Context(), "stock", metav1.GetOptions{})
	check.Must(t, err)
	if image := d.Spec.Template.Spec.Containers[0].Image; image != module.URL("stock", "2.0.0") {
		t.Errorf("its jar is said to be at %s", image)
	}
	changes := func(base string) []string {
		rows := get[[]string](r.page,
			`[...document.querySelectorAll(".virtual tbody tr:not(.gap)")].map((r) => [...r.cells].slice(2, 5).map((c) => c.innerText.trim()).join(" "))`)
		slices.Reverse(rows) // the newest stands on top
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
		check.Eventually(t.Context(), t, pageTime, "the old version is gone from "+base, func(context.Context) error {
			if diff := cmp.Diff(want, changes(base)); diff != "" {
				return fmt.Errorf("changes of %s (-want +got):\n%s", base, diff)
			}
			return nil
		})
	}
	r.shot("real-release")
	r.look("view=traffic&sel=stream:/shoppers")
	says := r.act("Stop the traffic", nil)
	var sent, lost int
	if _, err := fmt.Sscanf(says, "shoppers was stopped: %d requests, %d lost", &sent, &lost); err != nil || sent < 50 ||
		lost != 0 {
		t.Errorf("message %q; want at least 50 requests and 0 lost", says)
	}
	r.look("view=lanes")
	r.shot("real-lanes")
}

// Releases are held, approved, taken back and scaled, and Kubernetes does it.
func workloads(t *testing.T, r *live) {
	r.look("view=workloads&sel=workload:deployment/default/stock")
	r.does("Pause the rollout", nil, "the rollout of deployment/stock was paused")
	r.panelShows("2.0.0", "2/2", "paused")
	r.does("Release a version", map[string]string{"module": "stock", "version": "3.0.0"},
		"deployment/stock was updated to stock:3.0.0")
	r.panelShows("3.0.0", "0/2", "paused")
	r.does("Approve", nil, "the rollout of deployment/stock was resumed")
	r.panelShows("3.0.0", "2/2", "ready")
	r.does("Undo", nil, "deployment/stock was rolled back to revision 2")
	r.panelShows("2.0.0", "2/2", "ready")
	r.does("Scale", map[string]string{"replicas": "1"}, "deployment/stock was scaled to 1 replica")
	r.panelShows("2.0.0", "1/1", "ready")

	ledger := module.Template("ledger", module.Container("ledger", "1.0.0"))
	module.OnePerBase(&ledger)
	set := module.StatefulSet("default", "ledger", 2, ledger)
	set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}
	_, err := r.api.AppsV1().StatefulSets("default").Create(t.Context(), set, metav1.CreateOptions{})
	check.Must(t, err)
	r.look("view=workloads&sel=workload:statefulset/default/ledger")
	r.panelShows("1.0.0", "2/2", "ready")
	r.does("Release a version", map[string]string{"module": "ledger", "version": "2.0.0"},
		"statefulset/ledger was updated to ledger:2.0.0")
	r.panelShows("2.0.0", "1/2", "paused")
	r.wait(`document.querySelector(".batches")?.innerText.includes("waits: lower the partition to approve")`)
	r.shot("real-batches")
	r.does("Approve a batch", map[string]string{"partition": "0"},
		"Pods of statefulset/ledger with number 0 and higher get its current version")
	r.panelShows("2.0.0", "2/2", "ready")
	r.does("Undo", nil, "statefulset/ledger was rolled back to revision 1")
	r.panelShows("1.0.0", "2/2", "ready")

	_, err = r.api.AppsV1().DaemonSets("default").Create(t.Context(),
		module.DaemonSet("default", "audit", module.Template("audit", module.Container("audit", "1.0.0"))),
		metav1.CreateOptions{})
	check.Must(t, err)
	r.look("view=workloads&sel=workload:daemonset/default/audit")
	r.panelShows("1.0.0", "2/2", "ready")
	r.does("Release a version", map[string]string{"module": "audit", "version": "2.0.0"},
		"daemonset/audit was updated to audit:2.0.0")
	r.panelShows("2.0.0", "2/2", "ready")
	r.does("Undo", nil, "daemonset/audit was rolled back to revision 1")
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

func cordon(t *testing.T, r *live) {
	marked := func() bool {
		nodes, err := r.api.CoreV1().Nodes().List(t.Context(),
			metav1.ListOptions{LabelSelector: module.LabelComponent + "=vnode"})
		check.Must(t, err)
		return slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Spec.Unschedulable })
	}
	r.look("sel=base:base-1")
	if says := r.act("Cordon", nil); !strings.HasPrefix(says, "Pods are no longer scheduled on vnode.") || !marked() {
		t.Errorf("message %q; a Node is unschedulable: %t", says, marked())
	}
	r.wait(`document.querySelector(".panel dl").innerText.includes("cordoned")`)
	if says := r.act("Uncordon", nil); !strings.HasPrefix(says, "Pods can be scheduled on vnode.") || marked() {
		t.Errorf("message %q; a Node is unschedulable: %t", says, marked())
	}
}

// A scenario that the command line named runs, and its steps are shown.
func aScenario(t *testing.T, r *live) {
	r.look("view=components")
	r.does("Run a scenario", map[string]string{"scenario": "looks"}, "looks was started")
	r.look("view=log&kinds=step")
	r.wait(mainHas("its base runs"))
	r.wait(`/looks-\w+\s+passed/.test(document.querySelector("main").innerText)`)
	if get[bool](r.page, `document.querySelector("main").innerText.includes("00:00:00.000")`) {
		t.Error("a step has no time")
	}
}
