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

// certificate makes one that signs itself, and the file to trust it by.
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

// theirs is a broker as a user has one, and the settings that lead there.
func theirs(t *testing.T, o broker.Options) (*broker.Broker, v1alpha1.Broker) {
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

func TestExternalFilesThatAreWrong(t *testing.T) {
	for want, b := range map[string]v1alpha1.Broker{
		"spec.broker.passwordFile": {URL: "mqtt://h", Username: "u", PasswordFile: "nowhere"},
		"spec.broker.caFile":       {URL: "mqtts://h", CAFile: "nowhere"},
		"PEM":                      {URL: "mqtts://h", CAFile: write(t, "ca", "x")},
		"spec.broker.certFile":     {URL: "mqtts://h", CertFile: "nowhere", KeyFile: "nowhere"},
		"spec.broker.url":          {URL: "mqtts://u:p@h"},
	} {
		if _, err := broker.NewExternal(b, ""); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "u:p") {
			t.Errorf("%+v gave %v, want %q", b, err, want)
		}
	}
}

// Each thing that can be wrong with the user's broker is one sentence that says what
// to do.
func TestCheckRefuses(t *testing.T) {
	good, plain := theirs(t, broker.Options{})
	serving, ca := certificate(t, "127.0.0.1")
	_, secure := theirs(t, broker.Options{ListenOptions: broker.ListenOptions{TLS: serving}})
	secure.URL = strings.Replace(secure.URL, "mqtt:", "mqtts:", 1)
	elsewhere, elsewhereCA := certificate(t, "broker.example")
	_, renamed := theirs(t, broker.Options{ListenOptions: broker.ListenOptions{TLS: elsewhere}})
	renamed.URL, renamed.CAFile = strings.Replace(renamed.URL, "mqtt:", "mqtts:", 1), elsewhereCA
	picky := serving.Clone()
	picky.ClientAuth = tls.RequireAnyClientCert
	_, wantsMine := theirs(t, broker.Options{ListenOptions: broker.ListenOptions{TLS: picky}})
	wantsMine.URL, wantsMine.CAFile = strings.Replace(wantsMine.URL, "mqtt:", "mqtts:", 1), ca
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	_ = closed.Close() // so that nothing listens there
	with := func(b v1alpha1.Broker, change func(*v1alpha1.Broker)) v1alpha1.Broker {
		change(&b)
		return b
	}
	for _, tc := range []struct {
		name, want string
		broker     v1alpha1.Broker
		env        string
	}{
		{"nothing there", "start the broker",
			v1alpha1.Broker{URL: "mqtt://" + closed.Addr().String()}, "dev"},
		{"no TLS there", "mqtt://",
			with(plain, func(b *v1alpha1.Broker) { b.URL = strings.Replace(b.URL, "mqtt:", "mqtts:", 1) }), "dev"},
		{"TLS there", "mqtts://",
			with(secure, func(b *v1alpha1.Broker) { b.URL = strings.Replace(b.URL, "mqtts:", "mqtt:", 1) }), "dev"},
		{"authority", "spec.broker.caFile", secure, "dev"},
		{"name", "another name", renamed, "dev"},
		{"client certificate", "spec.broker.certFile", wantsMine, "dev"},
		{"password", "--broker-password-file",
			with(plain, func(b *v1alpha1.Broker) { b.PasswordFile = write(t, "password", "wrong") }), "dev"},
		{"no login", "--broker-username",
			with(plain, func(b *v1alpha1.Broker) { b.Username, b.PasswordFile = "", "" }), "dev"},
		{"rights", "koupleless_prod/+/base/+", plain, "prod"},
		{"rights to publish", `"base"`,
			with(plain, func(b *v1alpha1.Broker) {
				b.Username, b.PasswordFile = broker.BaseUser, write(t, "password", good.Passwords().Base)
			}), "dev"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := external(t, tc.broker).Check(t.Context(), broker.CheckOptions{Env: tc.env})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the check gave %v, want %q", err, tc.want)
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
		t.Errorf("the checks have left %d retained messages", stats.Retained)
	}
}

// Each code of a CONNACK, of MQTT 3.1.1 and of MQTT 5, has its own sentence. A refused subscription is not
// treated as granted.
func TestCheckReadsCodes(t *testing.T) {
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
				t.Errorf("CONNACK %#x gave %q, want %q", code, got, tc.want)
			}
		}
	}
	refuse.Store(0)
	for _, code := range []int32{0x80, 0x87, 0x97} {
		refuseSubscribe.Store(code)
		if got, want := check(), "koupleless_dev/+/base/+"; !strings.Contains(got, want) {
			t.Errorf("SUBACK %#x gave %q, want %q", code, got, want)
		}
	}
}

