package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// What the existing module controller left is taken over as it is: the Node with its Pod, the module
// that is installed. Its retained commands go (docs: come-from-the-existing-controller).
func TestComingFromTheExistingController(t *testing.T) {
	t.Parallel()
	a, ns, name := newArea(t), namespace(t), kind()
	b := a.base(t, fakebase.Options{Name: name, Activation: fakebase.ActivateNewModule})
	existing := atBroker(t, a, "existing")
	install := "koupleless_" + a.env + "/" + b.Identity() + "/installBiz"
	spec := one("kept", "1.0.0", name)
	eventually(t, "the base has installed what it was told", func(context.Context) error {
		payload := fmt.Sprintf(`{"bizName":"kept","bizVersion":"1.0.0","bizUrl":%q}`, spec.Spec.Containers[0].Image)
		if token := existing.Publish(install, 1, true, payload); !token.WaitTimeout(time.Second) || token.Error() != nil {
			return fmt.Errorf("publishing: %w", token.Error())
		}
		if got := b.modules(); len(got) != 1 || got[0] != "kept:1.0.0 ACTIVATED" {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
	installs := b.times("kept:1.0.0", fakebase.StateResolved)

	nodeName := "vnode." + b.Identity() + "." + a.env
	node := theirNode(t, a, nodeName, name)
	spec.Spec.NodeName = nodeName
	pod(t, ns, "kept", spec)

	a.controller(t, "ours", map[string]string{"HEALTH_INTERVAL": "1s", "LIST_INTERVAL": "1s"})
	readyPod(t, ns, "kept")
	live, err := client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	must(t, err)
	if live.UID != node.UID || live.Annotations[labels.Holder] != "ours" {
		t.Errorf("the Node of the existing controller has the UID %s and the holder %q", live.UID, live.Annotations[labels.Holder])
	}
	must(t, nodeGone(t.Context(), b.node()))
	if n := b.times("kept:1.0.0", fakebase.StateResolved); n != installs {
		t.Errorf("the module was installed %d times, and %d times before", n, installs)
	}
	late := atBroker(t, a, "late")
	eventually(t, "the broker has forgotten the command", func(context.Context) error {
		got := make(chan paho.Message, 10)
		if token := late.Subscribe(install, 1, func(_ paho.Client, m paho.Message) { got <- m }); !token.WaitTimeout(time.Second) || token.Error() != nil {
			return fmt.Errorf("subscribing: %w", token.Error())
		}
		defer late.Unsubscribe(install)
		if token := late.Publish(install, 1, false, "marker"); !token.WaitTimeout(time.Second) || token.Error() != nil {
			return fmt.Errorf("publishing: %w", token.Error())
		}
		select {
		case m := <-got:
			if m.Retained() {
				return fmt.Errorf("it still has %s", m.Payload())
			}
			return nil
		case <-time.After(time.Second):
			return errors.New("nothing came")
		}
	})
}

// theirNode is a Node as the existing controller writes it, with its Lease, which it holds for 4 s.
func theirNode(t *testing.T, a area, nodeName, baseName string) *corev1.Node {
	t.Helper()
	list := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100")}
	node, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{
			module.LabelComponent: "vnode", labels.Env: a.env, module.LabelBaseName: baseName,
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: module.TaintVirtualNode, Value: "True", Effect: corev1.TaintEffectNoExecute},
			{Key: module.TaintEnv, Value: a.env, Effect: corev1.TaintEffectNoExecute},
		}},
		Status: corev1.NodeStatus{Capacity: list, Allocatable: list},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("existing"), LeaseDurationSeconds: ptr.To[int32](4), RenewTime: ptr.To(metav1.NowMicro()),
		},
	}, metav1.CreateOptions{})
	must(t, err)
	return node
}

func atBroker(t *testing.T, a area, id string) paho.Client {
	t.Helper()
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://127.0.0.1:" + a.port).SetClientID(id))
	if token := c.Connect(); !token.WaitTimeout(10*time.Second) || token.Error() != nil {
		t.Fatalf("connecting: %v", token.Error())
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c
}
