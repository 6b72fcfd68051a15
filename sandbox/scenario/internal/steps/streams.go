package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

const summaryInterval = 100 * time.Millisecond

// Stream is a stream of requests that the run has started.
type Stream struct {
	// Spec is the specification of the stream.
	Spec v1alpha1.Traffic
	// End contains the results of the stream; nil while the stream is running.
	End *traffic.StreamResult
	// Failure is the reason why the stream failed; nil if it passed, or while it is running.
	Failure *Failure
}

// Stream returns the stream with the given name, or nil.
func (e *Env) Stream(name string) *Stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.streams[name]
}

// AddStream records a stream that has started.
func (e *Env) AddStream(t v1alpha1.Traffic) {
	e.mu.Lock()
	e.streams[t.Name] = &Stream{Spec: t}
	e.order = append(e.order, t.Name)
	e.mu.Unlock()
	e.Recorder.SetTraffic([]traffic.Summary{{Name: t.Name, Started: time.Now()}})
}

// StopStream stops a stream and evaluates its judge expression.
func (e *Env) StopStream(ctx context.Context, name string) (*Stream, error) {
	e.mu.Lock()
	stream := e.streams[name]
	e.mu.Unlock()
	switch {
	case stream == nil:
		return nil, Fail("stream %q not found", name)
	case stream.End != nil:
		return nil, Fail("stream %q is already stopped", name)
	}
	end, err := e.Sandbox.StopTraffic(ctx, e.Group, name)
	if err != nil {
		return nil, fmt.Errorf("stopping stream %s: %w", name, err)
	}
	e.Recorder.SetTraffic([]traffic.Summary{end.Summary})
	judged := e.evaluateJudge(stream.Spec, end)
	e.mu.Lock()
	defer e.mu.Unlock()
	stream.End, stream.Failure = end, judged
	return stream, nil
}

// StopAll stops the running streams and returns the first error or Failure.
func (e *Env) StopAll(ctx context.Context) error {
	var first error
	for _, stream := range e.Streams() {
		if stream.End != nil {
			continue
		}
		stopped, err := e.StopStream(ctx, stream.Spec.Name)
		if err == nil && stopped.Failure != nil {
			err = stopped.Failure
		}
		if err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Streams returns all streams in the order in which they started.
func (e *Env) Streams() []Stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]Stream, len(e.order))
	for i, name := range e.order {
		all[i] = *e.streams[name]
	}
	return all
}

// FollowTraffic passes the summaries of running streams to the Recorder every 100 ms until ctx ends.
func (e *Env) FollowTraffic(ctx context.Context) {
	tick := time.NewTicker(summaryInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !slices.ContainsFunc(e.Streams(), func(x Stream) bool { return x.End == nil }) {
			continue
		}
		if all, err := e.Sandbox.Traffic(ctx, e.Group); err == nil { // the event stream reports a stopped daemon
			e.Recorder.SetTraffic(all)
		}
	}
}

// ErrNothingSent and the following errors are the causes of the Failure of a stream.
var (
	ErrNothingSent     = errors.New("stream sent no requests")
	ErrNothingCompared = errors.New("the judge expression of the stream compared no requests")
	ErrJudgeNotTrue    = errors.New("the judge expression of the stream is not true")
	ErrStoppedEarly    = errors.New("stream stopped before the run ended")
)

// evaluateJudge evaluates the judge expression of a stream, and returns the reason why the stream failed, or nil. A
// stream also fails if it sent no requests, stopped before the end of the run, or its judge expression has no value or
// compared no requests.
func (e *Env) evaluateJudge(t v1alpha1.Traffic, end *traffic.StreamResult) *Failure {
	if end.Sent == 0 {
		return Fail("stream %s sent no requests, so it proves nothing", t.Name).withCause(ErrNothingSent)
	}
	p, err := e.Compile(t.Judge, expr.Judge)
	if err != nil {
		return Fail("%v", err)
	}
	data := e.Values()
	maps.Copy(data, expr.Stream(end.Summary))
	r, err := p.Eval(data)
	switch {
	case err != nil:
		return Fail("stream %s: %v", t.Name, err)
	case r.True() && end.Note != "":
		return Fail("stream %s %s before the end of the run, so the remaining time was not tested", t.Name, end.Note).
			withCause(ErrStoppedEarly)
	case r.True():
		return nil
	case r.Value == true:
		return Fail("stream %s: %s compared nothing", t.Name, t.Judge).withCause(ErrNothingCompared)
	}
	stream := Stream{Spec: t, End: end}
	return Fail("stream %s: %s is not true: %s", t.Name, t.Judge, stream.Summary()).withCause(ErrJudgeNotTrue)
}

// Summary describes the results of a stream in one line.
func (x Stream) Summary() string {
	sent := plain.Count(x.End.Sent, "request") + " sent"
	if x.End.Route == traffic.RouteKubeProxy || x.End.Route == traffic.RouteAgent {
		sent += " " + events.RoutePhrase(x.End.Route)
	}
	text := fmt.Sprintf("%s, %d lost", sent, x.End.Lost)
	var parts []string
	for _, r := range traffic.Results {
		if n := x.End.Results[r]; n > 0 && r != traffic.OK {
			parts = append(parts, fmt.Sprintf("%s %d", r, n))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}