// An environment in which somebody else is heard, or has left something, is refused.
func TestCheckFindsSomebodyElse(t *testing.T) {
	for _, tc := range []struct {
		name, topic string
		retained    bool
	}{
		{"a heartbeat", "koupleless_dev/b1/base/heart", false},
		{"a retained command", "koupleless_dev/b1/installBiz", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, settings := theirs(t, broker.Options{})
			somebody := connect(t, options(b, controller(b)))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { // as often as it takes until the check listens
				defer close(ended)
				for first := true; ctx.Err() == nil && (first || !tc.retained); first = false {
					if err := done(somebody.Publish(tc.topic, 1, tc.retained, "{}")); err != nil {
						t.Error(err)
						return
					}
				}
			}()
			if tc.retained {
				<-ended
			}
			err := external(t, settings).Check(ctx, broker.CheckOptions{Env: "dev", IdleWait: patience})
			cancel()
			<-ended
			if err == nil || !strings.Contains(err.Error(), tc.topic) ||
				strings.Contains(err.Error(), "retained") != tc.retained ||
				!strings.Contains(err.Error(), "--broker-consent") {
				t.Errorf("the check gave %v", err)
			}
			if err := external(t, settings).Check(t.Context(), broker.CheckOptions{Env: "dev"}); err != nil {
				t.Errorf("with consent: %v", err)
			}
		})
	}
	_, settings := theirs(t, broker.Options{})
	if err := external(t, settings).Check(t.Context(),
		broker.CheckOptions{Env: "dev", IdleWait: time.Millisecond}); err != nil {
		t.Errorf("alone: %v", err)
	}
}

// relay runs a relay that ends with the test.
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

// throughRelay are the options of a client that comes as the controller does, or as a base.
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

// What passes a relay arrives; what is cut or stalled is so for those behind the
// relay alone.
func TestRelay(t *testing.T) {
	serving, ca := certificate(t, "127.0.0.1")
	b, settings := theirs(t, broker.Options{ListenOptions: broker.ListenOptions{TLS: serving}})
	settings.URL, settings.CAFile = strings.Replace(settings.URL, "mqtt:", "mqtts:", 1), ca
	to := external(t, settings)
	r, end := relay(t, to, "")
	if _, err := broker.NewRelay(to, broker.ListenOptions{Addr: r.Addr()}); err == nil ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("a second relay on the same address gave %v", err)
	}

	other := options(b, controller(b))
	other.Servers = nil
	trusting := serving.Clone()
	trusting.InsecureSkipVerify = true //nolint:gosec // of this test's own broker
	outside := connect(t, other.AddBroker("ssl://"+b.Addr()).SetTLSConfig(trusting))

	heard := make(chan string, 10)
	lost := make(chan string, 2)
	for name, memory := range map[string]bool{"tcp": false, "memory": true} {
		c := connect(t, throughRelay(t, b, r, name, memory).SetConnectionLostHandler(
			func(paho.Client, error) { lost <- name }))
		if err := done(c.Subscribe("koupleless_dev/b1/"+name, 1,
			func(_ paho.Client, m paho.Message) { heard <- string(m.Payload()) })); err != nil {
			t.Fatal(err)
		}
	}
	say := func(text string) {
		t.Helper()
		for _, name := range []string{"tcp", "memory"} {
			check.Must(t, done(outside.Publish("koupleless_dev/b1/"+name, 1, false, name+" "+text)))
		}
	}
	hear := func(text string) {
		t.Helper()
		want := map[string]bool{"tcp " + text: true, "memory " + text: true}
		for len(want) > 0 {
			select {
			case got := <-heard:
				if !want[got] {
					t.Fatalf("heard %q, want one of %v", got, want)
				}
				delete(want, got)
			case <-time.After(patience):
				t.Fatalf("not heard: %v", want)
			}
		}
	}
	say("one")
	hear("one")

	r.Pause()
	say("two") // the broker itself continues
	waiting := paho.NewClient(throughRelay(t, b, r, "late", true)).Connect()
	select {
	case got := <-heard:
		t.Errorf("heard %q through a relay that is paused", got)
	case <-waiting.Done():
		t.Error("a relay that is paused let a handshake through")
	case <-time.After(50 * time.Millisecond):
	}
	r.Resume()
	hear("two")
	if err := done(waiting); err != nil {
		t.Errorf("connecting in the pause: %v", err)
	}

	end()
	for range 2 {
		select {
		case <-lost:
		case <-time.After(patience):
			t.Fatal("a connection was not cut")
		}
	}
	if _, err := r.Dial(t.Context()); err == nil {
		t.Error("a relay that has ended dials")
	}
	if !outside.IsConnectionOpen() {
		t.Error("another client of the broker was cut off")
	}
	again, _ := relay(t, to, r.Addr())
	connect(t, throughRelay(t, b, again, "tcp", false))
	if err := again.Err(); err != nil {
		t.Errorf("trouble: %v", err)
	}
}

// A relay says why the broker cannot be reached, and that it can again.
func TestRelayInTrouble(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	_ = l.Close() // so that nothing listens there for now
	r, _ := relay(t, external(t, v1alpha1.Broker{URL: "mqtt://" + l.Addr().String()}), "")
	if err := r.Err(); err != nil {
		t.Errorf("trouble before the first connection: %v", err)
	}
	near, err := net.Dial("tcp", r.Addr())
	check.Must(t, err)
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection to nowhere gave %v", err)
	}
	_ = near.Close()
	if err := r.Err(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("trouble: %v", err)
	}
	b := run(t, broker.Options{ListenOptions: broker.ListenOptions{Addr: l.Addr().String()}})
	connect(t, throughRelay(t, b, r, "base", true))
	if err := r.Err(); err != nil {
		t.Errorf("trouble after it came up: %v", err)
	}
}
