package broker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
)

const (
	// answerTimeout is the timeout for one response from the broker.
	answerTimeout = 10 * time.Second
	// IdleWait is how long an environment must have no messages to be treated as unused. It is longer than the
	// interval of base heartbeats, which is 10 s (protocol 3).
	IdleWait = 12 * time.Second
)

// CheckOptions are the options of External.Check.
type CheckOptions struct {
	// Env is the environment of the sandbox. Required.
	Env string
	// ClientPrefix is the prefix of the client IDs of this sandbox.
	ClientPrefix string
	// IdleWait is how long Check waits for messages from other clients in Env. If such a message arrives, Check
	// returns an error. Default: 0, which allows other clients.
	IdleWait time.Duration
}

// Check tests the operations that the controller and bases need: it connects to the broker, subscribes, publishes and
// receives messages. If IdleWait is set, it also waits that long for messages from other clients. It leaves no
// retained messages. The error message contains a fix.
func (e *External) Check(ctx context.Context, o CheckOptions) error {
	conn, err := e.Dial(ctx)
	if err != nil {
		return err
	}
	// The ID has the maximum length of a client ID in a sandbox: controllers in an existing cluster have the
	// longest client IDs.
	name := "koupsandbox-check-" + rand.Text() + "-" + rand.Text()[:6]
	c := &check{External: e, CheckOptions: o, conn: &recordingConn{Conn: conn}, name: name,
		id:   cmp.Or(o.ClientPrefix, "koupleless") + idSeparator + name,
		root: "koupleless_" + strings.ToLower(o.Env) + "/", messages: make(chan paho.Message, 100),
		done: make(chan struct{})}
	defer close(c.done)
	options := paho.NewClientOptions().AddBroker("tcp://" + e.Addr). // already connected
										SetCustomOpenConnectionFn(
			func(*url.URL, paho.ClientOptions) (net.Conn, error) { return c.conn, nil }).
		SetClientID(c.id).SetProtocolVersion(4).
		SetAutoReconnect(false).SetConnectTimeout(answerTimeout).SetWriteTimeout(answerTimeout).
		SetDefaultPublishHandler(c.receive)
	if e.Username != "" {
		options.SetUsername(e.Username).SetPassword(e.Password)
	}
	c.client = paho.NewClient(options)
	defer c.client.Disconnect(0)
	if err := c.connect(ctx); err != nil {
		return err
	}
	if err := c.subscribe(ctx); err != nil {
		return err
	}
	if err := c.echo(ctx); err != nil || o.IdleWait == 0 {
		return err
	}
	return c.checkUnused(ctx)
}

// check holds the state of one call of External.Check.
type check struct {
	*External
	CheckOptions
	conn     *recordingConn
	client   paho.Client
	name     string // identity of a nonexistent base, used in the client ID and the topics
	id       string // MQTT client ID
	root     string
	messages chan paho.Message
	done     chan struct{}
}

// receive handles a message from the broker. The goroutine that reads from the connection calls it.
func (c *check) receive(_ paho.Client, m paho.Message) {
	select {
	case c.messages <- m:
	case <-c.done:
	}
}

// answer waits for a response from the broker.
func (c *check) answer(ctx context.Context, token paho.Token) error {
	timer := time.NewTimer(answerTimeout)
	defer timer.Stop()
	select {
	case <-token.Done():
		return token.Error()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("no response within %s", answerTimeout)
	}
}

func (c *check) connect(ctx context.Context) error {
	err := c.answer(ctx, c.client.Connect())
	if ctx.Err() != nil {
		return err
	}
	// paho reports no error for the codes of MQTT 5, which a broker may send to a client of MQTT 3.1.1.
	if code, found := c.conn.connack(); found && code != packets.Accepted {
		return c.refusalError(code)
	}
	if err == nil {
		return nil
	}
	if ended := c.conn.readError(); ended != nil {
		return c.explain(ended)
	}
	return fmt.Errorf("the broker %s did not complete the MQTT connection: %w", c.URL, err)
}

// refusalError returns the error for the return code in a CONNACK of MQTT 3.1.1 [section 3.2.2.3] or MQTT 5 [section
// 3.2.2.2].
func (c *check) refusalError(code byte) error {
	switch code {
	case packets.ErrRefusedBadProtocolVersion, 0x84:
		return fmt.Errorf("the broker %s rejected MQTT 3.1.1, which controllers and bases use; "+
			"enable this version in the broker's settings", c.URL)
	case packets.ErrRefusedIDRejected, 0x85:
		return fmt.Errorf("the broker %s rejected the MQTT client ID %q (%d bytes); controllers and bases use IDs of "+
			"this length with the characters @ and -: allow them in the broker's settings (limits and patterns of "+
			"client IDs)", c.URL, c.id, len(c.id))
	case packets.ErrRefusedBadUsernameOrPassword, packets.ErrRefusedNotAuthorised, 0x86, 0x87:
		if c.Username == "" {
			return fmt.Errorf("the broker %s requires a user name; set --broker-username, and the password with "+
				"--broker-password-file or $KOUPSANDBOX_BROKER_PASSWORD", c.URL)
		}
		return fmt.Errorf("the broker %s rejected the user %q; check the user name and the password "+
			"(--broker-username, "+
			"--broker-password-file or $KOUPSANDBOX_BROKER_PASSWORD)", c.URL, c.Username)
	}
	reason := map[byte]string{
		packets.ErrRefusedServerUnavailable: "it is unavailable", 0x88: "it is unavailable", 0x89: "it is busy",
		0x8a: "it has banned this client",
		0x97: "a quota is exceeded", 0x9c: "use another server", 0x9d: "the server has moved",
		0x9f: "too many connections in a short time",
	}[code]
	return fmt.Errorf("the broker %s refused the connection with the MQTT code %#02x (%s); see the broker's log",
		c.URL, code, cmp.Or(reason, "unknown code"))
}

