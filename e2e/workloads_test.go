package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// workload is a kind of object that keeps Pods, and how it is driven.
type workload struct {
	// create makes it with version 1.0.0 of the module.
	create func(ctx context.Context, namespace, name string) error
	// scale brings it to a number of Pods; nil if the kind has none.
	scale func(ctx context.Context, namespace, name string, replicas int) error
	// patch changes it.
	patch func(ctx context.Context, namespace, name string, patch string) error
	// updated says what is left of a rolling update, or nil when it is done.
	updated func(ctx context.Context, namespace, name string) error
	// remove deletes it with its Pods.
	remove func(ctx context.Context, namespace, name string) error
	// pods is how many Pods it has after create.
	pods int
}

func template(app, version string) corev1.PodTemplateSpec {
	return module.Template(app, module.Container(app, version))
}

// background lets the Pods of a deleted workload go too.
var background = metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}

func deployments() workload {
	return workload{
		pods: 2,
		create: func(ctx context.Context, ns, name string) error {
			_, err := client.AppsV1().Deployments(ns).Create(ctx, module.Deployment(ns, name, 2, template(name, "1.0.0")), metav1.CreateOptions{})
			return err
		},
		scale: func(ctx context.Context, ns, name string, n int) error {
			_, err := client.AppsV1().Deployments(ns).Patch(ctx, name, apitypes.MergePatchType, replicas(n), metav1.PatchOptions{}, "scale")
			return err
		},
		patch: func(ctx context.Context, ns, name, patch string) error {
			_, err := client.AppsV1().Deployments(ns).Patch(ctx, name, apitypes.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		},
		updated: func(ctx context.Context, ns, name string) error {
			d, err := client.AppsV1().Deployments(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.Replicas != *d.Spec.Replicas ||
				s.AvailableReplicas != *d.Spec.Replicas {
				return fmt.Errorf("the Deployment's status is %+v", s)
			}
			return nil
		},
		remove: func(ctx context.Context, ns, name string) error {
			return client.AppsV1().Deployments(ns).Delete(ctx, name, background)
		},
	}
}

func daemonSets() workload {
	return workload{
		pods: sharedBases,
		create: func(ctx context.Context, ns, name string) error {
			_, err := client.AppsV1().DaemonSets(ns).Create(ctx, module.DaemonSet(ns, name, template(name, "1.0.0")), metav1.CreateOptions{})
			return err
		},
		patch: func(ctx context.Context, ns, name, patch string) error {
			_, err := client.AppsV1().DaemonSets(ns).Patch(ctx, name, apitypes.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		},
		updated: func(ctx context.Context, ns, name string) error {
			d, err := client.AppsV1().DaemonSets(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedNumberScheduled != s.DesiredNumberScheduled ||
				s.NumberAvailable != s.DesiredNumberScheduled {
				return fmt.Errorf("the DaemonSet's status is %+v", s)
			}
			return nil
		},
		remove: func(ctx context.Context, ns, name string) error {
			return client.AppsV1().DaemonSets(ns).Delete(ctx, name, background)
		},
	}
}

func statefulSets() workload {
	return workload{
		pods: 2,
		create: func(ctx context.Context, ns, name string) error {
			_, err := client.AppsV1().StatefulSets(ns).Create(ctx, module.StatefulSet(ns, name, 2, template(name, "1.0.0")), metav1.CreateOptions{})
			return err
		},
		scale: func(ctx context.Context, ns, name string, n int) error {
			_, err := client.AppsV1().StatefulSets(ns).Patch(ctx, name, apitypes.MergePatchType, replicas(n), metav1.PatchOptions{}, "scale")
			return err
		},
		patch: func(ctx context.Context, ns, name, patch string) error {
			_, err := client.AppsV1().StatefulSets(ns).Patch(ctx, name, apitypes.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		},
		updated: func(ctx context.Context, ns, name string) error {
			s, err := client.AppsV1().StatefulSets(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if st := s.Status; st.ObservedGeneration != s.Generation || st.UpdatedReplicas != *s.Spec.Replicas || st.CurrentRevision != st.UpdateRevision ||
				st.AvailableReplicas != *s.Spec.Replicas {
				return fmt.Errorf("the StatefulSet's status is %+v", st)
			}
			return nil
		},
		remove: func(ctx context.Context, ns, name string) error {
			return client.AppsV1().StatefulSets(ns).Delete(ctx, name, background)
		},
	}
}

func replicas(n int) []byte { return fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n) }

// upgrade is a patch of a workload that puts another version into its template.
func upgrade(name, version string) string {
	return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q,"env":[{"name":%q,"value":%q}]}]}}}}`,
		name, module.URL(name, version), module.EnvVersion, version)
}

// Every kind of workload lives through create, scale, rolling update and delete;
// at each step the bases have what the Pods say, and nothing else.
func TestWorkloads(t *testing.T) {
	for name, w := range map[string]workload{"deployment": deployments(), "daemonset": daemonSets(), "statefulset": statefulSets()} {
		t.Run(name, func(t *testing.T) {
			app := "w-" + name
			want := w.pods
			settled := func(version string) features.Func {
				return step(func(ctx context.Context, t *testing.T, ns string) {
					eventually(ctx, t, "the bases have version "+version+" and all Pods are Ready", func(ctx context.Context) error {
						if err := w.updated(ctx, ns, app); err != nil {
							return err
						}
						if err := serves(ctx, client, up, ns, want); err != nil {
							return err
						}
						return onlyVersion(ctx, ns, version)
					})
				})
			}
			f := features.New(name).
				Setup(step(func(ctx context.Context, t *testing.T, ns string) { must(t, w.create(ctx, ns, app)) })).
				Assess("its modules are installed", settled("1.0.0"))
			if w.scale != nil {
				for _, n := range []int{3, 1, 2} {
					f = f.Assess(fmt.Sprintf("scales to %d", n), func(ctx context.Context, t *testing.T, c *envconf.Config) context.Context {
						want = n
						must(t, w.scale(ctx, namespaceOf(ctx), app, n))
						return settled("1.0.0")(ctx, t, c)
					})
				}
			}
			f = f.Assess("rolls to another version", func(ctx context.Context, t *testing.T, c *envconf.Config) context.Context {
				must(t, w.patch(ctx, namespaceOf(ctx), app, upgrade(app, "2.0.0")))
				return settled("2.0.0")(ctx, t, c)
			}).Assess("leaves nothing when it is deleted", step(func(ctx context.Context, t *testing.T, ns string) {
				must(t, w.remove(ctx, ns, app))
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
		fault := []byte(`{"kind": "deaf", "match": {"commands": ["uninstallBiz"]}}`)
		id, err := up.Inject(ctx, p.Status.PodIP, fault)
		must(t, err)
		defer func() { must(t, up.ClearFaults(ctx, p.Status.PodIP)) }()
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
		must(t, up.ClearFaults(ctx, p.Status.PodIP, id))
		eventually(ctx, t, "the Pod and its modules are gone", func(ctx context.Context) error {
			if err := gone(ctx, ns, "left"); err != nil {
				return err
			}
			return gone(ctx, ns, "right")
		})
	}
}
