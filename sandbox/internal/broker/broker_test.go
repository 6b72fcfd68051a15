package broker_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/cert"

	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

const waitTimeout = check.WaitTimeout

// start starts a broker. It returns a function end that stops the broker and waits until Start has returned.
func start(t testing.TB, o broker.Options) (b *broker.Broker, end func()) {
	t.Helper()
	if o.Env == "" {
		o.Env = "Dev"
	}
	b, err := broker.New(o)
	check.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	return b, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("broker ended with: %v", err)
		}
	}
}

// run starts a broker that is stopped at the end of the test.
func run(t testing.TB, o broker.Options) *broker.Broker {
	t.Helper()
	b, end := start(t, o)
	t.Cleanup(end)
	return b
}

type login struct{ id, user, password string }

func controller(b *broker.Broker) login {
	return login{"koupleless@@@controller-1", broker.ControllerUser, b.Passwords().Controller}
}

func base(b *broker.Broker, identity string) login {
	return login{"koupleless@@@" + identity, broker.BaseUser, b.Passwords().Base}
}

func options(b *broker.Broker, l login) *paho.ClientOptions {
	return paho.NewClientOptions().AddBroker("tcp://" + b.Addr()).SetClientID(l.id).SetUsername(l.user).SetPassword(
		l.password).
		SetAutoReconnect(false).SetConnectTimeout(waitTimeout).SetOrderMatters(true)
}

// inMemory returns the client options for a base that connects through memory.
func inMemory(t testing.TB, b *broker.Broker, identity string) *paho.ClientOptions {
	return options(b, base(b, identity)).SetCustomOpenConnectionFn(
		func(*url.URL, paho.ClientOptions) (net.Conn, error) { return b.Dial(t.Context()) })
}

func waitForToken(token paho.Token) error {
	if !token.WaitTimeout(waitTimeout) {
		return errors.New("no answer from the broker")
	}
	return token.Error()
}

