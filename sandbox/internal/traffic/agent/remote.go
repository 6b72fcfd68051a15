package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/internal/version"
)

// errNotRunning is the error of StartStream after Start has returned.
var errNotRunning = errors.New("no traffic agent can be started while the sandbox starts or shuts down")

// Options configures a Remote.
type Options struct {
	// Launch starts an agent, and blocks until the agent accepts calls or ctx ends. The agent must continue to run
	// after ctx ends. Required.
	Launch func(ctx context.Context) (Process, error)
	// Lost is called for each lost request, one call at a time. If an agent exits, Lost is also called once for each
	// interrupted stream, with the result traffic.Other. Default: lost requests are not reported.
	Lost func(traffic.LostRequest)
	// Logger logs errors. Default: nothing is logged.
	Logger *slog.Logger
}

// Remote runs streams in an agent. It starts an agent for the first stream, and a new agent if the previous agent has
// exited. When an agent exits, its streams end and their results are lost. All methods may be called concurrently.
type Remote struct {
	o        Options
	started  chan struct{} // closed when Start is running
	starting chan struct{} // semaphore, so that only one agent is started at a time

	mu        sync.Mutex        // guards the following fields
	onSession func(*session)    // handles an agent until it exits; nil while Start is not running
	startSync func(*targetSync) // runs a targetSync; nil while Start is not running
	session   *session          // agent for new streams; nil if there is none
	groups    map[string][]*stream
	wg        sync.WaitGroup
}

// stream is a stream that runs in an agent. Remote.mu guards the fields that change.
type stream struct {
	name    string
	session *session
	// started is set when the agent has started the stream. stopped is set when the result of the stream has been
	// read.
	started, stopped bool
	last             traffic.Summary // most recent known summary of the stream
	sync             *targetSync     // nil if the stream has no Source
}

