package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox"
)

// hostile is a message on a base's topic that no base sends.
type hostile struct {
	topic        string // last part
	payload      []byte
	kind, reason string // labels of the metric that counts it
}

var hostileMessages = []hostile{
	{"heart", []byte("this is no JSON"), "heart", "malformed"},
	{"heart", []byte(`{"publishTimestamp": 1}`), "heart", "malformed"},
	{"heart", []byte(`{"data": {"state": "ACTIVATED"}}`), "heart", "malformed"},
	{"heart", []byte(`{"data": {"baseMetadata": {"identity": "somebody-else", "name": "base", "version": "1"}, "state": "ACTIVATED"}}`), "heart", "wrong-identity"},
	{"health", bytes.Repeat([]byte("x"), 3<<19), "health", "oversized"}, // 1.5 MB
	{"health", []byte(`{"data": {"code": "SUCCESS"}}`), "health", "malformed"},
	{"simpleBiz", []byte(`{"data": "all of them"}`), "simpleBiz", "malformed"},
	// Believed, it would say that the base has lost all its modules.
	{"simpleBiz", []byte(`{"data": [], "publishTimestamp": 1}`), "simpleBiz", "stale"},
	{"bizOperation", []byte(`{"data": {"command": "installBiz"}}`), "bizOperation", "malformed"},
	{"gossip", []byte(`{"data": {}}`), "other", "unexpected"},
}

// Any client with the controller's password can publish on a base's topics. The controller counts invalid messages
// and ignores them.
func TestHostileMessages(t *testing.T) {
	const app = "calm"
	f := features.New("hostile messages").
		Setup(step(func(ctx context.Context, t *testing.T, ns string) {
			set := module.DaemonSet(ns, app, module.Template(app, module.Container(app, "1.0.0")))
			_, err := client.AppsV1().DaemonSets(ns).Create(ctx, set, metav1.CreateOptions{})
			must(t, err)
			eventually(ctx, t, "every base has a module", func(ctx context.Context) error { return serves(ctx, client, up, ns, sharedBases) })
		})).
		Assess("are counted and change nothing", step(func(ctx context.Context, t *testing.T, ns string) {
			before, err := still(ctx, ns)
			must(t, err)
			publish := intruder(ctx, t)
			list, err := up.Bases(ctx, "")
			must(t, err)
			for _, m := range hostileMessages {
				count, err := rejected(ctx, m)
				must(t, err)
				for _, b := range list {
					publish(b.Identity, m.topic, false, m.payload)
				}
				eventually(ctx, t, fmt.Sprintf("the messages on %s are counted as %s", m.topic, m.reason), func(ctx context.Context) error {
					now, err := rejected(ctx, m)
					if err == nil && now != count+float64(len(list)) {
						err = fmt.Errorf("%v were counted before, %v are now", count, now)
					}
					return err
				})
			}
			unaffected(ctx, t, ns, before)
		})).
		Assess("that are retained are not believed after a restart", step(func(ctx context.Context, t *testing.T, ns string) {
			before, err := still(ctx, ns)
			must(t, err)
			publish := intruder(ctx, t)
			list, err := up.Bases(ctx, "")
			must(t, err)
			retained := hostile{topic: "simpleBiz", kind: "simpleBiz", reason: "retained"}
			for _, b := range list {
				publish(b.Identity, retained.topic, true, []byte(`{"data": "nothing"}`))
			}
			must(t, up.Act(ctx, sandbox.ActRequest{Component: "module-controller", Action: "restart"}))
			eventually(ctx, t, "the retained messages are counted", func(ctx context.Context) error {
				n, err := rejected(ctx, retained)
				if err == nil && n != float64(len(list)) {
					err = fmt.Errorf("%v are counted", n)
				}
				return err
			})
			for _, b := range list {
				publish(b.Identity, retained.topic, true, nil) // deletes the retained message
			}
			unaffected(ctx, t, ns, before)
		}))
	box.Env.Test(t, f.Feature())
}

// rejected is how many messages of a kind the controller has counted.
func rejected(ctx context.Context, m hostile) (float64, error) {
	metrics, err := shared.ControllerMetrics(ctx)
	if err != nil {
		return 0, err
	}
	return metrics.Sum("module_controller_rejected_messages_total", func(labels map[string]string) bool {
		return labels["kind"] == m.kind && labels["reason"] == m.reason
	}), nil
}

// intruder connects as the controller does, and returns how to publish on a
// base's topic.
func intruder(ctx context.Context, t *testing.T) func(identity, topic string, retained bool, payload []byte) {
	t.Helper()
	b, err := shared.Broker()
	must(t, err)
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + b.Addr).SetClientID(b.ClientPrefix + "@@@intruder").
		SetUsername("controller").SetPassword(b.Passwords.Controller).SetAutoReconnect(false))
	done := func(token paho.Token) {
		select {
		case <-token.Done():
			must(t, token.Error())
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
	done(c.Connect())
	t.Cleanup(func() { c.Disconnect(0) })
	return func(identity, topic string, retained bool, payload []byte) {
		done(c.Publish("koupleless_"+b.Env+"/"+identity+"/base/"+topic, 1, retained, payload))
	}
}

// podState is what must not change of a Pod.
type podState struct {
	Node    string
	ReadyAt metav1.Time
}

// still notes Pods by name, and since when they are Ready.
func still(ctx context.Context, namespace string) (map[string]podState, error) {
	list, err := pods(ctx, client, namespace)
	if err != nil {
		return nil, err
	}
	found := map[string]podState{}
	for _, p := range list {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				found[p.Name] = podState{p.Spec.NodeName, c.LastTransitionTime}
			}
		}
	}
	if len(found) != len(list) {
		return nil, fmt.Errorf("only %d of %d Pods are Ready", len(found), len(list))
	}
	return found, nil
}

// unaffected checks that the controller is ready and that no Pod, Node or module
// has changed.
func unaffected(ctx context.Context, t *testing.T, namespace string, before map[string]podState) {
	t.Helper()
	answer, status, err := shared.AskController(ctx, "health", "/tunnelz")
	must(t, err)
	if status != http.StatusOK {
		t.Errorf("the controller is not ready or not connected: %s", answer)
	}
	after, err := still(ctx, namespace)
	must(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("Pods (-before +after):\n%s", diff)
	}
	must(t, matching(ctx))
	must(t, serves(ctx, client, up, namespace, len(before)))
}
