package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/klient/k8s"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	basefault "github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
)

// workload is a kind of object that keeps Pods.
type workload struct {
	object k8s.Object // named by its app label, with version 1.0.0 of the module
	pods   int        // that it has after its creation
	fixed  bool       // it has as many Pods as there are bases
	// rolled tells of what is in the API whether all Pods have the template's
	// version and are available.
	rolled func() bool
}

func template(app, version string) corev1.PodTemplateSpec {
	return module.Template(app, module.Container(app, version))
}

func deploymentOf(app string) workload {
	d := module.Deployment("", app, 2, template(app, "1.0.0"))
	return workload{object: d, pods: 2, rolled: func() bool {
		s, want := d.Status, *d.Spec.Replicas
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
	}}
}

func daemonSetOf(app string) workload {
	d := module.DaemonSet("", app, template(app, "1.0.0"))
	return workload{object: d, pods: sharedBases, fixed: true, rolled: func() bool {
		s := d.Status
		return s.ObservedGeneration == d.Generation && s.UpdatedNumberScheduled == sharedBases && s.NumberAvailable == sharedBases
	}}
}

func statefulSetOf(app string) workload {
	s := module.StatefulSet("", app, 2, template(app, "1.0.0"))
	return workload{object: s, pods: 2, rolled: func() bool {
		st, want := s.Status, *s.Spec.Replicas
		return st.ObservedGeneration == s.Generation && st.UpdatedReplicas == want && st.Replicas == want && st.AvailableReplicas == want &&
			st.CurrentRevision == st.UpdateRevision
	}}
}

func replicas(n int) []byte { return fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n) }

