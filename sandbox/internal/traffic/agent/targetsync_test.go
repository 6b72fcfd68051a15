package agent

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// source is a Source that returns the targets that the test has set.
type source struct {
	mu      sync.Mutex
	targets traffic.TargetSet
	change  chan struct{}
}

func (s *source) get() (traffic.TargetSet, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.targets, s.change
}

func (s *source) set(c traffic.TargetSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.targets = c
	if s.change != nil {
		close(s.change)
	}
	s.change = make(chan struct{})
}

// base returns a target that responds with a version.
func base(t *testing.T, ip, version string) traffic.Target {
	addr := serve(t, func(w http.ResponseWriter,
		_ *http.Request) {
		_, _ = io.WriteString(w, `{"version":"`+version+`"}`)
	})
	return traffic.Target{IP: ip, Base: "base-" + version, Web: addr}
}

// TestStreamUsesCurrentTargets checks that every kind of stream that sends requests to bases uses the current
// targets.
func TestStreamUsesCurrentTargets(t *testing.T) {
	for name, change := range map[string]func(*traffic.Spec){
		"a Service":              func(*traffic.Spec) {},
		"connections that stay":  func(s *traffic.Spec) { s.Reuse = true },
		"bases":                  func(s *traffic.Spec) { s.Via = v1alpha1.ViaBases },
		"a Service, with a seed": func(s *traffic.Spec) { s.Seed = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			r, from := newFixture(t), &source{}
			one, two := base(t, "10.0.0.1", "1"), base(t, "10.0.0.2", "2")
			from.set(traffic.TargetSet{Targets: []traffic.Target{one}})
			s := spec("s", "", change, inside)
			check.Must(t, r.StartStream(t.Context(), "g", s, from.get))
			answered := func(version string) {
				t.Helper()
				eventually(t, func() error {
					now := r.Summaries(t.Context(), "g")[0]
					if now.Lost > 0 {
						t.Fatalf("lost requests: %+v", now)
					}
					if now.Versions[version] == 0 {
						return fmt.Errorf("no answers from version %s", version)
					}
					return nil
				})
			}
			answered("1")
			from.set(traffic.TargetSet{Targets: []traffic.Target{one, two}})
			if !s.Reuse { // a reused connection keeps its endpoint
				answered("2")
			}
			from.set(traffic.TargetSet{EmptyReason: "no base exists"})
			r.SyncTargets(t.Context())
			if s.Reuse {
				return
			}
			lost := <-r.lost
			if lost.Record.Result != traffic.NoEndpoint {
				t.Errorf("lost: %+v", lost.Record)
			}
			end, err := r.Stop(t.Context(), "g", "s")
			if err != nil || end.Route != s.Route() {
				t.Errorf("result %+v, error %v", end, err)
			}
			r.SyncTargets(t.Context()) // no stream is left to update
		})
	}
}

// inside changes a Spec, so that its stream sends requests to bases until it is stopped. The request rate is low
// enough for a busy machine.
func inside(s *traffic.Spec) { s.Inside, s.Total, s.Rate = true, 0, ptr.To(200) }

// TestRemovedTargetGetsNoRequests checks that a removed base gets no more requests after SyncTargets has returned,
// even if the Source has not reported the removal.
func TestRemovedTargetGetsNoRequests(t *testing.T) {
	r, from := newFixture(t), &source{}
	gone, stays := base(t, "10.0.0.1", "1"), base(t, "10.0.0.2", "2")
	from.targets = traffic.TargetSet{Targets: []traffic.Target{gone, stays}}
	s := spec("s", "", inside, func(s *traffic.Spec) { s.Via = v1alpha1.ViaBases })
	check.Must(t, r.StartStream(t.Context(), "g", s, from.get))
	from.mu.Lock()
	from.targets = traffic.TargetSet{Targets: []traffic.Target{stays}}
	from.mu.Unlock()
	r.SyncTargets(t.Context())
	before := r.Summaries(t.Context(), "g")[0]
	eventually(t, func() error {
		now := r.Summaries(t.Context(), "g")[0]
		if now.Versions["2"] < before.Versions["2"]+20 {
			return errors.New("fewer than 20 requests since")
		}
		if asked := now.Versions["1"] - before.Versions["1"] - before.Open; asked > 0 {
			t.Fatalf("the removed base received %d requests", asked)
		}
		return nil
	})
	r.Drop(t.Context(), "g")
	r.SyncTargets(t.Context())
}
