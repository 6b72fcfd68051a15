package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// The documents' anti-affinity on zones puts one Pod on each base; one more than
// there are bases has to wait.
func TestAntiAffinity(t *testing.T) {
	const app = "spread"
	f := features.New("anti-affinity").
		Setup(step(func(ctx context.Context, t *testing.T, ns string) {
			pod := template(app, "1.0.0")
			module.OnePerBase(&pod)
			_, err := client.AppsV1().Deployments(ns).Create(ctx, module.Deployment(ns, app, sharedBases, pod), metav1.CreateOptions{})
			must(t, err)
		})).
		Assess("puts one Pod on each base", step(func(ctx context.Context, t *testing.T, ns string) {
			eventually(ctx, t, "each base has the module", func(ctx context.Context) error {
				if err := serves(ctx, client, up, ns, sharedBases); err != nil {
					return err
				}
				return spread(ctx, app, sharedBases)
			})
		})).
		Assess("lets one more wait", step(func(ctx context.Context, t *testing.T, ns string) {
			_, err := client.AppsV1().Deployments(ns).Patch(ctx, app, apitypes.MergePatchType, replicas(sharedBases+1), metav1.PatchOptions{}, "scale")
			must(t, err)
			eventually(ctx, t, "the Pod that is one too many is unschedulable", func(ctx context.Context) error { return waits(ctx, ns, 1) })
			must(t, spread(ctx, app, sharedBases))
		}))
	testenv.Test(t, f.Feature())
}

// spread checks that exactly count bases have a module.
func spread(ctx context.Context, name string, count int) error {
	found, err := installed(ctx, up, name)
	if err == nil && len(found) != count {
		err = fmt.Errorf("%d bases have the module, not %d", len(found), count)
	}
	return err
}

// waits checks that exactly count Pods find no base.
func waits(ctx context.Context, namespace string, count int) error {
	list, err := pods(ctx, client, namespace)
	if err != nil {
		return err
	}
	unschedulable := 0
	for _, p := range list {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable &&
				p.Status.Phase == corev1.PodPending && p.Spec.NodeName == "" {
				unschedulable++
			}
		}
	}
	if unschedulable != count {
		return fmt.Errorf("%d of %d Pods find no base, not %d", unschedulable, len(list), count)
	}
	return nil
}

// A release of modules for a base version that is not there yet waits, and lands
// when such a base comes.
func TestIncompatibleRelease(t *testing.T) {
	const app, identity = "ahead", "base-of-the-next-release"
	f := features.New("incompatible release").
		Setup(step(func(ctx context.Context, t *testing.T, ns string) {
			pod := template(app, "1.0.0")
			pod.Spec.NodeSelector = map[string]string{module.LabelBaseName: "base", module.LabelBaseVersion: "2.0.0"}
			_, err := client.AppsV1().Deployments(ns).Create(ctx, module.Deployment(ns, app, 2, pod), metav1.CreateOptions{})
			must(t, err)
		})).
		Assess("waits", step(func(ctx context.Context, t *testing.T, ns string) {
			eventually(ctx, t, "no base fits", func(ctx context.Context) error { return waits(ctx, ns, 2) })
			must(t, spread(ctx, app, 0))
		})).
		Assess("lands on a base of that version", step(func(ctx context.Context, t *testing.T, ns string) {
			base := startBase(ctx, t, shared, fakebase.Options{Identity: identity, Name: "base", Version: "2.0.0", IP: "198.19.0.1", HostName: "base-next"})
			eventually(ctx, t, "all Pods are Ready on the new base", func(ctx context.Context) error {
				list, err := pods(ctx, client, ns)
				if err != nil {
					return err
				}
				for _, p := range list {
					if !module.IsReady(&p) || p.Status.PodIP != "198.19.0.1" || p.Spec.NodeName != "vnode."+identity {
						return fmt.Errorf("pod %s has address %q: %s", p.Name, p.Status.PodIP, describe(&p))
					}
				}
				return nil
			})
			biz := base.Status().Biz
			if len(biz) != 1 || biz[0].Name != app || biz[0].Version != "1.0.0" || biz[0].State != "ACTIVATED" {
				t.Errorf("the new base has %+v", biz)
			}
			must(t, spread(ctx, app, 0)) // none of the old ones
		}))
	testenv.Test(t, f.Feature())
	t.Cleanup(func() { // its Node goes, so that other tests find the Nodes of the sandbox's own bases only
		eventually(context.Background(), t, "the new base's Node is gone", func(ctx context.Context) error { return matching(ctx) })
	})
}

// startBase connects one more base to a sandbox, from outside. It ends with the test.
func startBase(ctx context.Context, t *testing.T, b *box.Box, o fakebase.Options) *fakebase.Base {
	t.Helper()
	broker, err := b.Broker()
	must(t, err)
	o.Env = broker.Env
	o.MQTT = &fakebase.MQTTOptions{
		Broker: "tcp://" + broker.Addr, Username: "base", Password: broker.Passwords.Base, ClientPrefix: broker.ClientPrefix,
	}
	base, err := fakebase.New(o)
	must(t, err)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- base.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("base %s ended: %v", o.Identity, err)
		}
	})
	return base
}