// upgrade is a patch of a workload that puts another version into its template.
func upgrade(name, version string) []byte {
	return fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q,"env":[{"name":%q,"value":%q}]}]}}}}`,
		name, module.URL(name, version), module.EnvVersion, version)
}

// Every kind of workload lives through create, scale, rolling update and delete;
// at each step the bases have what the Pods say, and nothing else.
func TestWorkloads(t *testing.T) {
	for _, w := range []workload{deploymentOf("by-deployment"), daemonSetOf("by-daemonset"), statefulSetOf("by-statefulset")} {
		app := w.object.GetName()
		t.Run(app, func(t *testing.T) {
			// settled waits until want Pods have a version of the module, and exactly their bases, too.
			settled := func(ctx context.Context, t *testing.T, ns string, want int, version string) {
				eventually(ctx, t, fmt.Sprintf("%d Pods have version %s", want, version), func(ctx context.Context) error {
					if err := objects.Get(ctx, app, ns, w.object); err != nil {
						return err
					}
					if !w.rolled() {
						return fmt.Errorf("the workload is not there yet: %+v", w.object)
					}
					if err := serves(ctx, client, up, ns, want); err != nil {
						return err
					}
					return onlyVersion(ctx, ns, version)
				})
			}
			patch := func(ctx context.Context, t *testing.T, text []byte) {
				must(t, objects.Patch(ctx, w.object, k8s.Patch{PatchType: types.StrategicMergePatchType, Data: text}))
			}
			f := features.New(app).
				Setup(step(func(ctx context.Context, t *testing.T, ns string) {
					w.object.SetNamespace(ns)
					must(t, objects.Create(ctx, w.object))
				})).
				Assess("its modules are installed", step(func(ctx context.Context, t *testing.T, ns string) {
					settled(ctx, t, ns, w.pods, "1.0.0")
				}))
			for _, n := range []int{3, 1, 2} {
				if w.fixed {
					break
				}
				f = f.Assess(fmt.Sprintf("scales to %d", n), step(func(ctx context.Context, t *testing.T, ns string) {
					patch(ctx, t, replicas(n))
					settled(ctx, t, ns, n, "1.0.0")
				}))
			}
			f = f.Assess("rolls to another version", step(func(ctx context.Context, t *testing.T, ns string) {
				patch(ctx, t, upgrade(app, "2.0.0"))
				settled(ctx, t, ns, w.pods, "2.0.0")
			})).Assess("leaves nothing when it is deleted", step(func(ctx context.Context, t *testing.T, ns string) {
				must(t, objects.Delete(ctx, w.object))
				eventually(ctx, t, "no Pod and no module is left", func(ctx context.Context) error { return gone(ctx, ns, app) })
			}))
			testenv.Test(t, f.Feature())
		})
	}
}

func onlyVersion(ctx context.Context, namespace, version string) error {
	list, err := pods(ctx, client, namespace)
	if err != nil {
		return err
	}
	for _, p := range list {
		if got := p.Spec.Containers[0].Env[0].Value; got != version {
			return fmt.Errorf("pod %s has version %s, not %s", p.Name, got, version)
		}
	}
	return nil
}

// A bare Pod with several containers is several modules on one base. It can be
// found by its base's address and Node, and it leaves the API only when its
// modules have left the base.
func TestBarePod(t *testing.T) {
	var pod *corev1.Pod
	f := features.New("bare pod").
		Setup(step(func(ctx context.Context, t *testing.T, ns string) {
			p := module.Pod(ns, "pair", module.Template("pair", module.Container("left", "1.0.0"), module.Container("right", "3.1.4")))
			_, err := client.CoreV1().Pods(ns).Create(ctx, p, metav1.CreateOptions{})
			must(t, err)
		})).
		Assess("all its modules are installed on one base", step(func(ctx context.Context, t *testing.T, ns string) {
			eventually(ctx, t, "both modules are there and the Pod is Ready", func(ctx context.Context) error {
				return serves(ctx, client, up, ns, 1)
			})
			list, err := pods(ctx, client, ns)
			must(t, err)
			pod = &list[0]
			for i, c := range pod.Status.ContainerStatuses {
				want := fmt.Sprintf("arklet://%s:%s:%s", pod.Status.PodIP, c.Name, pod.Spec.Containers[i].Env[0].Value)
				if c.ContainerID != want || !c.Ready || c.State.Running == nil {
					t.Errorf("container %s is %+v, want it to run as %s", c.Name, c, want)
				}
			}
		})).
		Assess("is found by its base", step(func(ctx context.Context, t *testing.T, ns string) {
			node, err := client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
			must(t, err)
			if len(node.Status.Addresses) == 0 || node.Status.Addresses[0].Address != pod.Status.PodIP || pod.Status.HostIP != pod.Status.PodIP {
				t.Errorf("the Pod's address is %s, its host's %s, its Node's %v", pod.Status.PodIP, pod.Status.HostIP, node.Status.Addresses)
			}
			for field, count := range map[string]int{
				"status.podIP=" + pod.Status.PodIP: 1, "spec.nodeName=" + pod.Spec.NodeName: 1,
				"status.podIP=198.19.255.254": 0, "spec.nodeName=vnode.nobody": 0,
			} {
				list, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{FieldSelector: field})
				must(t, err)
				if len(list.Items) != count {
					t.Errorf("%s selects %d Pods, not %d", field, len(list.Items), count)
				}
			}
		})).
		Assess("leaves the API after its modules have left the base", step(leavesAfterModules(&pod)))
	testenv.Test(t, f.Feature())
}

// leavesAfterModules deletes a Pod while its base does not hear of it: the Pod stays
// as long as that lasts.
func leavesAfterModules(pod **corev1.Pod) func(ctx context.Context, t *testing.T, ns string) {
	return func(ctx context.Context, t *testing.T, ns string) {
		p := *pod
		id, err := up.SetFault(ctx, fault.Injection{
			Bases: []string{p.Status.PodIP}, Fault: v1alpha1.Fault{Kind: basefault.KindDeaf, Match: v1alpha1.FaultMatch{Commands: []string{"uninstallBiz"}}},
		})
		must(t, err)
		defer func() { must(t, up.ClearFaults(ctx, sandbox.FaultSelector{Bases: []string{p.Status.PodIP}})) }()
		must(t, client.CoreV1().Pods(ns).Delete(ctx, p.Name, metav1.DeleteOptions{}))
		eventually(ctx, t, "the failed uninstall is told", func(ctx context.Context) error {
			return warned(ctx, ns, p.Name, "UninstallBizTimedOut")
		})
		got, err := client.CoreV1().Pods(ns).Get(ctx, p.Name, metav1.GetOptions{})
		must(t, err)
		if got.DeletionTimestamp == nil {
			t.Error("the Pod is not being deleted")
		}
		left, err := installed(ctx, up, "left")
		must(t, err)
		if diff := cmp.Diff(map[string][]string{p.Status.PodIP: {"left:1.0.0 ACTIVATED"}}, left); diff != "" {
			t.Errorf("the module that could not be uninstalled (-want +got):\n%s", diff)
		}
		must(t, up.ClearFaults(ctx, sandbox.FaultSelector{IDs: []string{id}}))
		eventually(ctx, t, "the Pod and its modules are gone", func(ctx context.Context) error {
			if err := gone(ctx, ns, "left"); err != nil {
				return err
			}
			return gone(ctx, ns, "right")
		})
	}
}
