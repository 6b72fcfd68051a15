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

// heartbeatInterval is the interval between a base's heartbeats over MQTT.
const heartbeatInterval = 10 * time.Second

// TestHeartbeatsEnd checks the case of a base that never sends heartbeats again, because the broker was unavailable
// for longer than the heartbeat interval. When the broker is available again, the base must still execute commands,
// and the controller must continue to use the base.
func TestHeartbeatsEnd(t *testing.T) {
	o := options(t, recording.MQTT, recording.Settings{})
	b, ns := start(t, o), namespace(t)
	must(t, shared.Must(t.Context(), "component", "stop", "broker"))
	eventually(t, "the base has sent its last heartbeat", func(context.Context) error {
		log, err := os.ReadFile(o.Log)
		if err == nil && !strings.Contains(string(log), "that was the last heartbeat") {
			err = errors.New("the log of the base does not contain the message")
		}
		return err
	})
	must(t, shared.Must(t.Context(), "component", "start", "broker"))
	topics := subscribe(t, "koupleless_"+mqtt.Env+"/"+o.Identity+"/base/+")
	select { // a command is lost if the base has not subscribed again
	case topic := <-topics:
		if !strings.HasSuffix(topic, "/base/health") && !strings.HasSuffix(topic, "/base/simpleBiz") {
			t.Fatalf("the base sent a message to %s without a query", topic)
		}
	case <-time.After(timeout):
		t.Fatal("the base did not answer a query of the controller")
	}
	end := time.After(heartbeatInterval + heartbeatInterval/2)

	pod := module.Pod(ns, "shop", shopTemplate(b, "shop", "1.0.0", fileURL(ShopJar1)))
	_, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	waitReady(t, ns, "shop")
	b.waitModules(t, "shop:1.0.0 activated")
	for done := false; !done; {
		select {
		case topic := <-topics:
			if strings.HasSuffix(topic, "/base/heart") {
				t.Error("the base sent a heartbeat")
			}
		case <-end:
			done = true
		}
	}
	deletePod(t, ns, "shop")
	b.waitModules(t)
}

// subscribe subscribes to a topic filter with the permissions of the controller. The returned channel receives the
// topic of each message.
func subscribe(t *testing.T, topic string) <-chan string {
	t.Helper()
	messages := make(chan string, 1000)
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + mqtt.Addr).SetClientID("listener").
		SetUsername("controller").SetPassword(mqtt.Passwords.Controller))
	done := func(token paho.Token) {
		t.Helper()
		if !token.WaitTimeout(timeout) || token.Error() != nil {
			t.Fatalf("subscribing to %s: %v", topic, token.Error())
		}
	}
	done(c.Connect())
	t.Cleanup(func() { c.Disconnect(0) })
	done(c.Subscribe(topic, 1, func(_ paho.Client, m paho.Message) { messages <- m.Topic() }))
	return messages
}
