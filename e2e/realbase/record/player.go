package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/koupleless/koupsandbox/e2e/realbase"
	"github.com/koupleless/koupsandbox/fakebase/recording"
)

const (
	// answerTime is how long an answer may take on a busy machine.
	answerTime = 2 * time.Minute
	// silence is how long somebody waits to see that no answer comes.
	silence = 3 * time.Second
	root    = "koupleless_dev/b1/"
)

// broker is an MQTT broker that lets everybody in and notes what the base says.
type broker struct {
	server   *mqtt.Server
	addr     string
	messages chan recording.Message // but for heartbeats
	hello    chan struct{}          // the base has subscribed, and asked for its baseline
}

func openBroker() (*broker, error) {
	b := &broker{
		server:   mqtt.New(&mqtt.Options{InlineClient: true, Logger: slog.New(slog.DiscardHandler)}),
		messages: make(chan recording.Message, 1000), hello: make(chan struct{}, 1),
	}
	tcp := listeners.NewTCP(listeners.Config{ID: "tcp", Address: "127.0.0.1:0"})
	err := errors.Join(b.server.AddHook(new(auth.AllowHook), nil), b.server.AddListener(tcp))
	if err == nil {
		err = b.server.Subscribe(root+"base/+", 1, b.take)
	}
	if err == nil {
		err = b.server.Serve()
	}
	if err != nil {
		return nil, fmt.Errorf("starting a broker: %w", err)
	}
	b.addr = tcp.Address()
	return b, nil
}

func (b *broker) take(_ *mqtt.Client, _ packets.Subscription, pk packets.Packet) {
	switch topic := strings.TrimPrefix(pk.TopicName, root); topic {
	case "base/heart":
	case "base/queryBaseline":
		b.hello <- struct{}{}
	default:
		b.messages <- recording.Message{Topic: topic, Payload: string(pk.Payload)}
	}
}

func (b *broker) waitConnected(ctx context.Context) error {
	select {
	case <-b.hello:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the base at the broker: %w", ctx.Err())
	}
}

func (b *broker) close() { _ = b.server.Close() } // the recordings are written

// player sends the steps of a condition.
type player struct {
	places  *places
	base    *realbase.Base
	broker  *broker
	tunnel  recording.Tunnel
	pending chan recording.Exchange // of the step in the background
}

func (p *player) play(ctx context.Context, steps []step) ([]recording.Exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	release := filepath.Join(p.places.Modules, "go")
	if err := os.Remove(release); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []recording.Exchange
	for _, s := range steps {
		if s.release {
			if err := os.WriteFile(release, nil, 0o600); err != nil {
				return nil, err
			}
		}
		if err := p.await(ctx, s.await); err != nil {
			return nil, err
		}
		x, err := p.step(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("step %s %s%s: %w", s.command, s.body, s.raw, err)
		}
		out = append(out, x)
	}
	return out, clean(ctx, p.base)
}

// await blocks until the base lists what is wanted.
func (p *player) await(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := p.base.Command(ctx, "queryAllBiz", "{}")
		if err != nil || strings.Contains(answer, text) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s in %s: %w", text, answer, ctx.Err())
		}
	}
}

func (p *player) step(ctx context.Context, s step) (recording.Exchange, error) {
	if s.join {
		if p.tunnel == recording.HTTP {
			x := <-p.pending
			return recording.Exchange{Join: true, Answer: x.Answer}, nil
		}
		m, err := p.receive(ctx)
		return recording.Exchange{Join: true, Messages: m}, err
	}
	x := recording.Exchange{Command: s.command, Body: s.body, Raw: s.raw, Background: s.background, Await: s.await}
	if p.tunnel == recording.HTTP {
		return p.overHTTP(ctx, x, s.silentHTTP)
	}
	return p.overMQTT(ctx, x, s.silentMQTT)
}

func (p *player) overHTTP(ctx context.Context, x recording.Exchange, silent bool) (recording.Exchange, error) {
	raw := x.Raw
	if raw == "" {
		body := p.places.Fill(x.Body)
		raw = fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: base\r\nContent-Length: %d\r\n\r\n%s", x.Command, len(body), body)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.base.Arklet())
	if err != nil {
		return x, err
	}
	if x.Background {
		p.pending = make(chan recording.Exchange, 1)
		go func() {
			done, err := p.finish(conn, x, p.places.Fill(raw), false)
			if err != nil {
				done.Answer = err.Error() // shows up in the recording
			}
			p.pending <- done
		}()
		return x, nil
	}
	return p.finish(conn, x, p.places.Fill(raw), silent)
}

// finish sends a request and reads until the base closes the connection.
func (p *player) finish(conn net.Conn, x recording.Exchange, raw string, silent bool) (recording.Exchange, error) {
	defer func() { _ = conn.Close() }() // what counts has been read
	limit := answerTime
	if silent {
		limit = silence
	}
	err := conn.SetReadDeadline(time.Now().Add(limit))
	if err == nil {
		_, err = io.WriteString(conn, raw)
	}
	var answer []byte
	for buf := make([]byte, 64<<10); err == nil; {
		var n int
		n, err = conn.Read(buf)
		if answer = append(answer, buf[:n]...); err == nil { // it may leave the connection open
			err = conn.SetReadDeadline(time.Now().Add(silence))
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if silent && errors.Is(err, os.ErrDeadlineExceeded) && len(answer) == 0 {
		x.Silent = true
		return x, nil
	}
	if len(answer) > 0 && !silent {
		err = nil // it may reset the connection when it has not read all
	}
	x.Answer = recording.Normal(p.places.Strip(string(answer)))
	return x, err
}

// answered are the commands that the MQTT tunnel knows.
var answered = map[string]bool{"installBiz": true, "uninstallBiz": true, "health": true, "queryAllBiz": true}

func (p *player) overMQTT(ctx context.Context, x recording.Exchange, silent bool) (recording.Exchange, error) {
	if err := p.broker.server.Publish(root+x.Command, []byte(p.places.Fill(x.Body)), false, 1); err != nil {
		return x, err
	}
	if x.Background {
		return x, nil
	}
	if silent || !answered[x.Command] {
		select {
		case m := <-p.broker.messages:
			return x, fmt.Errorf("it answers %s %s", m.Topic, m.Payload)
		case <-time.After(silence):
			x.Silent = true
			return x, nil
		}
	}
	m, err := p.receive(ctx)
	x.Messages = m
	return x, err
}

func (p *player) receive(ctx context.Context) ([]recording.Message, error) {
	select {
	case m := <-p.broker.messages:
		m.Payload = recording.Normal(p.places.Strip(m.Payload))
		return []recording.Message{m}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for an answer: %w", ctx.Err())
	}
}
