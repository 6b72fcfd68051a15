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

// mqttTunnel is the MQTT tunnel of one process (protocol 3). Commands run in a thread pool. Messages pass through a
// link, which applies faults.
type mqttTunnel struct {
	l                *incarnation
	client           *mqtt.Client
	prefix           string // prefix of the topics of the base: koupleless_{env}/{id}/
	heartbeatPayload []byte // encoded heartbeat without the envelope
	work             pool
	link             *link
	d                dialect
}

func (l *incarnation) openMQTT(o *MQTTOptions) (*mqttTunnel, error) {
	beat, err := encode(l.heartbeat(0))
	if err != nil {
		return nil, err
	}
	dial, err := o.dialer()
	if err != nil {
		return nil, err
	}
	t := &mqttTunnel{
		l: l, heartbeatPayload: beat, d: mqttDialect(!l.b.opts.Faithful),
		prefix: "koupleless_" + l.b.opts.Env + "/" + l.identity + "/",
		work:   pool{core: 5, limit: 10, queued: 100, spawn: l.spawn},
	}
	t.client = mqtt.New(mqtt.Options{
		Dial: dial, ClientID: cmp.Or(o.ClientPrefix, "koupleless") + "@@@" + l.identity, Username: o.Username,
		Password: o.Password,
		Speed:    max(l.b.opts.Speed, 1), FailFirst: l.b.opts.Faithful,
		OnConnect: t.onConnect, OnMessage: t.receive, OnLost: t.onLost, Logger: l.log,
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

// onConnect subscribes to the command topics after each connection handshake. After the first handshake of the
// process, it also requests the baseline and starts the heartbeats (protocol 3.2).
func (t *mqttTunnel) onConnect(firstConnect bool) {
	if err := t.client.Subscribe(t.prefix+"+", t.prefix+"base/baseline"); err != nil {
		t.l.log.Debug("could not subscribe", "err", err)
	}
	t.l.emit(EventConnected)
	t.l.log.Info("base connected", "first", firstConnect)
	if !firstConnect {
		return
	}
	var query any = t.l.metadata()
	o := &t.l.b.opts
	if o.Generation.isOld() {
		query = wireOldMaster{Name: o.Name, Version: o.Version}
	}
	t.publish("queryBaseline", query)
	delay := o.scaled(o.InitialDelay + time.Duration(t.l.b.randomFloat()*float64(o.HeartbeatJitter)))
	if delay == 0 {
		t.heartbeat(time.Now())
		return
	}
	due := time.Now().Add(delay)
	t.l.runAfter(delay, func() { t.heartbeat(due) })
}

func (t *mqttTunnel) onLost(err error) {
	t.l.emit(EventDisconnected)
	t.l.log.Info("base disconnected", "err", err)
}

// heartbeat sends a heartbeat and schedules the next heartbeat at a fixed rate.
func (t *mqttTunnel) heartbeat(due time.Time) {
	err := t.sendHeartbeat()
	if err != nil && t.l.b.opts.Faithful {
		// After an exception, scheduleAtFixedRate does not run the task again (protocol 3.2).
		t.l.log.Warn("could not send a heartbeat; no more heartbeats are sent", "err", err)
		return
	}
	if err != nil {
		t.l.log.Debug("could not send a heartbeat", "err", err)
	}
	next := due.Add(t.l.b.opts.heartbeatInterval(false))
	t.l.runAfter(time.Until(next), func() { t.heartbeat(next) })
}

func (t *mqttTunnel) sendHeartbeat() error {
	if _, suppressed := t.l.b.faults.trigger(fault.KindSilent, subject{message: "heart"}); suppressed {
		return nil
	}
	return t.link.publish(t.prefix+"base/heart", t.heartbeatPayload)
}

// publish sends data on a topic of the base. It logs errors instead of returning them.
func (t *mqttTunnel) publish(message string, data any) {
	body, err := encode(data)
	if err == nil {
		err = t.link.publish(t.prefix+"base/"+message, body)
	}
	if err != nil {
		t.l.log.Debug("could not publish a message", "topic", message, "err", err)
	}
}

// receive handles a received command message. The last part of the topic is the name of the command (protocol 3.3).
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
		t.l.log.Debug("unsupported command", "topic", topic)
		return
	}
	if _, dropped := t.l.b.faults.trigger(fault.KindDeaf, subject{command: command}); dropped {
		return
	}
	t.link.deliver(func() { t.work.submit(func() { handle(payload) }) })
}

// operation returns the handler of a command. An invalid request is only logged and gets no response (protocol 6,
// condition 3).
func (t *mqttTunnel) operation(command string, do func(*bizRequest) commandResult) func([]byte) {
	return func(payload []byte) {
		req, err := decodeObject[bizRequest](payload)
		if err == nil && req == nil {
			err = errNotJSON
		}
		if err != nil {
			t.l.log.Warn("invalid command", "command", command, "err", err)
			return
		}
		t.answerOperation(command, req, do(req))
	}
}

// answerOperation publishes the response to an install or uninstall command. The response depends on the generation
// of the runtime (protocol 1).
func (t *mqttTunnel) answerOperation(command string, req *bizRequest, out commandResult) {
	if out.noAnswer || out.unknown {
		return
	}
	msg := wireOperation{BizName: req.BizName, BizVersion: req.BizVersion, Command: command,
		Response: t.d.encodeOutput(out)}
	generation := t.l.b.opts.Generation
	if generation == GenerationD {
		msg.BizModelVersion = req.BizModelVersion
	}
	if generation.isOld() && out.exception != nil || generation == GenerationA && out.failed {
		msg.BizName, msg.BizVersion = jsonString{}, jsonString{}
	}
	if generation == GenerationA && !out.failed && out.exception == nil {
		t.publishBizList()
		return
	}
	t.publish("bizOperation", msg)
	if generation == GenerationB && out.exception == nil {
		t.publishBizList()
	}
}

// publishBizList publishes the module list without being queried, as the generations A and B do.
func (t *mqttTunnel) publishBizList() {
	t.answerQueryAll(ok(t.l.reportedModules()))
}

func (t *mqttTunnel) onQueryAll([]byte) {
	t.answerQueryAll(t.l.queryAll())
}

func (t *mqttTunnel) answerQueryAll(out commandResult) {
	switch {
	case out.noAnswer || out.unknown || out.exception != nil:
	case t.l.b.opts.Generation == GenerationA:
		t.publish("biz", t.d.encodeOutput(out))
	case out.failed:
		t.publish("simpleBiz", t.d.encodeOutput(out))
	default:
		list, _ := out.data.([]Biz)
		t.publish("simpleBiz", t.d.encodeSimpleBiz(list, t.l.b.opts.Generation))
	}
}

func (t *mqttTunnel) onHealth(payload []byte) {
	req, err := decodeObject[healthRequest](payload)
	if err != nil {
		t.l.log.Warn("invalid command", "command", cmdHealth, "err", err)
		return
	}
	out := t.l.healthCommand(req)
	if out.noAnswer || out.unknown || out.exception != nil {
		return // after an exception, there is no response
	}
	t.publish("health", t.d.encodeOutput(out))
}

// onBaseline installs the modules of a received baseline.
func (t *mqttTunnel) onBaseline(payload []byte) {
	req, err := decodeBaseline(payload)
	if err != nil {
		t.l.log.Warn("invalid baseline", "err", err)
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
		if !out.noAnswer && !out.unknown {
			t.publish("batchInstallBizResponse", wireOperation{Command: cmdBatch, Response: t.d.encodeOutput(out)})
		}
	}
}

// replay installs a module of a baseline as generation B does.
func (l *incarnation) replay(req *bizRequest) {
	checked, ex := l.validateInstall(*req)
	if ex == nil {
		_, ex = l.install(&checked, checked.subject(cmdInstall), ark.Replay)
	}
	if ex != nil && ex != errNoAnswer {
		l.log.Warn("could not install a module of the baseline", "biz", req.BizName.value, "err", ex.message())
	}
}

// applyDisconnect closes the MQTT connection and the HTTP port while a disconnect fault is in effect. Otherwise, it
// opens them.
func (l *incarnation) applyDisconnect() {
	l.b.mu.Lock()
	t, h := l.mqtt, l.http
	l.b.mu.Unlock()
	_, disconnected := l.b.faults.inEffectFor(fault.KindDisconnect, subject{})
	if t != nil {
		if disconnected {
			t.client.Hold()
		} else {
			t.client.Release()
		}
	}
	if h != nil {
		h.setRefusing(disconnected)
	}
}
