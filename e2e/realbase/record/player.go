package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/e2e/realbase"
	"github.com/koupleless/koupsandbox/fakebase/recording"
)

const (
	// answerTime is how long an answer may take on a busy machine.
	answerTime = 2 * time.Minute
	// silence is how long somebody waits to see that no answer comes.
	silence = 3 * time.Second
	// root begins the topics of the base that is recorded.
	root = "koupleless_dev/b1/"
)

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
			p.places.hanging.Release()
		}
		if err := p.await(ctx, s); err != nil {
			return nil, err
		}
		x, err := p.step(ctx, s)
		for ; err == nil && s.until != "" && !strings.Contains(x.Answer, s.until); x, err = p.step(ctx, s) {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("waiting for %s in %s: %w", s.until, x.Answer, err)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("step %s %s%s: %w", s.command, s.body, s.raw, err)
		}
		out = append(out, x)
	}
	return out, nil
}

// await blocks until the base lists what a step wants, or downloads it.
func (p *player) await(ctx context.Context, s step) error {
	if s.await == "" && !s.awaitDownload {
		return nil
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := p.base.Command(ctx, "queryAllBiz", "{}")
		if err != nil || strings.Contains(answer, s.await) && (!s.awaitDownload || p.places.hanging.Asked()) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %q in %s, or for a download: %w", s.await, answer, ctx.Err())
		}
	}
}

func (p *player) step(ctx context.Context, s step) (recording.Exchange, error) {
	if s.join {
		if p.tunnel == recording.HTTP {
			x := <-p.pending
			return recording.Exchange{Join: true, Release: s.release, Answer: x.Answer}, nil
		}
		m, err := p.receive(ctx)
		return recording.Exchange{Join: true, Release: s.release, Messages: m}, err
	}
	x := recording.Exchange{Command: s.command, Body: s.body, Raw: s.raw, Web: s.web, Background: s.background,
		Await: s.await, AwaitDownload: s.awaitDownload, Release: s.release, Until: s.until}
	if s.web != "" {
		return p.overWeb(ctx, x)
	}
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

// overWeb asks the base's web server.
func (p *player) overWeb(ctx context.Context, x recording.Exchange) (recording.Exchange, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base.Web()+x.Web, nil)
	if err != nil {
		return x, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return x, err
	}
	x.Answer, err = recording.WebAnswer(response)
	x.Answer = recording.Normal(p.places.Strip(x.Answer))
	return x, err
}

// answered are the commands that the MQTT tunnel knows.
var answered = map[string]bool{"installBiz": true, "uninstallBiz": true, "health": true, "queryAllBiz": true, baseline: true}

// baseline is what the topic of an answer to the base's question ends with.
const baseline = "base/baseline"

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
