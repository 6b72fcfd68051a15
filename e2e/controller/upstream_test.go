package controller

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// TestMigrationFromUpstream checks that the bundled controller takes over the Node, the Pod and the installed module
// of ModuleController V2 (upstream) without changing them, and clears the commands that upstream has retained on the
// broker.
func TestMigrationFromUpstream(t *testing.T) {
	t.Parallel()
	a, ns, name := newArea(t), namespace(t), uniqueName()
	identity, spec := envconf.RandomName("b", 16), singleModule("kept", "1.0.0", name)
	install := "koupleless_" + a.env + "/" + identity + "/installBiz"
	payload := fmt.Sprintf(`{"bizName":"kept","bizVersion":"1.0.0","bizUrl":%q}`, spec.Spec.Containers[0].Image)
	// The message is published before the base subscribes, because mochi-mqtt has a data race between a retained
	// message and a subscription with a wildcard.
	if token := connectMQTT(t, a, "existing").Publish(install, 1, true, payload); !token.WaitTimeout(10*time.Second) ||
		token.Error() != nil {
		t.Fatalf("publishing: %v", token.Error())
	}
	b := a.base(t, fakebase.Options{Identity: identity, Name: name, Activation: fakebase.ActivateNewModule})
	waitModules(t, b, "kept:1.0.0 ACTIVATED")
	installs := b.countChanges("kept:1.0.0", fakebase.StateResolved)

	nodeName := "vnode." + identity + "." + a.env
	node := createUpstreamNode(t, a, nodeName, name)
	spec.Spec.NodeName = nodeName
	createPod(t, ns, "kept", spec)

	a.controller(t, "ours", map[string]string{"HEALTH_INTERVAL": "1s", "LIST_INTERVAL": "1s"})
	readyPod(t, ns, "kept")
	live, err := client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	must(t, err)
	if live.UID != node.UID || live.Annotations[labels.Holder] != "ours" {
		t.Errorf("after the migration, the Node has the UID %s and the holder %q", live.UID,
			live.Annotations[labels.Holder])
	}
	must(t, nodeDeleted(t.Context(), b.node()))
	if n := b.countChanges("kept:1.0.0", fakebase.StateResolved); n != installs {
		t.Errorf("the module was installed %d times; before the migration, %d times", n, installs)
	}
	lateClient := connectMQTT(t, a, "late")
	eventually(t, "the broker does not retain the command", func(context.Context) error {
		got := make(chan paho.Message, 10)
		if token := lateClient.Subscribe(install, 1,
			func(_ paho.Client, m paho.Message) { got <- m }); !token.WaitTimeout(time.Second) || token.Error() != nil {
			return fmt.Errorf("subscribing: %w", token.Error())
		}
		defer lateClient.Unsubscribe(install)
		if token := lateClient.Publish(install, 1, false, "marker"); !token.WaitTimeout(time.Second) ||
			token.Error() != nil {
			return fmt.Errorf("publishing: %w", token.Error())
		}
		select {
		case m := <-got:
			if m.Retained() {
				return fmt.Errorf("the broker retains %s", m.Payload())
			}
			return nil
		case <-time.After(time.Second):
			return errors.New("no message arrived")
		}
	})
}

// TestMigrationBackToUpstream follows the documented way back to ModuleController V2 (upstream): it deletes the
// Leases of all Nodes in the environment by label, and the Nodes that the bundled controller created. All modules
// must stay installed, and Pods on Nodes with upstream names must stay on their Nodes.
func TestMigrationBackToUpstream(t *testing.T) {
	t.Parallel()
	a, ns := newArea(t), namespace(t)
	takenName, addedName := uniqueName(), uniqueName()
	taken := a.base(t, fakebase.Options{Name: takenName, Activation: fakebase.ActivateNewModule})
	node := createUpstreamNode(t, a, "vnode."+taken.Identity()+"."+a.env, takenName)
	added := a.base(t, fakebase.Options{Name: addedName, Activation: fakebase.ActivateNewModule})
	ours := a.controller(t, "ours", nil)
	createPod(t, ns, "taken", singleModule("taken", "1.0.0", takenName))
	createPod(t, ns, "added", singleModule("added", "1.0.0", addedName))
	uid := readyPod(t, ns, "taken").UID
	if p := readyPod(t, ns, "added"); p.Spec.NodeName != added.node() {
		t.Fatalf("the Pod is on Node %s, want %s", p.Spec.NodeName, added.node())
	}

	ours.signal(t, syscall.SIGTERM)
	<-ours.done
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	must(t, leases.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{
		LabelSelector: labels.Component + "=" + labels.VnodeLease + "," + labels.Env + "=" + a.env,
	}))
	for _, name := range []string{node.Name, added.node()} {
		if _, err := leases.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Lease of Node %s was not deleted: %v", name, err)
		}
	}
	must(t, client.CoreV1().Nodes().Delete(t.Context(), added.node(), metav1.DeleteOptions{}))
	waitDeleted(t, ns, "added") // Kubernetes deletes the Pods of deleted Nodes
	waitModules(t, taken, "taken:1.0.0 ACTIVATED")
	waitModules(t, added, "added:1.0.0 ACTIVATED")
	for b, id := range map[*base]string{taken: "taken:1.0.0", added: "added:1.0.0"} {
		if n := b.countChanges(id, fakebase.StateResolved); n != 1 {
			t.Errorf("%s was installed %d times", id, n)
		}
	}
	// Kubernetes may have set the Pod Not Ready, because no controller renews the Lease of its Node.
	p, err := client.CoreV1().Pods(ns).Get(t.Context(), "taken", metav1.GetOptions{})
	must(t, err)
	if p.UID != uid || p.Spec.NodeName != node.Name || p.DeletionTimestamp != nil {
		t.Errorf("the Pod was replaced, moved or deleted: %s", describe(p))
	}
}

// createUpstreamNode creates a Node in the same way as ModuleController V2 (upstream), with a Lease that expires
// after 4 s.
func createUpstreamNode(t *testing.T, a area, nodeName, baseName string) *corev1.Node {
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
			HolderIdentity: ptr.To("existing"), LeaseDurationSeconds: ptr.To[int32](4),
			RenewTime: ptr.To(metav1.NowMicro()),
		},
	}, metav1.CreateOptions{})
	must(t, err)
	return node
}

// connectMQTT returns a client that is connected to the area's broker. The client disconnects when the test ends.
func connectMQTT(t *testing.T, a area, id string) paho.Client {
	t.Helper()
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://127.0.0.1:" + a.port).SetClientID(id))
	if token := c.Connect(); !token.WaitTimeout(10*time.Second) || token.Error() != nil {
		t.Fatalf("connecting: %v", token.Error())
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c
}