// New returns a Remote without streams. It does not start an agent.
func New(o Options) *Remote {
	if o.Lost == nil {
		o.Lost = func(traffic.LostRequest) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Remote{o: o, started: make(chan struct{}), starting: make(chan struct{}, 1), groups: map[string][]*stream{}}
}

// Start runs streams and blocks until ctx ends. It then stops the agent, which interrupts its streams, and returns
// nil after the agent has exited. Call Start once.
func (r *Remote) Start(ctx context.Context) error {
	r.mu.Lock()
	r.onSession = func(s *session) { r.runSession(ctx, s) }
	r.startSync = func(t *targetSync) { r.wg.Go(func() { t.run(ctx, r.o.Logger) }) }
	r.mu.Unlock()
	close(r.started)
	<-ctx.Done()
	r.mu.Lock()
	r.onSession, r.startSync = nil, nil
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

// agent returns the running agent. If no agent is running, it starts one. It blocks until Start is running.
func (r *Remote) agent(ctx context.Context) (*session, error) {
	select {
	case <-r.started:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case r.starting <- struct{}{}:
		defer func() { <-r.starting }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r.mu.Lock()
	run, s := r.onSession, r.session
	r.mu.Unlock()
	switch {
	case run == nil:
		return nil, errNotRunning
	case s != nil && s.running():
		return s, nil
	}
	p, err := r.o.Launch(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting a traffic agent: %w", err)
	}
	s = newSession(p)
	theirs, err := ask(ctx, s, getVersion, rpc.Empty{})
	if err == nil {
		err = version.CheckCompatible("the traffic agent", theirs, version.String())
	}
	if err == nil {
		s.ahead, err = s.client.ClockOffset(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.onSession == nil {
		return nil, errors.Join(errNotRunning, p.Close())
	}
	r.session = s
	r.wg.Go(func() { run(s) })
	return s, nil
}

// runSession reports the lost requests of an agent until the agent exits or ctx ends. If the agent has exited,
// runSession then reports the interrupted streams.
func (r *Remote) runSession(ctx context.Context, s *session) {
	err := s.run(ctx, r.o.Lost)
	now := time.Now()
	var cut []traffic.LostRequest
	r.mu.Lock()
	if r.session == s {
		r.session = nil
	}
	for group, streams := range r.groups {
		for _, x := range streams {
			if x.session != s || !x.started || x.stopped {
				continue
			}
			x.last.Ended, x.last.Note = now, fmt.Sprintf("was interrupted: %v", err)
			cut = append(cut, traffic.LostRequest{Group: group, Stream: x.name, Route: x.last.Route,
				Record: traffic.Record{
					Due: now, Sent: now, Done: now, Result: traffic.Other, Error: "the stream " + x.last.Note,
				}})
		}
	}
	r.mu.Unlock()
	if ctx.Err() != nil {
		return // everything ends
	}
	r.o.Logger.Error("streams were interrupted", "streams", len(cut), "err", err)
	for _, l := range cut {
		r.o.Lost(l)
	}
}

// StartStream starts a stream of a group in the agent. If no agent is running, it starts one. If spec.Inside is set,
// source supplies the targets until the stream stops. Otherwise, the requests are sent to spec.Address. StartStream
// blocks until Start is running. See traffic.Generator.StartStream.
func (r *Remote) StartStream(ctx context.Context, group string, spec traffic.Spec, source Source) error {
	spec, err := spec.Complete()
	if err != nil {
		return err
	}
	s, err := r.agent(ctx)
	if err != nil {
		return fmt.Errorf("starting stream %q: %w", spec.Name, err)
	}
	x := &stream{name: spec.Name, session: s,
		last: traffic.Summary{Name: spec.Name, Route: spec.Route(), Started: time.Now()}}
	request := startStreamRequest{Group: group, Spec: spec}
	if source != nil {
		x.sync = newTargetSync(s, streamRequest{group, spec.Name}, source)
		request.TargetSet = x.sync.initialTargets()
	}
	if err := r.add(group, x); err != nil {
		return err
	}
	_, err = ask(ctx, s, startStream, request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		err = s.endErr() // a later end is reported to Lost
	}
	if err == nil && x.sync != nil {
		if r.startSync == nil {
			err = errNotRunning
		} else {
			r.startSync(x.sync)
		}
	}
	if err != nil {
		r.groups[group] = slices.DeleteFunc(r.groups[group], func(y *stream) bool { return y == x })
		return err
	}
	x.started = true
	return nil
}

func (r *Remote) add(group string, x *stream) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, y := range r.groups[group] {
		if y.name == x.name {
			return fmt.Errorf("starting stream %q: %w", x.name, traffic.ErrStreamExists)
		}
	}
	r.groups[group] = append(r.groups[group], x)
	return nil
}

func (r *Remote) find(group, name string) (*stream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.groups[group] {
		if x.name == name && x.started {
			return x, nil
		}
	}
	return nil, fmt.Errorf("stream %q: %w", name, traffic.ErrNoStream)
}

// Summaries returns the summaries of a group's streams, in the order in which the streams started. If the agent of a
// stream does not respond, Summaries returns the most recent known summary of the stream.
func (r *Remote) Summaries(ctx context.Context, group string) []traffic.Summary {
	r.mu.Lock()
	s, known := r.session, len(r.groups[group]) > 0
	r.mu.Unlock()
	var fresh []traffic.Summary
	if s != nil && known {
		var err error
		fresh, err = ask(ctx, s, summaries, group)
		if err != nil {
			r.o.Logger.Warn("could not read the stream summaries of the traffic agent", "group", group, "err",
				err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []traffic.Summary{}
	for _, x := range r.groups[group] {
		if !x.started {
			continue
		}
		i := slices.IndexFunc(fresh, func(f traffic.Summary) bool { return f.Name == x.name })
		if i >= 0 && x.session == s && s.endErr() == nil {
			s.toLocal(&fresh[i].Started, &fresh[i].Ended)
			x.last = fresh[i]
		}
		out = append(out, x.last)
	}
	return out
}

// Stop stops a stream and returns its result. It blocks until all lost requests of the stream have been reported. It
// returns an error if the agent has exited. See traffic.Generator.Stop.
func (r *Remote) Stop(ctx context.Context, group, name string) (*traffic.StreamResult, error) {
	x, err := r.find(group, name)
	if err != nil {
		return nil, err
	}
	end, err := ask(ctx, x.session, stop, streamRequest{group, name})
	if err == nil {
		err = x.session.delivered.Wait(ctx, end.Count)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the result of stream %q: %w", name, err)
	}
	x.sync.stop()
	x.session.localizeResult(end.Answer)
	r.mu.Lock()
	defer r.mu.Unlock()
	x.stopped, x.last = true, end.Answer.Summary
	return end.Answer, nil
}

// SyncTargets blocks until the agent has received the current targets of all streams, or ctx ends.
func (r *Remote) SyncTargets(ctx context.Context) {
	r.mu.Lock()
	var all []*targetSync
	for _, streams := range r.groups {
		for _, x := range streams {
			if x.started && !x.stopped && x.sync != nil {
				all = append(all, x.sync)
			}
		}
	}
	r.mu.Unlock()
	for _, t := range all {
		t.wait(ctx)
	}
}

// Records calls sink for every completed request of a stream. See traffic.Generator.Records.
func (r *Remote) Records(ctx context.Context, group, name string, sink func(traffic.Record)) error {
	x, err := r.find(group, name)
	if err != nil {
		return err
	}
	err = x.session.endErr()
	if err == nil {
		err = records.Call(ctx, &x.session.client, streamRequest{group, name},
			func(record traffic.Record) { sink(x.session.record(record)) })
	}
	if err != nil {
		return fmt.Errorf("reading the requests of stream %q: %w", name, err)
	}
	return nil
}

// Drop cancels and removes the streams of a group. After Drop has returned, lost requests of the group are no longer
// reported.
func (r *Remote) Drop(ctx context.Context, group string) {
	r.mu.Lock()
	s := r.session
	for _, x := range r.groups[group] {
		x.sync.stop()
	}
	delete(r.groups, group)
	r.mu.Unlock()
	if s == nil {
		return
	}
	dropped, err := ask(ctx, s, drop, group)
	if err == nil {
		err = s.delivered.Wait(ctx, dropped.Count)
	}
	if err != nil {
		r.o.Logger.Error("could not drop the streams of a group in the traffic agent", "group", group, "err", err)
	}
}
