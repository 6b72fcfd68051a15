package broker_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
	"k8s.io/client-go/util/cert"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// certificate returns a self-signed certificate and the path of a CA file that contains it.
func certificate(t *testing.T, host string) (*tls.Config, string) {
	t.Helper()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	check.Must(t, err)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	check.Must(t, err)
	return &tls.Config{Certificates: []tls.Certificate{pair}}, write(t, "ca.crt", string(certPEM))
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	check.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// externalBroker starts a broker that simulates an external broker, and returns the settings to connect to it.
func externalBroker(t *testing.T, o broker.Options) (*broker.Broker, v1alpha1.Broker) {
	t.Helper()
	b := run(t, o)
	return b, v1alpha1.Broker{URL: "mqtt://" + b.Addr(), Username: broker.ControllerUser,
		PasswordFile: write(t, "password", b.Passwords().Controller+"\n")}
}

func external(t *testing.T, b v1alpha1.Broker) *broker.External {
	t.Helper()
	e, err := broker.NewExternal(b, "")
	check.Must(t, err)
	return e
}

func TestNewExternalReportsInvalidSettings(t *testing.T) {
	for want, b := range map[string]v1alpha1.Broker{
		"spec.broker.passwordFile": {URL: "mqtt://h", Username: "u", PasswordFile: "nowhere"},
		"spec.broker.caFile":       {URL: "mqtts://h", CAFile: "nowhere"},
		"PEM":                      {URL: "mqtts://h", CAFile: write(t, "ca", "x")},
		"spec.broker.certFile":     {URL: "mqtts://h", CertFile: "nowhere", KeyFile: "nowhere"},
		"spec.broker.url":          {URL: "mqtts://u:p@h"},
	} {
		if _, err := broker.NewExternal(b, ""); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "u:p") {
			t.Errorf("%+v: got error %v, want %q", b, err, want)
		}
	}
}

// TestCheckErrorsContainFix checks that Check returns an error with a fix for each problem of an external broker.
func TestCheckErrorsContainFix(t *testing.T) {
	good, plain := externalBroker(t, broker.Options{})
	serving, ca := certificate(t, "127.0.0.1")
	_, secure := externalBroker(t, broker.Options{ListenOptions: broker.ListenOptions{TLS: serving}})
	secure.URL = strings.Replace(secure.URL, "mqtt:", "mqtts:", 1)
	elsewhere, elsewhereCA := certificate(t, "broker.example")
	_, renamed := externalBroker(t, broker.Options{ListenOptions: broker.ListenOptions{TLS: elsewhere}})
	renamed.URL, renamed.CAFile = strings.Replace(renamed.URL, "mqtt:", "mqtts:", 1), elsewhereCA
	picky := serving.Clone()
	picky.ClientAuth = tls.RequireAnyClientCert
	_, wantsMine := externalBroker(t, broker.Options{ListenOptions: broker.ListenOptions{TLS: picky}})
	wantsMine.URL, wantsMine.CAFile = strings.Replace(wantsMine.URL, "mqtt:", "mqtts:", 1), ca
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	_ = closed.Close() // the port has no listener now
	with := func(b v1alpha1.Broker, change func(*v1alpha1.Broker)) v1alpha1.Broker {
		change(&b)
		return b
	}
	for _, tc := range []struct {
		name, want string
		broker     v1alpha1.Broker
		env        string
	}{
		{"no listener", "start the broker",
			v1alpha1.Broker{URL: "mqtt://" + closed.Addr().String()}, "dev"},
		{"no TLS on the port", "mqtt://",
			with(plain, func(b *v1alpha1.Broker) { b.URL = strings.Replace(b.URL, "mqtt:", "mqtts:", 1) }), "dev"},
		{"TLS on the port", "mqtts://",
			with(secure, func(b *v1alpha1.Broker) { b.URL = strings.Replace(b.URL, "mqtts:", "mqtt:", 1) }), "dev"},
		{"certificate authority", "spec.broker.caFile", secure, "dev"},
		{"host name", "another name", renamed, "dev"},
		{"client certificate", "spec.broker.certFile", wantsMine, "dev"},
		{"password", "--broker-password-file",
			with(plain, func(b *v1alpha1.Broker) { b.PasswordFile = write(t, "password", "wrong") }), "dev"},
		{"no user name", "--broker-username",
			with(plain, func(b *v1alpha1.Broker) { b.Username, b.PasswordFile = "", "" }), "dev"},
		{"subscribe permission", "koupleless_prod/+/base/+", plain, "prod"},
		{"publish permission", `"base"`,
			with(plain, func(b *v1alpha1.Broker) {
				b.Username, b.PasswordFile = broker.BaseUser, write(t, "password", good.Passwords().Base)
			}), "dev"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := external(t, tc.broker).Check(t.Context(), broker.CheckOptions{Env: tc.env})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Check returned %v, want %q", err, tc.want)
			}
		})
	}
	secure.CAFile = ca
	for name, b := range map[string]v1alpha1.Broker{"plain": plain, "TLS": secure} {
		if err := external(t, b).Check(t.Context(), broker.CheckOptions{Env: "Dev"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if stats := good.Stats(); stats.Retained != 0 {
		t.Errorf("%d retained messages after the checks", stats.Retained)
	}
}

// TestCheckErrorsForReturnCodes checks that Check returns a specific error for each CONNACK return code of MQTT 3.1.1
// and MQTT 5, and an error for a rejected subscription.
func TestCheckErrorsForReturnCodes(t *testing.T) {
	var refuse atomic.Int32 // the code of the CONNACK; 0 = the code of the SUBACK is refuseSubscribe
	var refuseSubscribe atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer func() { _ = l.Close() }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for {
				p, err := packets.ReadPacket(conn)
				if err != nil {
					break
				}
				switch p := p.(type) {
				case *packets.ConnectPacket:
					_, _ = conn.Write([]byte{0x20, 2, 0, byte(refuse.Load())})
				case *packets.SubscribePacket:
					answer := []byte{0x90, byte(2 + len(p.Topics)), byte(p.MessageID >> 8), byte(p.MessageID)}
					for range p.Topics {
						answer = append(answer, byte(refuseSubscribe.Load()))
					}
					_, _ = conn.Write(answer)
				}
			}
			_ = conn.Close()
		}
	}()
	check := func() string {
		e := external(t, v1alpha1.Broker{URL: "mqtt://" + l.Addr().String(), Username: "me"})
		return fmt.Sprint(e.Check(t.Context(), broker.CheckOptions{Env: "dev"}))
	}
	for _, tc := range []struct {
		codes []int32
		want  string
	}{
		{[]int32{1, 0x84}, "MQTT 3.1.1"},
		{[]int32{2, 0x85}, `"koupleless@@@koupsandbox-check-`},
		{[]int32{2, 0x85}, "64 bytes"},
		{[]int32{3, 0x88}, "unavailable"},
		{[]int32{4, 5, 0x86, 0x87}, `"me"`},
		{[]int32{0x8a}, "0x8a"},
		{[]int32{0x97}, "quota"},
		{[]int32{0x9d}, "moved"},
		{[]int32{6}, "0x06"},
		{[]int32{0x80}, "0x80"},
		{[]int32{0x95}, "0x95"},
	} {
		for _, code := range tc.codes {
			refuse.Store(code)
			if got := check(); !strings.Contains(got, tc.want) {
				t.Errorf("CONNACK %#x: got %q, want %q", code, got, tc.want)
			}
		}
	}
	refuse.Store(0)
	for _, code := range []int32{0x80, 0x87, 0x97} {
		refuseSubscribe.Store(code)
		if got, want := check(), "koupleless_dev/+/base/+"; !strings.Contains(got, want) {
			t.Errorf("SUBACK %#x: got %q, want %q", code, got, want)
		}
	}
}