func connect(t testing.TB, o *paho.ClientOptions) paho.Client {
	t.Helper()
	c := paho.NewClient(o)
	if err := waitForToken(c.Connect()); err != nil {
		t.Fatalf("connecting: %v", err)
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c
}

func TestAuthentication(t *testing.T) {
	b := run(t, broker.Options{})
	good := b.Passwords()
	for _, tc := range []struct {
		name  string
		login login
		ok    bool
	}{
		{"controller", controller(b), true},
		{"base", base(b, "b1"), true},
		{"controller with the password of bases", login{"koupleless@@@c", broker.ControllerUser, good.Base}, false},
		{"base without password", login{"koupleless@@@b1", broker.BaseUser, ""}, false},
		{"unknown user", login{"koupleless@@@b1", "root", good.Controller}, false},
		{"anonymous", login{"x", "", ""}, false},
		{"base without prefix", login{"b1", broker.BaseUser, good.Base}, false},
		{"base without identity", login{"koupleless@@@", broker.BaseUser, good.Base}, false},
		{"wildcard identity", base(b, "+"), false},
		{"identity that is a deep wildcard", base(b, "#"), false},
		{"identity with a slash", base(b, "a/b"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := paho.NewClient(options(b, tc.login))
			err := waitForToken(c.Connect())
			defer c.Disconnect(0)
			if (err == nil) != tc.ok {
				t.Errorf("connecting returned %v", err)
			}
		})
	}
}

func TestSubscribePermissions(t *testing.T) {
	b := run(t, broker.Options{})
	for _, tc := range []struct {
		login  login
		filter string
		ok     bool
	}{
		{base(b, "b1"), "koupleless_dev/b1/+", true},
		{base(b, "b1"), "koupleless_dev/b1/installBiz", true},
		{base(b, "b1"), "koupleless_dev/b1/base/baseline", true},
		{base(b, "b1"), "koupleless_dev/b1/base/heart", false},
		{base(b, "b1"), "koupleless_dev/b1/base/+", false},
		{base(b, "b1"), "koupleless_dev/b1/#", false},
		{base(b, "b1"), "koupleless_dev/b2/+", false},
		{base(b, "b1"), "koupleless_dev/b12/+", false},
		{base(b, "b1"), "koupleless_dev/+/+", false},
		{base(b, "b1"), "koupleless_test/b1/+", false},
		{base(b, "b1"), "#", false},
		{base(b, "b1"), "$SYS/#", false},
		{controller(b), "koupleless_dev/+/base/heart", true},
		{controller(b), "koupleless_dev/#", true},
		{controller(b), "koupleless_test/+/base/heart", false},
		{controller(b), "#", false},
	} {
		t.Run(tc.login.user+" "+tc.filter, func(t *testing.T) {
			c := connect(t, options(b, tc.login))
			token := c.Subscribe(tc.filter, 1, nil).(*paho.SubscribeToken)
			check.Must(t, waitForToken(token))
			want := byte(1) // the granted quality of service
			if !tc.ok {
				want = 0x80 // [MQTT-3.9.3-2] failure
			}
			if diff := cmp.Diff(map[string]byte{tc.filter: want}, token.Result()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPublishPermissions checks that the broker closes the connection of a base that publishes to a topic without
// permission, and does not deliver the message. MQTT 3.1.1 has no error code for this case.
func TestPublishPermissions(t *testing.T) {
	b := run(t, broker.Options{})
	received := make(chan string, 10)
	listener := connect(t, options(b, controller(b)).SetDefaultPublishHandler(
		func(_ paho.Client, m paho.Message) { received <- m.Topic() }))
	check.Must(t, waitForToken(listener.Subscribe("koupleless_dev/#", 1, nil)))
	for _, tc := range []struct {
		topic string
		ok    bool
	}{
		{"koupleless_dev/b1/base/heart", true},
		{"koupleless_dev/b2/base/heart", false},
		{"koupleless_dev/b1/installBiz", false},
		{"koupleless_dev/b1/base/a/b", false},
		{"koupleless_test/b1/base/heart", false},
	} {
		t.Run(tc.topic, func(t *testing.T) {
			lost := make(chan struct{})
			c := connect(t, options(b, base(b, "b1")).SetConnectionLostHandler(
				func(paho.Client, error) { close(lost) }))
			c.Publish(tc.topic, 1, false, "x")
			var got string
			select {
			case got = <-received:
			case <-lost:
			case <-time.After(waitTimeout):
				t.Fatal("the message was neither received nor rejected")
			}
			want := ""
			if tc.ok {
				want = tc.topic
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("received (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBurstIsDeliveredCompletely checks that no message is lost when many in-memory bases publish concurrently to a
// slow controller.
func TestBurstIsDeliveredCompletely(t *testing.T) {
	b := run(t, broker.Options{})
	const bases, each = 100, 100
	var received atomic.Int64
	all, hold := make(chan struct{}), make(chan struct{})
	c := connect(t, options(b, controller(b)))
	if err := waitForToken(c.Subscribe("koupleless_dev/+/base/heart", 1, func(paho.Client, paho.Message) {
		<-hold
		if received.Add(1) == bases*each {
			close(all)
		}
	})); err != nil {
		t.Fatal(err)
	}
	tokens := make([]paho.Token, 0, bases*each)
	for i := range bases {
		id := fmt.Sprintf("b%d", i)
		p := connect(t, inMemory(t, b, id))
		for range each {
			tokens = append(tokens, p.Publish("koupleless_dev/"+id+"/base/heart", 1, false, "x"))
		}
	}
	for _, token := range tokens {
		check.Must(t, waitForToken(token))
	}
	close(hold)
	select {
	case <-all:
	case <-time.After(waitTimeout):
		t.Fatalf("received %d of %d messages; %+v", received.Load(), bases*each, b.Stats())
	}
	stats := b.Stats()
	want := &broker.Stats{Clients: bases + 1, Subscriptions: 1, MessagesReceived: bases * each,
		MessagesSent: stats.MessagesSent, Inflight: stats.Inflight, Retained: stats.Retained}
	if diff := cmp.Diff(want, stats); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

// TestLargePacket checks that a packet above the size limit ends the connection of its sender and no other
// connection.
func TestLargePacket(t *testing.T) {
	b := run(t, broker.Options{})
	lost := make(chan error, 1)
	o := options(b, base(b, "large")).SetConnectionLostHandler(func(_ paho.Client, err error) { lost <- err })
	large, other := paho.NewClient(o), paho.NewClient(options(b, base(b, "other")))
	for _, c := range []paho.Client{large, other} {
		check.Must(t, waitForToken(c.Connect()))
		defer c.Disconnect(0)
	}
	if err := waitForToken(large.Publish("koupleless_dev/large/base/heart", 1, false, make([]byte,
		8<<20-100))); err != nil {
		t.Errorf("a packet of just under 8 MiB: %v", err)
	}
	large.Publish("koupleless_dev/large/base/heart", 1, false, make([]byte, 8<<20))
	select {
	case err := <-lost:
		if err == nil {
			t.Error("the connection was lost without a reason")
		}
	case <-time.After(waitTimeout):
		t.Error("a packet of more than 8 MiB was accepted")
	}
	if err := waitForToken(other.Publish("koupleless_dev/other/base/heart", 1, false, "x")); err != nil {
		t.Errorf("another client: %v", err)
	}
}

func TestTLS(t *testing.T) {
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	check.Must(t, err)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	check.Must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	b := run(t, broker.Options{
		ListenOptions: broker.ListenOptions{TLS: &tls.Config{Certificates: []tls.Certificate{pair}}}})
	o := options(b, controller(b))
	o.Servers = nil
	connect(t, o.AddBroker("ssl://"+b.Addr()).SetTLSConfig(&tls.Config{RootCAs: roots}))
	if plain := paho.NewClient(options(b, controller(b))); waitForToken(plain.Connect()) == nil {
		t.Error("a connection without TLS was accepted")
	}
}

// TestRestartOnSameAddress checks that clients can reconnect after the broker restarts with the same address and
// passwords.
func TestRestartOnSameAddress(t *testing.T) {
	first, end := start(t, broker.Options{})

	// A client, a connection that sends nothing, and an in-memory base.
	lost := make(chan struct{})
	connect(t, options(first, controller(first)).SetConnectionLostHandler(func(paho.Client, error) { close(lost) }))
	idle, err := net.Dial("tcp", first.Addr())
	check.Must(t, err)
	defer func() { _ = idle.Close() }()
	memory, err := first.Dial(t.Context())
	check.Must(t, err)
	same := broker.Options{Env: "dev", ListenOptions: broker.ListenOptions{Addr: first.Addr()},
		Passwords: first.Passwords()}
	if _, err := broker.New(same); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second broker on the same address returned %v", err)
	}
	end()
	<-lost
	if _, err := memory.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the in-memory connection returned %v", err)
	}
	if _, err := first.Dial(t.Context()); err == nil {
		t.Error("a stopped broker accepted a connection")
	}
	again := run(t, same)
	connect(t, options(again, controller(first)))
}

// TestBrokerStopsWhileClientsDisconnect checks that the broker stops even if clients disconnect at the same time. In
// this case, closing mochi's own listeners can block.
func TestBrokerStopsWhileClientsDisconnect(t *testing.T) {
	b, end := start(t, broker.Options{})
	var leave sync.WaitGroup
	begin := make(chan struct{})
	for i := range 200 {
		c := connect(t, inMemory(t, b, fmt.Sprintf("base-%d", i)))
		leave.Go(func() {
			<-begin
			c.Disconnect(0)
		})
	}
	close(begin)
	end()
	leave.Wait()
}

func TestStopWhilePaused(t *testing.T) {
	b, end := start(t, broker.Options{})
	lost := make(chan struct{})
	c := connect(t, options(b, controller(b)).SetConnectionLostHandler(func(paho.Client, error) { close(lost) }))
	if err := waitForToken(c.Subscribe("koupleless_dev/b1/base/heart", 1, func(paho.Client,
		paho.Message) {
	})); err != nil {
		t.Fatal(err)
	}
	b.Pause()
	c.Publish("koupleless_dev/b1/base/heart", 1, false, "x")
	end()
	<-lost
}
