package nodes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// aNode returns the Node of base "a".
func aNode(ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
	own := corev1.Taint{Key: labels.TaintVirtualNode, Value: "True", Effect: corev1.TaintEffectNoExecute}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "vnode.a", Labels: map[string]string{labels.Component: labels.Vnode}},
		Spec:       corev1.NodeSpec{Taints: append(taints, own)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue},
			{Type: corev1.NodeReady, Status: ready},
		}},
	}
}

func TestWaitRequiresReadyNodeWithoutTaint(t *testing.T) {
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	cases := []struct {
		name string
		node *corev1.Node
		want bool
	}{
		{"Ready", aNode(corev1.ConditionTrue), true},
		{"Ready with the not-ready taint", aNode(corev1.ConditionTrue, notReady), false},
		{"unknown", aNode(corev1.ConditionUnknown), false},
		{"not ready", aNode(corev1.ConditionFalse, notReady), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := New(fake.NewClientset(c.node), "dev", nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					if err := n.Start(ctx); err != nil {
						t.Error(err)
					}
				}()
				limited, done := context.WithTimeout(ctx, time.Minute)
				defer done()
				err := n.Wait(limited, func() []string { return []string{"a"} })
				switch {
				case c.want && err != nil:
					t.Errorf("Wait returned %v", err)
				case !c.want && !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
				}
				if _, ready := n.NodeOf("a"); ready != c.want {
					t.Errorf("ready: %t, want %t", ready, c.want)
				}
			})
		})
	}
}