func (c *check) permissionError(operation string) error {
	user := fmt.Sprintf("the user %q", c.Username)
	if c.Username == "" {
		user = "an anonymous client"
	}
	return fmt.Errorf("the broker %s does not allow %s to %s; grant read and write permission for %s#, or select "+
		"another environment with --env", c.URL, user, operation, c.root)
}

// subscribe subscribes to the topics of the controller and of bases. With IdleWait, it subscribes to all topics of
// the environment, because there may be retained commands from other controllers. It sends a single packet for all
// topics. A first subscription can cause messages to the client, and mochi rejects a later SUBSCRIBE if its packet
// identifier equals that of an unacknowledged message, although the identifiers of the two directions are independent
// [MQTT-2.3.1-4].
func (c *check) subscribe(ctx context.Context) error {
	required := []string{c.root + "+/base/+", c.root + c.name + "/+"}
	filters := map[string]byte{}
	for _, filter := range required {
		filters[filter] = 1
	}
	if c.IdleWait > 0 {
		filters[c.root+"+/+"] = 1
	}
	token := c.client.SubscribeMultiple(filters, nil).(*paho.SubscribeToken)
	err := c.answer(ctx, token)
	granted := token.Result()
	for _, filter := range required {
		// failure code of MQTT 3.1.1 [MQTT-3.9.3-2] and MQTT 5 [section 3.9.3]
		if code, answered := granted[filter]; answered && code >= 0x80 {
			return c.permissionError("subscribe to " + filter)
		}
	}
	if err != nil {
		return fmt.Errorf("subscribing to topics of the broker %s: %w", c.URL, err)
	}
	return nil
}

// echo publishes one message to a topic of bases and one to a topic of the controller, and waits until it receives
// both. This is necessary because a broker may accept, but not deliver, a message that a client has no permission to
// publish. Controllers and bases ignore these types of messages.
func (c *check) echo(ctx context.Context) error {
	missing := map[string]bool{}
	for _, topic := range []string{c.root + c.name + "/base/check", c.root + c.name + "/check"} {
		missing[topic] = true
		if err := c.answer(ctx, c.client.Publish(topic, 1, false, "{}")); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return c.permissionError("publish to " + topic)
		}
	}
	timer := time.NewTimer(answerTimeout)
	defer timer.Stop()
	for len(missing) > 0 {
		select {
		case m := <-c.messages:
			if err := c.foreignMessage(m); err != nil {
				return err
			}
			delete(missing, m.Topic())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			for topic := range missing {
				return c.permissionError("receive messages on " + topic)
			}
		}
	}
	return nil
}

// checkUnused returns an error if a message from another client arrives in the environment.
func (c *check) checkUnused(ctx context.Context) error {
	timer := time.NewTimer(c.IdleWait)
	defer timer.Stop()
	for {
		select {
		case m := <-c.messages:
			if err := c.foreignMessage(m); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return nil
		}
	}
}

// foreignMessage returns an error if the message was sent by another client.
func (c *check) foreignMessage(m paho.Message) error {
	if c.IdleWait == 0 || strings.HasPrefix(m.Topic(), c.root+c.name+"/") {
		return nil
	}
	message := "message"
	if m.Retained() {
		message = "retained message"
	}
	return fmt.Errorf("the environment %q of the broker %s is used by other clients: found a %s on %s; omit --env to "+
		"generate an environment, choose another one, or join this one with --broker-consent",
		c.Env, c.URL, message, m.Topic())
}

// recordingConn is a connection that records the first received bytes and the read error, because paho does not
// report them.
type recordingConn struct {
	net.Conn
	mu       sync.Mutex
	received []byte // received bytes, up to the return code of the CONNACK
	err      error
}

func (w *recordingConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.mu.Lock()
	w.received = append(w.received, p[:min(n, connackCode+1-len(w.received))]...)
	w.mu.Unlock()
	if err != nil && !errors.Is(err, net.ErrClosed) { // paho has not closed the connection itself
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
	}
	return n, err
}

// connackCode is the index of the return code in a CONNACK packet of MQTT 3.1.1 or MQTT 5.
const connackCode = 3

func (w *recordingConn) connack() (code byte, found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.received) <= connackCode || w.received[0]>>4 != packets.Connack {
		return 0, false
	}
	return w.received[connackCode], true
}

func (w *recordingConn) readError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
