package realbase

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// beat is the time between two heartbeats over MQTT.
const beat = 10 * time.Second

// If the broker is unavailable for longer than the heartbeat interval, a base never sends heartbeats again. It still
// executes commands when the broker is available again, and the controller continues to use it.
func TestHeartbeatsEnd(t *testing.T) {
	o := options(t, recording.MQTT, recording.Settings{})
	b, ns := start(t, o), namespace(t)
	must(t, shared.Must(t.Context(), "component", "stop", "broker"))
	eventually(t, "the base has sent its last heartbeat", func(context.Context) error {
		log, err := os.ReadFile(o.Log)
		if err == nil && !strings.Contains(string(log), "that was the last heartbeat") {
			err = errors.New("the base's log does not say so")
		}
		return err
	})
	must(t, shared.Must(t.Context(), "component", "start", "broker"))
	said := listen(t, "koupleless_"+mqtt.Env+"/"+o.Identity+"/base/+")
	select { // a command that comes before the base has subscribed again is lost
	case topic := <-said:
		if !strings.HasSuffix(topic, "/base/health") && !strings.HasSuffix(topic, "/base/simpleBiz") {
			t.Fatalf("the base speaks on %s, unasked", topic)
		}
	case <-time.After(patience):
		t.Fatal("the controller does not find the base again")
	}
	over := time.After(beat + beat/2)

	pod := module.Pod(ns, "shop", shop(b, "shop", "1.0.0", fileURL(ShopJar1)))
	_, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	ready(t, ns, "shop")
	b.has(t, "shop:1.0.0 activated")
	for done := false; !done; {
		select {
		case topic := <-said:
			if strings.HasSuffix(topic, "/base/heart") {
				t.Error("the base sends heartbeats again")
			}
		case <-over:
			done = true
		}
	}
	remove(t, ns, "shop")
	b.has(t)
}

// listen subscribes as the controller may, and tells the topics of messages.
func listen(t *testing.T, topic string) <-chan string {
	t.Helper()
	messages := make(chan string, 1000)
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + mqtt.Addr).SetClientID("listener").
		SetUsername("controller").SetPassword(mqtt.Passwords.Controller))
	done := func(token paho.Token) {
		t.Helper()
		if !token.WaitTimeout(patience) || token.Error() != nil {
			t.Fatalf("listening to %s: %v", topic, token.Error())
		}
	}
	done(c.Connect())
	t.Cleanup(func() { c.Disconnect(0) })
	done(c.Subscribe(topic, 1, func(_ paho.Client, m paho.Message) { messages <- m.Topic() }))
	return messages
}
