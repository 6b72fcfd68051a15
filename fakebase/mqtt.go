package fakebase

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
	"github.com/koupleless/koupsandbox/fakebase/internal/mqtt"
)

// mqttTunnel carries commands and messages of one process over MQTT
// (protocol 3). Commands run on a pool; messages pass the link, where faults
// of the network act.
type mqttTunnel struct {
	l      *life
	client *mqtt.Client
	prefix string // koupleless_{env}/{id}/
	beat   []byte // encoded heartbeat without envelope
	work   pool
	link   *link
	d      dialect
}

func (l *life) openMQTT(o *MQTTOptions) (*mqttTunnel, error) {
	beat, err := encode(l.heartbeat(0))
	if err != nil {
		return nil, err
	}
	dial, err := o.dialer()
	if err != nil {
		return nil, err
	}
	t := &mqttTunnel{
		l: l, beat: beat, d: mqttDialect(!l.b.opts.Faithful),
		prefix: "koupleless_" + l.b.opts.Env + "/" + l.identity + "/",
		work:   pool{core: 5, limit: 10, queued: 100, spawn: l.spawn},
	}
	t.client = mqtt.New(mqtt.Options{
		Dial: dial, ClientID: cmp.Or(o.ClientPrefix, "koupleless") + "@@@" + l.identity, Username: o.Username,
		Password: o.Password,
		Speed:    max(l.b.opts.Speed, 1), FailFirst: l.b.opts.Faithful,
		OnConnect: t.connected, OnMessage: t.receive, OnLost: t.lost, Logger: l.log,
	})
	t.link = &link{l: l, send: t.client.Publish}
	l.b.mu.Lock()
	l.mqtt = t
	l.b.mu.Unlock()
	l.applyDisconnect()
	return t, nil
}

func (o *MQTTOptions) dialer() (func(context.Context) (net.Conn, error), error) {
	if o.Dial != nil {
		return o.Dial, nil
	}
	addr, secure, err := o.target()
	if err != nil {
		return nil, err
	}
	dial := (&net.Dialer{}).DialContext
	if secure {
		dial = (&tls.Dialer{Config: o.TLS}).DialContext
	}
	return func(ctx context.Context) (net.Conn, error) { return dial(ctx, "tcp", addr) }, nil
}

// connected subscribes after every handshake. After the first of the process
// it also asks for the baseline and begins to send heartbeats (protocol 3.2).
func (t *mqttTunnel) connected(first bool) {
	if err := t.client.Subscribe(t.prefix+"+", t.prefix+"base/baseline"); err != nil {
		t.l.log.Debug("subscribing failed", "err", err)
	}
	t.l.emit(EventConnected)
	t.l.log.Info("base connected", "first", first)
	if !first {
		return
	}
	var ask any = t.l.metadata()
	o := &t.l.b.opts
	if o.Generation != GenerationC {
		ask = wireOldMaster{Name: o.Name, Version: o.Version}
	}
	t.publish("queryBaseline", ask)
	delay := o.of(o.InitialDelay + time.Duration(t.l.b.share()*float64(o.HeartbeatJitter)))
	if delay == 0 {
		t.heartbeat(time.Now())
		return
	}
	due := time.Now().Add(delay)
	t.l.after(delay, func() { t.heartbeat(due) })
}

func (t *mqttTunnel) lost(err error) {
	t.l.emit(EventDisconnected)
	t.l.log.Info("base lost its connection", "err", err)
}

// heartbeat sends one and arms the next, at a fixed rate from the first.
func (t *mqttTunnel) heartbeat(due time.Time) {
	err := t.sendHeartbeat()
	if err != nil && t.l.b.opts.Faithful {
		// scheduleAtFixedRate never runs a task again that threw (protocol 3.2).
		t.l.log.Warn("heartbeats have died", "err", err)
		return
	}
	if err != nil {
		t.l.log.Debug("heartbeat not sent", "err", err)
	}
	next := due.Add(t.l.b.opts.heartbeatInterval(false))
	t.l.after(time.Until(next), func() { t.heartbeat(next) })
}

func (t *mqttTunnel) sendHeartbeat() error {
	if _, silent := t.l.b.faults.fire(fault.KindSilent, subject{message: "heart"}); silent {
		return nil
	}
	return t.link.publish(t.prefix+"base/heart", t.beat)
}

// publish sends data on a topic of the base. Errors are logged: nobody waits.
func (t *mqttTunnel) publish(message string, data any) {
	body, err := encode(data)
	if err == nil {
		err = t.link.publish(t.prefix+"base/"+message, body)
	}
	if err != nil {
		t.l.log.Debug("message not sent", "topic", message, "err", err)
	}
}

