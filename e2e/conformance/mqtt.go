package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
)

// mqttLink is a base's connection to the broker (protocol 3).
type mqttLink struct {
	b      *base
	client paho.Client
	root   string // koupleless_<env>/<identity>/
	ctx    context.Context
	cancel context.CancelFunc
	beat   sync.Once
	work   sync.WaitGroup
}

// connectMQTT connects a base. What it does on a connection is in protocol 3.2: two subscriptions
// each time; a question for the baseline and heartbeats the first time.
func connectMQTT(b *base) *mqttLink {
	lab := b.w.lab
	l := &mqttLink{b: b, root: "koupleless_" + lab.env + "/" + b.identity + "/"}
	l.ctx, l.cancel = context.WithCancel(lab.ctx)
	l.client = paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + lab.broker.Addr).SetStore(forgetful{}).
		SetClientID(lab.broker.ClientPrefix + "@@@" + b.identity).
		SetUsername("base").SetPassword(lab.broker.Passwords.Base).
		SetCleanSession(true).SetOrderMatters(false).
		SetConnectRetry(true).SetConnectRetryInterval(200 * time.Millisecond).
		SetMaxReconnectInterval(time.Second).SetOnConnectHandler(l.connected))
	l.client.Connect()
	return l
}

// forgetful keeps no message for the next connection, as a clean session asks for. paho's own store hands
// out the message itself, which its resumption writes to while it is being sent.
type forgetful struct{}

func (forgetful) Open()                             {}
func (forgetful) Put(string, packets.ControlPacket) {}
func (forgetful) Get(string) packets.ControlPacket  { return nil }
func (forgetful) All() []string                     { return nil }
func (forgetful) Del(string)                        {}
func (forgetful) Close()                            {}
func (forgetful) Reset()                            {}

// connected must not wait for the tokens of publishes: it runs in the client's own goroutine.
func (l *mqttLink) connected(c paho.Client) {
	for _, filter := range []string{l.root + "+", l.root + "base/baseline"} {
		if t := c.Subscribe(filter, 1, l.receive); t.Wait() && t.Error() != nil {
			return // the connection is lost again
		}
	}
	l.beat.Do(func() {
		l.publish("queryBaseline", envelope(l.b.message("queryBaseline", l.b.metadata()), l.b.now()))
		l.work.Go(l.heartbeats)
	})
}

func (l *mqttLink) heartbeats() {
	tick := time.NewTicker(l.b.w.heartbeat)
	defer tick.Stop()
	for {
		l.send("heart", l.b.heart())
		if l.b.mute {
			return
		}
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
	}
}

// send publishes a message under base/.
func (l *mqttLink) send(kind string, data any) {
	if raw, ok := data.(json.RawMessage); ok {
		l.publish(kind, raw)
		return
	}
	l.publish(kind, envelope(l.b.message(kind, data), l.b.now()))
}

func (l *mqttLink) publish(kind string, body []byte) {
	if l.ctx.Err() == nil {
		l.client.Publish(l.root+"base/"+kind, 1, false, body)
	}
}

// receive runs in a goroutine of its own for each message.
func (l *mqttLink) receive(_ paho.Client, m paho.Message) {
	if l.ctx.Err() != nil {
		return
	}
	name := m.Topic()[strings.LastIndexByte(m.Topic(), '/')+1:]
	c := command{name: name, topic: m.Topic(), qos: m.Qos(), retained: m.Retained(), body: m.Payload()}
	l.b.w.track(func() {
		r := l.b.receive(c)
		c = c.parse()
		switch {
		case r.none, l.ctx.Err() != nil:
		case name == health:
			if !l.b.mumble {
				l.send("health", object{"code": "SUCCESS", "data": l.b.health()})
			}
		case name == queryAllBiz:
			if !l.b.mumble {
				l.send("simpleBiz", l.b.list())
			}
		case name == baseline:
			l.send("batchInstallBizResponse", object{"command": "batchInstallBiz", "response": l.b.batch(c.body)})
		case name == installBiz || name == uninstallBiz:
			l.answer(c, r)
		default: // unsupported over MQTT: no answer (protocol 3.3)
		}
	})
}

// answer publishes the answer to an install or an uninstall.
func (l *mqttLink) answer(c command, r reply) {
	l.send("bizOperation", object{"command": c.name, "bizName": c.BizName, "bizVersion": c.BizVersion, "response": r.output()})
}

// stop ends the connection; nothing is said at the end (protocol 2.4).
func (l *mqttLink) stop() {
	l.cancel()
	l.client.Disconnect(0)
	l.work.Wait()
}

// message applies what is special about a base's messages.
func (b *base) message(kind string, data any) any {
	if o, ok := data.(object); ok && b.decorate != nil {
		b.decorate(kind, o)
	}
	return data
}

// batch installs a baseline (protocol 3.6).
func (b *base) batch(body []byte) object {
	var items []command
	if err := json.Unmarshal(body, &items); err != nil {
		return thrown("bizList is null").output()
	}
	answers := object{}
	for _, item := range items {
		item.name = installBiz
		r, ok := b.resolve(item)
		if ok {
			r = b.start(item)
		}
		answers[item.BizURL] = r.data
		if r.code != "SUCCESS" { // a failed biz has no bizInfos
			answers[item.BizURL] = object{"code": r.data["code"], "message": r.data["message"]}
		}
	}
	return object{"code": "SUCCESS", "data": object{"code": "SUCCESS", "message": "batch install success", "elapsedSpace": 1048576, "bizUrlToResponse": answers}}
}
