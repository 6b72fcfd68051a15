package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
)

const (
	// leftOpen is how long an HTTP server may send nothing, once it has begun to answer.
	leftOpen = 3 * time.Second
	pollTime = 20 * time.Millisecond

	questionAll = "POST /queryAllBiz HTTP/1.1\r\nHost: base\r\nContent-Length: 2\r\n\r\n{}"
)

// Player sends the requests of recordings to one base, real or simulated.
type Player struct {
	Places *Places
	Tunnel Tunnel
	// Dial connects to arklet's HTTP server.
	Dial func(context.Context) (net.Conn, error)
	// Web returns the URL of the base's own web server.
	Web func(context.Context) (string, error)
	// Broker and Tap are the MQTT broker of the base and its hook; for the MQTT tunnel.
	Broker *mqtt.Server
	Tap    *Tap
	// Silence is how long Play waits to see that there is no answer.
	Silence time.Duration

	background chan result
}

type result struct {
	answer string
	err    error
}

// Play sends requests one after the other and returns them with the base's answers. Each
// Exchange says whether an answer is expected. Play blocks until all are answered or ctx ends.
func (p *Player) Play(ctx context.Context, list []Exchange) (answered []Exchange, err error) {
	if err := p.Places.lock(); err != nil {
		return nil, err
	}
	for i, x := range list {
		x, err := p.exchange(ctx, x)
		if err != nil {
			return nil, fmt.Errorf("exchange %d (%s%s %s%s): %w", i+1, x.Command, x.Web, x.Body, x.Raw, err)
		}
		answered = append(answered, x)
	}
	return answered, nil
}

func (p *Player) exchange(ctx context.Context, x Exchange) (Exchange, error) {
	silent := x.Silent
	x.Answer, x.Messages, x.Silent = "", nil, false
	if x.Release {
		if err := p.Places.release(); err != nil {
			return x, err
		}
	}
	err := p.await(ctx, x)
	for err == nil {
		if p.Tunnel == MQTT && x.Web == "" {
			x.Messages, err = p.overMQTT(ctx, x, silent)
			x.Silent = silent && len(x.Messages) == 0
		} else {
			x.Answer, x.Silent, err = p.overHTTP(ctx, x, silent)
			x.Answer = p.normal(x.Answer)
		}
		if err != nil || strings.Contains(x.Answer, x.Until) {
			break
		}
		err = sleep(ctx, pollTime)
	}
	return x, err
}

// await blocks until the base lists a text, or downloads a jar.
func (p *Player) await(ctx context.Context, x Exchange) error {
	if x.Await == "" && !x.AwaitDownload {
		return nil
	}
	for {
		answer, _, err := p.request(ctx, questionAll, false)
		if err != nil || strings.Contains(answer, x.Await) && (!x.AwaitDownload || p.Places.hanging.asked()) {
			return err
		}
		if err := sleep(ctx, pollTime); err != nil {
			return fmt.Errorf("waiting for %q in %s, or for a download: %w", x.Await, answer, err)
		}
	}
}

func (p *Player) overHTTP(ctx context.Context, x Exchange, silent bool) (answer string, wasSilent bool, err error) {
	if x.Web != "" {
		answer, err = p.overWeb(ctx, x.Web)
		return answer, false, err
	}
	if x.Join {
		r := <-p.background
		return r.answer, false, r.err
	}
	raw := x.Raw
	if raw == "" {
		body := p.Places.fill(x.Body)
		raw = fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: base\r\nContent-Length: %d\r\n\r\n%s", x.Command, len(body), body)
	}
	if !x.Background {
		return p.request(ctx, p.Places.fill(raw), silent)
	}
	done := make(chan result, 1)
	p.background = done
	go func() {
		answer, _, err := p.request(ctx, raw, false)
		done <- result{answer, err}
	}()
	return "", false, nil
}

// request sends a whole HTTP request and returns what the base sends until it closes the connection. A base that does
// not read all of a request may reset the connection.
func (p *Player) request(ctx context.Context, raw string, silent bool) (answer string, wasSilent bool, err error) {
	conn, err := p.Dial(ctx)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = conn.Close() }() // everything has been read
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, writeErr := io.WriteString(conn, raw)
	if silent {
		if err := conn.SetReadDeadline(time.Now().Add(p.Silence)); err != nil {
			return "", false, err
		}
	}
	var text []byte
	buf := make([]byte, 64<<10)
	for err == nil {
		var n int
		n, err = conn.Read(buf)
		text = append(text, buf[:n]...)
		if err == nil {
			err = conn.SetReadDeadline(time.Now().Add(leftOpen))
		}
	}
	switch {
	case len(text) > 0 || writeErr == nil && errors.Is(err, io.EOF):
		return string(text), false, nil
	case silent && errors.Is(err, os.ErrDeadlineExceeded):
		return "", true, nil
	default:
		return "", false, errors.Join(writeErr, err, ctx.Err())
	}
}

func (p *Player) overWeb(ctx context.Context, path string) (string, error) {
	url, err := p.Web(ctx)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err := io.ReadAll(response.Body)
	return fmt.Sprintf("HTTP/1.1 %d\r\nContent-Type: %s\r\n\r\n%s", response.StatusCode,
		response.Header.Get("Content-Type"), body), err
}

func (p *Player) overMQTT(ctx context.Context, x Exchange, silent bool) ([]Message, error) {
	if !x.Join {
		if err := p.Broker.Publish(root+x.Command, []byte(p.Places.fill(x.Body)), false, 1); err != nil {
			return nil, err
		}
	}
	if x.Background {
		return nil, nil
	}
	if silent {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Silence)
		defer cancel()
	}
	select {
	case m := <-p.Tap.answers:
		m.Payload = p.normal(m.Payload)
		return []Message{m}, nil
	case <-ctx.Done():
		if silent {
			return nil, nil
		}
		return nil, fmt.Errorf("waiting for an answer: %w", ctx.Err())
	}
}

// World is what surrounds a base with phases: the process of the base, and its broker or its controller.
type World interface {
	// Happen lets an event happen.
	Happen(ctx context.Context, event Event) error
	// Listens reports whether the broker or the controller accepts connections.
	Listens() bool
	// Ready blocks until arklet answers.
	Ready(ctx context.Context) error
}

// Live plays phases, and returns them with everything that the base sent. The end of a phase does not depend on the
// duration of requests: phases follow the clock of the base, which begins with the first thing that it sends.
func (p *Player) Live(ctx context.Context, w World, phases []Phase) (lived []Phase, err error) {
	due := time.Now()
	for i, ph := range phases {
		first := p.Tap.Expect()
		err := w.Happen(ctx, ph.Event)
		if err == nil && ph.Event == Start {
			if w.Listens() {
				select {
				case <-first:
				case <-ctx.Done():
				}
			}
			due = time.Now()
		}
		due = due.Add(time.Duration(ph.Seconds) * time.Second)
		if err == nil {
			err = sleep(ctx, time.Until(due))
		}
		ph.Sent = p.Tap.Take()
		if err == nil && ph.Event == Start {
			err = w.Ready(ctx)
		}
		if err == nil {
			ph.Exchanges, err = p.Play(ctx, ph.Exchanges)
		}
		if err != nil {
			return nil, fmt.Errorf("phase %d (%s): %w", i+1, ph.Event, err)
		}
		lived = append(lived, ph)
	}
	return lived, nil
}

func (p *Player) normal(answer string) string { return Normal(p.Places.strip(answer)) }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