// receive takes a command: the last part of the topic names it (protocol 3.3).
func (t *mqttTunnel) receive(topic string, payload []byte) {
	command := topic[strings.LastIndexByte(topic, '/')+1:]
	var handle func([]byte)
	switch command {
	case cmdInstall:
		handle = t.operation(cmdInstall, t.l.installCommand)
	case cmdUninstall:
		handle = t.operation(cmdUninstall, t.l.uninstallCommand)
	case cmdHealth:
		handle = t.onHealth
	case cmdQueryAll:
		handle = t.onQueryAll
	case "baseline":
		handle = t.onBaseline
	default:
		t.l.log.Debug("command is not supported over MQTT", "topic", topic)
		return
	}
	if _, deaf := t.l.b.faults.fire(fault.KindDeaf, subject{command: command}); deaf {
		return
	}
	t.link.deliver(func() { t.work.submit(func() { handle(payload) }) })
}

// operation returns the handler of a command. A request that cannot be read is logged
// and not answered (protocol 3.4, 6 row 3).
func (t *mqttTunnel) operation(command string, do func(*bizRequest) outcome) func([]byte) {
	return func(payload []byte) {
		req, err := decodeObject[bizRequest](payload)
		if err == nil && req == nil {
			err = errNotJSON
		}
		if err != nil {
			t.l.log.Warn("command cannot be read", "command", command, "err", err)
			return
		}
		t.answerOperation(command, req, do(req))
	}
}

// answerOperation publishes what the generation publishes after an install
// or uninstall (protocol 1).
func (t *mqttTunnel) answerOperation(command string, req *bizRequest, out outcome) {
	if out.gone || out.unknown {
		return
	}
	msg := wireOperation{BizName: req.BizName, BizVersion: req.BizVersion, Command: command, Response: t.d.output(out)}
	generation := t.l.b.opts.Generation
	if generation != GenerationC && out.thrown != nil || generation == GenerationA && out.failed {
		msg.BizName, msg.BizVersion = text{}, text{}
	}
	if generation == GenerationA && !out.failed && out.thrown == nil {
		t.publishBizList()
		return
	}
	t.publish("bizOperation", msg)
	if generation == GenerationB && out.thrown == nil {
		t.publishBizList()
	}
}

// publishBizList publishes the modules without being asked, as the older
// generations do.
func (t *mqttTunnel) publishBizList() {
	t.answerQueryAll(ok(t.l.reported()))
}

func (t *mqttTunnel) onQueryAll([]byte) {
	t.answerQueryAll(t.l.queryAll())
}

func (t *mqttTunnel) answerQueryAll(out outcome) {
	switch {
	case out.gone || out.unknown || out.thrown != nil:
	case t.l.b.opts.Generation == GenerationA:
		t.publish("biz", t.d.output(out))
	case out.failed:
		t.publish("simpleBiz", t.d.output(out))
	default:
		list, _ := out.data.([]Biz)
		t.publish("simpleBiz", t.d.simple(list, t.l.b.opts.Generation))
	}
}

func (t *mqttTunnel) onHealth(payload []byte) {
	req, err := decodeObject[healthRequest](payload)
	if err != nil {
		t.l.log.Warn("command cannot be read", "command", cmdHealth, "err", err)
		return
	}
	out := t.l.healthCommand(req)
	if out.gone || out.unknown || out.thrown != nil {
		return // a handler that throws publishes nothing (protocol 3.6)
	}
	t.publish("health", t.d.output(out))
}

// onBaseline installs what the controller says a starting base must have.
func (t *mqttTunnel) onBaseline(payload []byte) {
	req, err := decodeBaseline(payload)
	if err != nil {
		t.l.log.Warn("baseline cannot be read", "err", err)
		return
	}
	switch t.l.b.opts.Generation {
	case GenerationA:
		t.l.log.Debug("generation A ignores baselines")
	case GenerationB:
		for i := range req.BizList {
			t.l.replay(&req.BizList[i])
		}
		t.publishBizList()
	default:
		out := t.l.batchCommand(req, ark.Replay)
		if !out.gone && !out.unknown {
			t.publish("batchInstallBizResponse", wireOperation{Command: cmdBatch, Response: t.d.output(out)})
		}
	}
}

// replay installs one item of a baseline as generation B does.
func (l *life) replay(req *bizRequest) {
	checked, ex := l.validateInstall(*req)
	if ex == nil {
		_, ex = l.install(&checked, checked.subject(cmdInstall), ark.Replay)
	}
	if ex != nil && ex != errGone {
		l.log.Warn("installing from the baseline failed", "biz", req.BizName.value, "err", ex.message())
	}
}

// applyDisconnect holds or releases the connection as the faults say.
func (l *life) applyDisconnect() {
	l.b.mu.Lock()
	t, h := l.mqtt, l.http
	l.b.mu.Unlock()
	_, cut := l.b.faults.holds(fault.KindDisconnect, subject{})
	if t != nil {
		if cut {
			t.client.Hold()
		} else {
			t.client.Release()
		}
	}
	if h != nil {
		h.setRefusing(cut)
	}
}
