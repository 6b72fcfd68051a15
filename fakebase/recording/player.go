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
	// idleTimeout is the maximum time between two parts of an HTTP response.
	idleTimeout  = 3 * time.Second
	pollInterval = 20 * time.Millisecond

	listRequest = "POST /queryAllBiz HTTP/1.1\r\nHost: base\r\nContent-Length: 2\r\n\r\n{}"
)

// Player sends the recorded requests to a real or simulated base.
type Player struct {
	Fixtures *Fixtures
	Tunnel   Tunnel
	// Dial connects to the HTTP server of arklet.
	Dial func(context.Context) (net.Conn, error)
	// Web returns the URL of the web server of the base.
	Web func(context.Context) (string, error)
	// Broker is the MQTT broker of the base. Tap is the broker hook that records packets. Both are required for the
	// MQTT tunnel.
	Broker *mqtt.Server
	Tap    *Tap
	// NoAnswerTimeout is how long Play waits before it concludes that the base does not respond.
	NoAnswerTimeout time.Duration

	background chan result
}

type result struct {
	answer string
	err    error
}

// Play sends requests one after another and returns them with their responses. Each Exchange defines whether a
// response is expected. Play blocks until all expected responses have arrived or ctx is done.
func (p *Player) Play(ctx context.Context, list []Exchange) (answered []Exchange, err error) {
	if err := p.Fixtures.closeGate(); err != nil {
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
	noAnswer := x.NoAnswer
	x.Answer, x.Messages, x.NoAnswer = "", nil, false
	if x.Release {
		if err := p.Fixtures.openGate(); err != nil {
			return x, err
		}
	}
	err := p.await(ctx, x)
	for err == nil {
		if p.Tunnel == MQTT && x.Web == "" {
			x.Messages, err = p.overMQTT(ctx, x, noAnswer)
			x.NoAnswer = noAnswer && len(x.Messages) == 0
		} else {
			x.Answer, x.NoAnswer, err = p.overHTTP(ctx, x, noAnswer)
			x.Answer = p.normalize(x.Answer)
		}
		if err != nil || strings.Contains(x.Answer, x.Until) {
			break
		}
		err = sleep(ctx, pollInterval)
	}
	return x, err
}

// await blocks until the conditions Await and AwaitDownload of x are met.
func (p *Player) await(ctx context.Context, x Exchange) error {
	if x.Await == "" && !x.AwaitDownload {
		return nil
	}
	for {
		answer, _, err := p.request(ctx, listRequest, false)
		if err != nil || strings.Contains(answer, x.Await) && (!x.AwaitDownload || p.Fixtures.hanging.hasWaiting()) {
			return err
		}
		if err := sleep(ctx, pollInterval); err != nil {
			return fmt.Errorf("waiting for %q in %s, or for a hanging download: %w", x.Await, answer, err)
		}
	}
}

func (p *Player) overHTTP(ctx context.Context, x Exchange, noAnswer bool) (answer string, timedOut bool, err error) {
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
		body := p.Fixtures.expand(x.Body)
		raw = fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: base\r\nContent-Length: %d\r\n\r\n%s", x.Command, len(body), body)
	}
	if !x.Background {
		return p.request(ctx, p.Fixtures.expand(raw), noAnswer)
	}
	done := make(chan result, 1)
	p.background = done
	go func() {
		answer, _, err := p.request(ctx, raw, false)
		done <- result{answer, err}
	}()
	return "", false, nil
}

// request sends a complete HTTP request. It returns the data that it receives until the base closes or resets the
// connection, or sends nothing for idleTimeout. After the first data, it returns no error. If noAnswer is true,
// timedOut reports whether the base sent nothing within NoAnswerTimeout.
func (p *Player) request(ctx context.Context, rawRequest string,
	noAnswer bool) (answer string, timedOut bool, err error) {
	conn, err := p.Dial(ctx)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = conn.Close() }() // all data has been read
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, writeErr := io.WriteString(conn, rawRequest)
	if noAnswer {
		if err := conn.SetReadDeadline(time.Now().Add(p.NoAnswerTimeout)); err != nil {
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
			err = conn.SetReadDeadline(time.Now().Add(idleTimeout))
		}
	}
	switch {
	case len(text) > 0 || writeErr == nil && errors.Is(err, io.EOF):
		return string(text), false, nil
	case noAnswer && errors.Is(err, os.ErrDeadlineExceeded):
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

func (p *Player) overMQTT(ctx context.Context, x Exchange, noAnswer bool) ([]Message, error) {
	if !x.Join {
		if err := p.Broker.Publish(root+x.Command, []byte(p.Fixtures.expand(x.Body)), false, 1); err != nil {
			return nil, err
		}
	}
	if x.Background {
		return nil, nil
	}
	if noAnswer {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.NoAnswerTimeout)
		defer cancel()
	}
	select {
	case m := <-p.Tap.answers:
		m.Payload = p.normalize(m.Payload)
		return []Message{m}, nil
	case <-ctx.Done():
		if noAnswer {
			return nil, nil
		}
		return nil, fmt.Errorf("waiting for a response: %w", ctx.Err())
	}
}

// Environment controls the environment of a base: the base process, and its broker or controller.
type Environment interface {
	// Apply applies an event to the base or its environment.
	Apply(ctx context.Context, event Event) error
	// Listens reports whether the broker or the controller accepts connections.
	Listens() bool
	// Ready blocks until arklet responds.
	Ready(ctx context.Context) error
}

// PlayPhases plays phases and returns copies with the recorded packets, requests and exchanges. Phase ends are
// scheduled from the first packet or request of a started base, so the time spent on playing exchanges does not delay
// them.
func (p *Player) PlayPhases(ctx context.Context, env Environment, phases []Phase) (played []Phase, err error) {
	due := time.Now()
	for i, ph := range phases {
		first := p.Tap.Reset()
		err := env.Apply(ctx, ph.Event)
		if err == nil && ph.Event == Start {
			if env.Listens() {
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
		ph.Sent = p.Tap.Sent()
		if err == nil && ph.Event == Start {
			err = env.Ready(ctx)
		}
		if err == nil {
			ph.Exchanges, err = p.Play(ctx, ph.Exchanges)
		}
		if err != nil {
			return nil, fmt.Errorf("phase %d (%s): %w", i+1, ph.Event, err)
		}
		played = append(played, ph)
	}
	return played, nil
}

func (p *Player) normalize(answer string) string { return Normalize(p.Fixtures.collapse(answer)) }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