// TestCheckFindsOtherClients checks that Check returns an error if another client publishes messages or has left
// retained messages in the environment.
func TestCheckFindsOtherClients(t *testing.T) {
	for _, tc := range []struct {
		name, topic string
		retained    bool
	}{
		{"a heartbeat", "koupleless_dev/b1/base/heart", false},
		{"a retained command", "koupleless_dev/b1/installBiz", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, settings := externalBroker(t, broker.Options{})
			other := connect(t, options(b, controller(b)))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { // repeats until Check has subscribed
				defer close(ended)
				for first := true; ctx.Err() == nil && (first || !tc.retained); first = false {
					if err := waitForToken(other.Publish(tc.topic, 1, tc.retained, "{}")); err != nil {
						t.Error(err)
						return
					}
				}
			}()
			if tc.retained {
				<-ended
			}
			err := external(t, settings).Check(ctx, broker.CheckOptions{Env: "dev", IdleWait: waitTimeout})
			cancel()
			<-ended
			if err == nil || !strings.Contains(err.Error(), tc.topic) ||
				strings.Contains(err.Error(), "retained") != tc.retained ||
				!strings.Contains(err.Error(), "--broker-consent") {
				t.Errorf("Check returned %v", err)
			}
			if err := external(t, settings).Check(t.Context(), broker.CheckOptions{Env: "dev"}); err != nil {
				t.Errorf("with consent: %v", err)
			}
		})
	}
	_, settings := externalBroker(t, broker.Options{})
	if err := external(t, settings).Check(t.Context(),
		broker.CheckOptions{Env: "dev", IdleWait: time.Millisecond}); err != nil {
		t.Errorf("without other clients: %v", err)
	}
}

// relay starts a relay that is stopped at the end of the test.
func relay(t *testing.T, to *broker.External, addr string) (r *broker.Relay, end func()) {
	t.Helper()
	r, err := broker.NewRelay(to, broker.ListenOptions{Addr: addr})
	check.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	end = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the relay ended with %v", err)
		}
		ended <- nil
	}
	t.Cleanup(end)
	return r, end
}

