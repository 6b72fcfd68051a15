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
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

const figuresEvery = 100 * time.Millisecond

// Stream is a stream of requests of the run.
type Stream struct {
	// Spec is what it sends.
	Spec v1alpha1.Traffic
	// End is what it has led to; nil while it runs.
	End *traffic.StreamResult
	// Failure says why its judge is not true; nil when it is, or while it runs.
	Failure *Failure
}

// Stream returns a stream by its name, and nil if there is none.
func (e *Env) Stream(name string) *Stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.streams[name]
}

// AddStream adds a stream that has started.
func (e *Env) AddStream(t v1alpha1.Traffic) {
	e.mu.Lock()
	e.streams[t.Name] = &Stream{Spec: t}
	e.order = append(e.order, t.Name)
	e.mu.Unlock()
	e.World.SetTraffic([]traffic.Summary{{Name: t.Name, Started: time.Now()}})
}

// StopStream stops a stream and judges it.
func (e *Env) StopStream(ctx context.Context, name string) (*Stream, error) {
	e.mu.Lock()
	stream := e.streams[name]
	e.mu.Unlock()
	switch {
	case stream == nil:
		return nil, Fail("there is no stream %q", name)
	case stream.End != nil:
		return nil, Fail("the stream %q was stopped before", name)
	}
	end, err := e.Sandbox.StopTraffic(ctx, e.Group, name)
	if err != nil {
		return nil, fmt.Errorf("stopping traffic %s: %w", name, err)
	}
	e.World.SetTraffic([]traffic.Summary{end.Summary})
	judged := e.judge(stream.Spec, end)
	e.mu.Lock()
	defer e.mu.Unlock()
	stream.End, stream.Failure = end, judged
	return stream, nil
}

// StopAll stops the streams that still run, and returns the first that was not as its judge wants
// it.
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

// Streams returns the streams in the order in which they were started.
func (e *Env) Streams() []Stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]Stream, len(e.order))
	for i, name := range e.order {
		all[i] = *e.streams[name]
	}
	return all
}

// FollowTraffic gives the World new figures as long as streams run, until ctx ends.
func (e *Env) FollowTraffic(ctx context.Context) {
	tick := time.NewTicker(figuresEvery)
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
		if all, err := e.Sandbox.Traffic(ctx, e.Group); err == nil { // a daemon that is gone shows elsewhere
			e.World.SetTraffic(all)
		}
	}
}

// The errors behind failures of streams.
var (
	ErrNothingSent     = errors.New("the stream sent no requests")
	ErrNothingCompared = errors.New("the judge of the stream compared nothing")
	ErrJudgeNotTrue    = errors.New("the judge of the stream is not true")
	ErrStoppedEarly    = errors.New("the stream stopped before the run ended")
)

// judge returns why the judge of a stream is not true, or nil.
func (e *Env) judge(t v1alpha1.Traffic, end *traffic.StreamResult) *Failure {
	if end.Sent == 0 {
		return Fail("traffic %s sent nothing, so it proves nothing", t.Name).because(ErrNothingSent)
	}
	p, err := e.Compile(t.Judge, expr.Judge)
	if err != nil {
		return Fail("%v", err)
	}
	data := e.Known()
	maps.Copy(data, expr.Stream(end.Summary))
	r, err := p.Eval(data)
	switch {
	case err != nil:
		return Fail("traffic %s: %v", t.Name, err)
	case r.True() && end.Note != "":
		return Fail("traffic %s %s while the run went on: nothing is known of what came after that", t.Name, end.Note).
			because(ErrStoppedEarly)
	case r.True():
		return nil
	case r.Value == true:
		return Fail("traffic %s: %s compared nothing", t.Name, t.Judge).because(ErrNothingCompared)
	}
	stream := Stream{Spec: t, End: end}
	return Fail("traffic %s: %s is not true: %s", t.Name, t.Judge, stream.Summary()).because(ErrJudgeNotTrue)
}

// Summary says in a line what became of a stream.
func (x Stream) Summary() string {
	text := fmt.Sprintf("%d requests sent, %d lost", x.End.Sent, x.End.Lost)
	if x.End.Route == traffic.RouteKubeProxy || x.End.Route == traffic.RouteAgent {
		text = fmt.Sprintf("%d requests sent %s, %d lost", x.End.Sent, events.RoutePhrase(x.End.Route), x.End.Lost)
	}
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
