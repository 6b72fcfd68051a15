package controller

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// TestReadinessDoesNotDependOnBroker checks that a controller that is not connected to its broker is ready, because
// bases over HTTP and a rollout of the controller depend on its readiness. Only /tunnelz may return an error.
func TestReadinessDoesNotDependOnBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // the port of the broker, which is not started yet
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := prepare(Options{Config: &rest.Config{}, ClientID: "c", MQTT: &MQTTOptions{Broker: l.Addr().String()},
		HTTP: &HTTPOptions{Addr: "127.0.0.1:0"}, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = c.wire(fake.NewClientset(), &rest.Config{})
	}
	if err != nil {
		t.Fatal(err)
	}
	health := c.health()
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		health.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	is := func(path string, status int, text string) {
		t.Helper()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(time.Minute); ; <-tick.C {
			code, body := ask(path)
			if code == status && strings.Contains(body, text) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s answers %d %q, want %d %q", path, code, body, status, text)
			}
		}
	}
	is("/healthz", 200, "ok")
	is("/readyz", 503, errNotSynced.Error())
	is("/tunnelz", 503, errNotSynced.Error())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	is("/readyz", 200, "ok")
	is("/tunnelz", 503, "MQTT")
	is("/readyz", 200, "ok")

	s := broker.New(&broker.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := errors.Join(s.AddHook(new(auth.AllowHook), nil), s.AddListener(listeners.NewNet("t", l)),
		s.Serve()); err != nil {
		t.Fatal(err)
	}
	is("/tunnelz", 200, "ok")
	_ = s.Close() // the error does not matter
	is("/tunnelz", 503, "MQTT")
	is("/readyz", 200, "ok")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	is("/readyz", 503, errNotStarted.Error())
}
