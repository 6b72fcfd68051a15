package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

func nodeGone(ctx context.Context, name string) error {
	_, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("node %s is there", name)
	}
	return err
}

// A Node is under memory pressure while its base's metaspace is full (behaviour 1).
func TestMemoryPressure(t *testing.T) {
	t.Parallel()
	b := overMQTT(t, fakebase.Options{Name: kind()})
	nodesReady(t, b)
	must(t, nodeIs(t.Context(), b, corev1.NodeMemoryPressure, corev1.ConditionFalse))
	id := b.inject(t, fault.Fault{Kind: fault.KindMetaspaceFull})
	is := func(want corev1.ConditionStatus) {
		t.Helper()
		eventually(t, "MemoryPressure is "+string(want), func(ctx context.Context) error {
			return nodeIs(ctx, b, corev1.NodeMemoryPressure, want)
		})
	}
	is(corev1.ConditionTrue)
	b.Clear(id)
	is(corev1.ConditionFalse)
}

// slack is how much later than its time something may happen on a busy machine.
const slack = 4 * time.Second

// The Node of a silent base turns Unknown and its Pods Not Ready; when the base
// counts as dead, all of them go, whatever the tunnel.
func TestSilentBase(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, fakebase.Options) *base{"mqtt": overMQTT, "http": overHTTP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, name := namespace(t), kind()
			b := start(t, fakebase.Options{Name: name})
			pod(t, ns, "m", one("m", "1.0.0", name))
			readyPod(t, ns, "m")
			f, began := record(t, ns), time.Now()
			b.inject(t, fault.Fault{Kind: fault.KindDisconnect})
			eventually(t, "Ready is Unknown", func(ctx context.Context) error { return nodeIs(ctx, b, corev1.NodeReady, corev1.ConditionUnknown) })
			gone(t, ns, "m")
			eventually(t, "the Node is gone", func(ctx context.Context) error { return nodeGone(ctx, b.node()) })
			if took := time.Since(began); took > deadAfter+slack {
				t.Errorf("Node and Pod went after %s", took)
			}
			turns := f.turns(t)
			if len(turns) < 3 || turns[1].ready || turns[1].deleted {
				t.Fatalf("the Pod went without turning Not Ready: %v", turns)
			}
			if took := turns[1].at.Sub(began); took < unreachableAfter-slack/2 || took > unreachableAfter+slack {
				t.Errorf("the Pod turned Not Ready after %s, not %s", took, unreachableAfter)
			}
			for _, c := range turns[1].pod.Status.Conditions {
				if c.Type == corev1.PodReady && c.Reason != "BaseInstanceNotReady" {
					t.Errorf("the Pod turned Not Ready because %s: %s", c.Reason, c.Message)
				}
			}
		})
	}
}

// A base whose heartbeats stay out, but which answers, is kept alive by the questions.
func TestLostHeartbeats(t *testing.T) {
	t.Parallel()
	b := overMQTT(t, fakebase.Options{Name: kind()})
	nodesReady(t, b)
	b.inject(t, fault.Fault{Kind: fault.KindSilent})
	n, err := client.CoreV1().Nodes().Get(t.Context(), b.node(), metav1.GetOptions{})
	must(t, err)
	began := time.Now()
	eventually(t, "time enough for it to be dead has passed", func(ctx context.Context) error {
		if err := nodeIs(ctx, b, corev1.NodeReady, corev1.ConditionTrue); err != nil {
			t.Fatal(err)
		}
		if passed := time.Since(began); passed < deadAfter+2*time.Second {
			return fmt.Errorf("%s have passed", passed)
		}
		return nil
	})
	now, err := client.CoreV1().Nodes().Get(t.Context(), b.node(), metav1.GetOptions{})
	must(t, err)
	if now.UID != n.UID {
		t.Error("the Node was made anew")
	}
}
