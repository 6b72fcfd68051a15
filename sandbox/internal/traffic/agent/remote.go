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

// errNotRunning is returned by StartStream after the end of Start.
var errNotRunning = errors.New("no traffic agent can be started now")

// Options of a Remote.
type Options struct {
	// Launch starts an agent. It blocks until the agent can be asked, or ctx ends, which
	// does not end the agent. Required.
	Launch func(ctx context.Context) (Process, error)
	// Lost is called for lost requests, one at a time, and for each stream that the end of its agent has interrupted,
	// with the result traffic.Other. Default: nothing is reported.
	Lost func(traffic.LostRequest)
	// Logger for what goes wrong. Default: nothing is logged.
	Logger *slog.Logger
}

// Remote runs streams in agents. It starts an agent for the first stream, and again after an agent has ended. The
// streams of an agent end with it, and their results are lost. All methods may be called concurrently.
type Remote struct {
	o        Options
	started  chan struct{} // closed when Start runs
	starting chan struct{} // held by whoever starts an agent

	mu      sync.Mutex     // guards what follows
	run     func(*session) // tells what an agent tells, until it ends; nil while Start does not run
	inform  func(*telling) // tells an agent what a stream picks from; nil while Start does not run
	session *session       // for new streams; nil = none runs
	groups  map[string][]*stream
	wg      sync.WaitGroup
}

// stream is a stream of an agent. Remote.mu guards what can change.
type stream struct {
	name string
	on   *session
	// begun is false while the agent is asked to begin it, over true when it was stopped.
	begun, over bool
	last        traffic.Summary // as far as known
	telling     *telling        // nil = the agent need not be told anything
}

