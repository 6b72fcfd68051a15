package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/koupleless/koupsandbox/sandbox"
)

// outcome says how an expectation came out.
type outcome string

const (
	holds   outcome = "holds"
	fails   outcome = "fails"
	skipped outcome = "skipped"
)

// result is an expectation with how it came out.
type result struct {
	Name    string  `json:"name"`
	Text    string  `json:"text"`
	Source  string  `json:"source"`
	Level   level   `json:"level"`
	Outcome outcome `json:"outcome"`
	// Evidence is what was seen.
	Evidence string  `json:"evidence,omitempty"`
	Seconds  float64 `json:"seconds"`
	// Known is the reason of a known difference.
	Known string `json:"known,omitempty"`
}

// wrong says why a result fails the run; empty if it does not.
func (r result) wrong() string {
	switch {
	case r.Known != "" && r.Outcome == holds && !strings.HasPrefix(r.Known, sometimes):
		return "it holds: take it out of the known differences"
	case r.Known == "" && r.Outcome == fails && r.Level == must:
		return "it is required"
	default:
		return ""
	}
}

// atOnce is how many expectations are checked at the same time: most of the time they wait.
const atOnce = 32

// run checks the expectations whose names fit, and returns the results in their order.
func (l *lab) run(ctx context.Context, list []expectation, only *regexp.Regexp, known map[string]string) ([]result, error) {
	var chosen []expectation
	for _, e := range list {
		if only == nil || only.MatchString(e.Name) {
			chosen = append(chosen, e)
		}
	}
	results := make([]result, len(chosen))
	free := make(chan struct{}, atOnce)
	check := func(p *phase) {
		var all sync.WaitGroup
		for i, e := range chosen {
			if e.Phase != p.name {
				continue
			}
			if why := l.lacks(e); why != "" {
				results[i] = newResult(e, skipped, why, known)
				p.leave(ctx)
				continue
			}
			all.Go(func() {
				if p.name == "" {
					free <- struct{}{}
					defer func() { <-free }()
				}
				results[i] = l.check(e, p, known)
			})
		}
		all.Wait()
	}
	for _, p := range l.phases() {
		members := 0
		for _, e := range chosen {
			if e.Phase == p.name {
				members++
			}
		}
		if members == 0 {
			continue
		}
		p.start(members)
		check(p)
		if err := p.finish(ctx); err != nil {
			return results, fmt.Errorf("disturbing the sandbox (%s): %w", p.name, err)
		}
	}
	return results, ctx.Err()
}

// lacks says what an expectation needs that this run has not; empty if it has all.
func (l *lab) lacks(e expectation) string {
	switch {
	case e.Replicas > l.replicas:
		return fmt.Sprintf("it needs %d controllers; this run has %d", e.Replicas, l.replicas)
	case e.Long && !l.long:
		return "it takes long: --long checks it"
	default:
		return ""
	}
}

// The phases.
const (
	controllerDies  = "controller"
	brokerDies      = "broker"
	controllerStops = "suspended"
	controllerAway  = "suspended for long"
	brokerAway      = "broker away for long"
	oneOfTwoDies    = "takeover"
	atTheEnd        = "end"
)

// phases are all phases, in order; the first disturbs nobody.
func (l *lab) phases() []*phase {
	act := func(component string, action sandbox.Action) func(context.Context) error {
		return func(ctx context.Context) error {
			return l.sandbox.Act(ctx, sandbox.ActRequest{Component: component, Action: action})
		}
	}
	all := func(action sandbox.Action) func(context.Context) error {
		return func(ctx context.Context) error {
			for i := range l.replicas {
				if err := act(l.controller(i+1), action)(ctx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	last := l.controller(l.replicas)
	type steps = []func(context.Context) error
	return []*phase{
		{name: ""},
		{name: controllerDies, steps: steps{all("kill"), all("start")}},
		{name: brokerDies, steps: steps{act("broker", "kill"), act("broker", "start")}},
		{name: controllerStops, steps: steps{all("pause"), all("resume")}},
		{name: oneOfTwoDies, steps: steps{act(last, "kill"), act(last, "start")}},
		{name: controllerAway, steps: steps{all("pause"), all("resume")}},
		{name: brokerAway, steps: steps{act("broker", "kill"), act("broker", "start")}},
		{name: atTheEnd},
	}
}

// check checks one expectation in a world of its own.
func (l *lab) check(e expectation, p *phase, known map[string]string) result {
	w := &world{lab: l, phase: p, known: known[e.Name] != "", name: "conf-" + strings.ToLower(rand.String(8))}
	l.bells.Store(w.name, &w.bell)
	start := time.Now()
	done := make(chan any)
	go func() {
		defer func() { // fail and skip end this goroutine; nil is then received
			err := recover()
			p.leave(l.ctx)
			done <- err
		}()
		w.must(w.namespace())
		e.Check(w)
	}()
	came, evidence := w.end(<-done)
	r := newResult(e, came, evidence, known)
	r.Seconds = time.Since(start).Seconds()
	return r
}

func newResult(e expectation, o outcome, evidence string, known map[string]string) result {
	return result{Name: e.Name, Text: e.Text, Source: e.Source, Level: e.Level, Outcome: o, Evidence: evidence, Known: known[e.Name]}
}
