package fakebase

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"testing"

	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"

	"github.com/koupleless/koupsandbox/fakebase/internal/mqtt"
)

// TestBrokers checks that a base can connect to brokers over TCP, with and without TLS, and that a wrong password is
// refused.
func TestBrokers(t *testing.T) {
	certificates := httptest.NewTLSServer(nil)
	defer certificates.Close()
	pool := x509.NewCertPool()
	pool.AddCert(certificates.Certificate())
	for _, scheme := range []string{"tcp", "ssl"} {
		t.Run(scheme, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addr := ln.Addr().String()
			if scheme == "ssl" {
				ln = tls.NewListener(ln, &tls.Config{Certificates: certificates.TLS.Certificates})
			}
			s := broker.New(&broker.Options{Logger: slog.New(slog.DiscardHandler)})
			if err := s.AddHook(new(auth.Hook), &auth.Options{Ledger: &auth.Ledger{Auth: auth.AuthRules{
				{Username: "base", Password: "secret", Allow: true},
			}}}); err != nil {
				t.Fatal(err)
			}
			if err := s.AddListener(listeners.NewNet("l", ln)); err != nil {
				t.Fatal(err)
			}
			if err := s.Serve(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			o := MQTTOptions{Broker: scheme + "://" + addr, Username: "base", Password: "secret",
				TLS: &tls.Config{RootCAs: pool}}
			b := start(t, Options{Identity: "b1", MQTT: &o})
			waitForStatus(t, b, func(s Status) bool { return s.Connected })
			if _, there := s.Clients.Get("koupleless@@@b1"); !there {
				t.Errorf("connected clients = %v", s.Clients.GetAll())
			}
			wrong := o
			wrong.Password = "guess"
			refused, err := New(Options{Identity: "b2", Faithful: true, MQTT: &wrong})
			if err != nil {
				t.Fatal(err)
			}
			if err := refused.Start(t.Context()); !errors.Is(err, mqtt.ErrRefused) {
				t.Errorf("error with a wrong password = %v", err)
			}
		})
	}
}