// New returns a Remote without streams, which starts no agent.
func New(o Options) *Remote {
	if o.Lost == nil {
		o.Lost = func(traffic.LostRequest) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Remote{o: o, started: make(chan struct{}), starting: make(chan struct{}, 1), groups: map[string][]*stream{}}
}

// Start lets streams run until ctx ends, which ends the agent and cuts all of them off,
// and returns nil when it has ended. It can be called once.
func (r *Remote) Start(ctx context.Context) error {
	r.mu.Lock()
	r.run = func(s *session) { r.follow(ctx, s) }
	r.inform = func(t *telling) { r.wg.Go(func() { t.run(ctx, r.o.Logger) }) }
	r.mu.Unlock()
	close(r.started)
	<-ctx.Done()
	r.mu.Lock()
	r.run, r.inform = nil, nil
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

// agent returns the agent that runs, or starts one.
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
	run, s := r.run, r.session
	r.mu.Unlock()
	switch {
	case run == nil:
		return nil, errNotRunning
	case s != nil && s.runs():
		return s, nil
	}
	p, err := r.o.Launch(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting a traffic agent: %w", err)
	}
	s = newSession(p)
	theirs, err := ask(ctx, s, of, rpc.None{})
	if err == nil {
		err = version.CheckCompatible("the traffic agent", theirs, version.String())
	}
	if err == nil {
		s.ahead, err = s.client.Ahead(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		return nil, errors.Join(errNotRunning, p.Close())
	}
	r.session = s
	r.wg.Go(func() { run(s) })
	return s, nil
}

// follow tells what an agent tells, until it ends or ctx does.
func (r *Remote) follow(ctx context.Context, s *session) {
	err := s.run(ctx, r.o.Lost)
	now := time.Now()
	var cut []traffic.LostRequest
	r.mu.Lock()
	if r.session == s {
		r.session = nil
	}
	for group, streams := range r.groups {
		for _, x := range streams {
			if x.on != s || !x.begun || x.over {
				continue
			}
			x.last.Ended, x.last.Note = now, fmt.Sprintf("was cut off: %v", err)
			cut = append(cut, traffic.LostRequest{Group: group, Stream: x.name, Route: x.last.Route,
				Record: traffic.Record{
					Due: now, Sent: now, Done: now, Result: traffic.Other, Error: "the stream " + x.last.Note,
				}})
		}
	}
	r.mu.Unlock()
	if ctx.Err() != nil {
		return // the streams end with everything else
	}
	r.o.Logger.Error("streams are cut off", "streams", len(cut), "err", err)
	for _, l := range cut {
		r.o.Lost(l)
	}
}

// StartStream starts a stream of a group in the agent, and starts the agent if none runs. The Spec has an Address, or is
// Inside: then source returns the targets until the stream is stopped. It waits for Start. See traffic.Generator.StartStream.
func (r *Remote) StartStream(ctx context.Context, group string, spec traffic.Spec, source Source) error {
	spec, err := spec.Complete()
	if err != nil {
		return err
	}
	s, err := r.agent(ctx)
	if err != nil {
		return fmt.Errorf("starting traffic %q: %w", spec.Name, err)
	}
	x := &stream{name: spec.Name, on: s,
		last: traffic.Summary{Name: spec.Name, Route: spec.Route(), Started: time.Now()}}
	request := beginRequest{Group: group, Spec: spec}
	if source != nil {
		x.telling = newTelling(s, streamRequest{group, spec.Name}, source)
		request.TargetSet = x.telling.first()
	}
	if err := r.add(group, x); err != nil {
		return err
	}
	_, err = ask(ctx, s, begin, request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		err = s.ended() // from now on that would be told
	}
	if err == nil && x.telling != nil {
		if r.inform == nil {
			err = errNotRunning
		} else {
			r.inform(x.telling)
		}
	}
	if err != nil {
		r.groups[group] = slices.DeleteFunc(r.groups[group], func(y *stream) bool { return y == x })
		return err
	}
	x.begun = true
	return nil
}

func (r *Remote) add(group string, x *stream) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, y := range r.groups[group] {
		if y.name == x.name {
			return fmt.Errorf("starting traffic %q: %w", x.name, traffic.ErrStreamExists)
		}
	}
	r.groups[group] = append(r.groups[group], x)
	return nil
}

func (r *Remote) find(group, name string) (*stream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.groups[group] {
		if x.name == name && x.begun {
			return x, nil
		}
	}
	return nil, fmt.Errorf("traffic %q: %w", name, traffic.ErrNoStream)
}

// Summaries counts the streams of a run, in order of their start. Of a stream whose
// agent does not answer it returns what was known last.
func (r *Remote) Summaries(ctx context.Context, group string) []traffic.Summary {
	r.mu.Lock()
	s, known := r.session, len(r.groups[group]) > 0
	r.mu.Unlock()
	var fresh []traffic.Summary
	if s != nil && known {
		var err error
		fresh, err = ask(ctx, s, summaries, group)
		if err != nil {
			r.o.Logger.Warn("the traffic agent does not say how its streams are", "group", group, "err", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []traffic.Summary{}
	for _, x := range r.groups[group] {
		if !x.begun {
			continue
		}
		i := slices.IndexFunc(fresh, func(f traffic.Summary) bool { return f.Name == x.name })
		if i >= 0 && x.on == s && s.ended() == nil {
			s.here(&fresh[i].Started, &fresh[i].Ended)
			x.last = fresh[i]
		}
		out = append(out, x.last)
	}
	return out
}

// Stop ends a stream, after all its lost requests were reported. It returns an error if the agent has ended. See
// traffic.Generator.Stop.
func (r *Remote) Stop(ctx context.Context, group, name string) (*traffic.StreamResult, error) {
	x, err := r.find(group, name)
	if err != nil {
		return nil, err
	}
	end, err := ask(ctx, x.on, stop, streamRequest{group, name})
	if err == nil {
		err = x.on.told.Wait(ctx, end.Count)
	}
	if err != nil {
		return nil, fmt.Errorf("what became of the requests of traffic %q is not known: %w", name, err)
	}
	x.telling.stop()
	x.on.end(end.Answer)
	r.mu.Lock()
	defer r.mu.Unlock()
	x.over, x.last = true, end.Answer.Summary
	return end.Answer, nil
}

// SyncTargets blocks until the agents know what their streams may pick from now, or ctx ends.
func (r *Remote) SyncTargets(ctx context.Context) {
	r.mu.Lock()
	var all []*telling
	for _, streams := range r.groups {
		for _, x := range streams {
			if x.begun && !x.over && x.telling != nil {
				all = append(all, x.telling)
			}
		}
	}
	r.mu.Unlock()
	for _, t := range all {
		t.wait(ctx)
	}
}

// Records calls sink for every request of a stream so far. See
// traffic.Generator.Records.
func (r *Remote) Records(ctx context.Context, group, name string, sink func(traffic.Record)) error {
	x, err := r.find(group, name)
	if err != nil {
		return err
	}
	err = x.on.ended()
	if err == nil {
		err = records.Call(ctx, &x.on.client, streamRequest{group, name},
			func(record traffic.Record) { sink(x.on.record(record)) })
	}
	if err != nil {
		return fmt.Errorf("reading the requests of traffic %q: %w", name, err)
	}
	return nil
}

// Drop cuts the streams of a run off and forgets them. Nothing more is told of them
// when it returns.
func (r *Remote) Drop(ctx context.Context, group string) {
	r.mu.Lock()
	s := r.session
	for _, x := range r.groups[group] {
		x.telling.stop()
	}
	delete(r.groups, group)
	r.mu.Unlock()
	if s == nil {
		return
	}
	dropped, err := ask(ctx, s, drop, group)
	if err == nil {
		err = s.told.Wait(ctx, dropped.Count)
	}
	if err != nil {
		r.o.Logger.Error("the traffic agent does not drop streams", "group", group, "err", err)
	}
}
