package action

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

// figuresEvery is how often conditions get new figures of the traffic.
const figuresEvery = 100 * time.Millisecond

// Stream is a stream of requests of the run.
type Stream struct {
	// Spec is what it sends.
	Spec v1alpha1.Traffic
	// End is what it has led to; nil while it runs.
	End *traffic.End
	// Failure says why its judge is not true; nil when it is, or while it runs.
	Failure *Failure
}

func (s *Stage) traffic(ctx context.Context, a *v1alpha1.TrafficAction) (string, error) {
	if a.Start != nil {
		return s.startTraffic(ctx, *a.Start)
	}
	if a.Stop == nil {
		return "", fmt.Errorf("the step says nothing to do with traffic")
	}
	stream, err := s.stopTraffic(ctx, a.Stop.Name)
	if err != nil {
		return "", err
	}
	if stream.Failure != nil {
		return "", stream.Failure
	}
	return stream.summary(), nil
}

func (s *Stage) startTraffic(ctx context.Context, t v1alpha1.Traffic) (string, error) {
	if _, err := s.Compile(t.Judge, expr.Judge); err != nil {
		return "", err
	}
	if t.Via == v1alpha1.ViaBases && len(t.Bases) > 0 {
		if _, err := s.resolve(t.Bases); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	_, twice := s.streams[t.Name]
	s.mu.Unlock()
	if twice {
		return "", fail("there has been a stream %q already: give this one another name", t.Name)
	}
	if err := s.known(ctx, t.Service); err != nil {
		return "", err
	}
	spec := traffic.Spec{Traffic: t, Namespace: s.o.Namespace, Seed: s.o.Seed, Duration: min(s.o.TrafficFor, traffic.MaxDuration)}
	if err := s.o.Sandbox.StartTraffic(ctx, s.o.Group, spec); err != nil {
		return "", fmt.Errorf("starting traffic %s: %w", t.Name, err)
	}
	s.mu.Lock()
	s.streams[t.Name] = &Stream{Spec: t}
	s.order = append(s.order, t.Name)
	s.mu.Unlock()
	s.o.World.SetTraffic([]traffic.Summary{{Name: t.Name, Started: time.Now()}})
	to := "all bases"
	switch {
	case t.Via != v1alpha1.ViaBases:
		to = "Service " + t.Service
	case len(t.Bases) > 0:
		to = strings.Join(t.Bases, ", ")
	}
	rate := "requests"
	if t.Rate != nil {
		rate = fmt.Sprintf("%d requests a second", *t.Rate)
	}
	return rate + " to " + to, nil
}

// askingService is how long the API may take to say whether a Service is there.
const askingService = 2 * time.Second

// known fails if there is no Service of a name, which would answer nothing. An API that is away is no
// reason not to send.
func (s *Stage) known(ctx context.Context, service string) error {
	if service == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askingService)
	defer cancel()
	services := s.o.Kube.Typed.CoreV1().Services(s.o.Namespace)
	if _, err := services.Get(ctx, service, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return nil
	}
	var names []string
	if there, err := services.List(ctx, metav1.ListOptions{}); err == nil {
		for _, one := range there.Items {
			names = append(names, one.Name)
		}
	}
	return fail("there is no Service %s: apply it before traffic to it starts%s", service, plain.Meant(service, names))
}

func (s *Stage) stopTraffic(ctx context.Context, name string) (*Stream, error) {
	s.mu.Lock()
	stream := s.streams[name]
	s.mu.Unlock()
	switch {
	case stream == nil:
		return nil, fail("there is no stream %q", name)
	case stream.End != nil:
		return nil, fail("the stream %q was stopped before", name)
	}
	end, err := s.o.Sandbox.StopTraffic(ctx, s.o.Group, name)
	if err != nil {
		return nil, fmt.Errorf("stopping traffic %s: %w", name, err)
	}
	s.o.World.SetTraffic([]traffic.Summary{end.Summary})
	judged := s.judge(stream.Spec, end)
	s.mu.Lock()
	defer s.mu.Unlock()
	stream.End, stream.Failure = end, judged
	return stream, nil
}

// StopAll stops the streams that still run, and returns the first that was not as its judge wants
// it.
func (s *Stage) StopAll(ctx context.Context) error {
	var first error
	for _, stream := range s.Streams() {
		if stream.End != nil {
			continue
		}
		stopped, err := s.stopTraffic(ctx, stream.Spec.Name)
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
func (s *Stage) Streams() []Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Stream, len(s.order))
	for i, name := range s.order {
		all[i] = *s.streams[name]
	}
	return all
}

// FollowTraffic gives the World new figures as long as streams run, until ctx ends.
func (s *Stage) FollowTraffic(ctx context.Context) {
	tick := time.NewTicker(figuresEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !slices.ContainsFunc(s.Streams(), func(x Stream) bool { return x.End == nil }) {
			continue
		}
		if all, err := s.o.Sandbox.Traffic(ctx, s.o.Group); err == nil { // a daemon that is gone shows elsewhere
			s.o.World.SetTraffic(all)
		}
	}
}

// judge says why a stream is not as its judge wants it, or nil.
func (s *Stage) judge(t v1alpha1.Traffic, end *traffic.End) *Failure {
	if end.Sent == 0 {
		return fail("traffic %s sent nothing, so it proves nothing", t.Name)
	}
	p, err := s.Compile(t.Judge, expr.Judge)
	if err != nil {
		return fail("%v", err)
	}
	data := s.Known()
	maps.Copy(data, expr.Stream(end.Summary))
	r, err := p.Eval(data)
	switch {
	case err != nil:
		return fail("traffic %s: %v", t.Name, err)
	case r.True() && end.Note != "":
		return fail("traffic %s %s while the run went on: nothing is known of what came after that", t.Name, end.Note)
	case r.True():
		return nil
	case r.Value == true:
		return fail("traffic %s: %s compared nothing", t.Name, t.Judge)
	}
	stream := Stream{Spec: t, End: end}
	return fail("traffic %s: %s is not true: %s", t.Name, t.Judge, stream.summary())
}

// summary says in a line what became of a stream.
func (x Stream) summary() string {
	text := fmt.Sprintf("%d requests sent, %d lost", x.End.Sent, x.End.Lost)
	if x.End.Route == traffic.RouteKubeProxy || x.End.Route == traffic.RouteAgent {
		text = fmt.Sprintf("%d requests sent %s, %d lost", x.End.Sent, traffic.Through(x.End.Route), x.End.Lost)
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