// throughRelay returns the options of a client that connects to the relay: over TCP like the controller, or in memory
// like a base.
func throughRelay(t *testing.T, b *broker.Broker, r *broker.Relay, name string, memory bool) *paho.ClientOptions {
	t.Helper()
	o := options(b, login{"koupleless@@@" + name, broker.ControllerUser, b.Passwords().Controller})
	o.Servers = nil
	o.AddBroker("tcp://" + r.Addr())
	if memory {
		o.SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) { return r.Dial(t.Context()) })
	}
	return o
}

// TestRelay checks that the relay forwards messages, and that closing or pausing the relay affects only clients of
// the relay.
func TestRelay(t *testing.T) {
	serving, ca := certificate(t, "127.0.0.1")
	b, settings := externalBroker(t, broker.Options{ListenOptions: broker.ListenOptions{TLS: serving}})
	settings.URL, settings.CAFile = strings.Replace(settings.URL, "mqtt:", "mqtts:", 1), ca
	to := external(t, settings)
	r, end := relay(t, to, "")
	if _, err := broker.NewRelay(to, broker.ListenOptions{Addr: r.Addr()}); err == nil ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("a second relay on the same address returned %v", err)
	}

	other := options(b, controller(b))
	other.Servers = nil
	trusting := serving.Clone()
	trusting.InsecureSkipVerify = true //nolint:gosec // of this test's own broker
	outside := connect(t, other.AddBroker("ssl://"+b.Addr()).SetTLSConfig(trusting))

	received := make(chan string, 10)
	lost := make(chan string, 2)
	for name, memory := range map[string]bool{"tcp": false, "memory": true} {
		c := connect(t, throughRelay(t, b, r, name, memory).SetConnectionLostHandler(
			func(paho.Client, error) { lost <- name }))
		if err := waitForToken(c.Subscribe("koupleless_dev/b1/"+name, 1,
			func(_ paho.Client, m paho.Message) { received <- string(m.Payload()) })); err != nil {
			t.Fatal(err)
		}
	}
	send := func(text string) {
		t.Helper()
		for _, name := range []string{"tcp", "memory"} {
			check.Must(t, waitForToken(outside.Publish("koupleless_dev/b1/"+name, 1, false, name+" "+text)))
		}
	}
	expect := func(text string) {
		t.Helper()
		want := map[string]bool{"tcp " + text: true, "memory " + text: true}
		for len(want) > 0 {
			select {
			case got := <-received:
				if !want[got] {
					t.Fatalf("received %q, want one of %v", got, want)
				}
				delete(want, got)
			case <-time.After(waitTimeout):
				t.Fatalf("not received: %v", want)
			}
		}
	}
	send("one")
	expect("one")

	r.Pause()
	send("two") // the broker itself is not paused
	waiting := paho.NewClient(throughRelay(t, b, r, "late", true)).Connect()
	select {
	case got := <-received:
		t.Errorf("received %q through the paused relay", got)
	case <-waiting.Done():
		t.Error("a handshake completed through the paused relay")
	case <-time.After(50 * time.Millisecond):
	}
	r.Resume()
	expect("two")
	if err := waitForToken(waiting); err != nil {
		t.Errorf("connection during the pause: %v", err)
	}

	end()
	for range 2 {
		select {
		case <-lost:
		case <-time.After(waitTimeout):
			t.Fatal("a connection was not closed")
		}
	}
	if _, err := r.Dial(t.Context()); err == nil {
		t.Error("a stopped relay accepted a connection")
	}
	if !outside.IsConnectionOpen() {
		t.Error("another client of the broker was disconnected")
	}
	again, _ := relay(t, to, r.Addr())
	connect(t, throughRelay(t, b, again, "tcp", false))
	if err := again.Err(); err != nil {
		t.Errorf("Err returned %v", err)
	}
}

// TestRelayReportsUnreachableBroker checks that Err returns an error while the external broker is unreachable, and
// nil after the external broker has recovered.
func TestRelayReportsUnreachableBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	_ = l.Close() // the port has no listener now
	r, _ := relay(t, external(t, v1alpha1.Broker{URL: "mqtt://" + l.Addr().String()}), "")
	if err := r.Err(); err != nil {
		t.Errorf("Err before the first connection: %v", err)
	}
	near, err := net.Dial("tcp", r.Addr())
	check.Must(t, err)
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection to the unreachable broker returned %v", err)
	}
	_ = near.Close()
	if err := r.Err(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Err returned %v", err)
	}
	b := run(t, broker.Options{ListenOptions: broker.ListenOptions{Addr: l.Addr().String()}})
	connect(t, throughRelay(t, b, r, "base", true))
	if err := r.Err(); err != nil {
		t.Errorf("Err after the broker started: %v", err)
	}
}
