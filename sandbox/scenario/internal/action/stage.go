// Package action does what a step says, one file a group of actions.
//
// An action ends when what it asked for has been seen by the World, so that what comes next does
// not judge the state before.
package action

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

// Sandbox is the daemon as actions use it; *control.Client is one.
type Sandbox interface {
	AddBases(context.Context, control.AddRequest) ([]control.Base, error)
	RemoveBases(context.Context, control.RemoveRequest) ([]control.Base, error)
	RestartBase(ctx context.Context, base string, r control.RestartRequest) (*control.Base, error)
	SetFault(context.Context, fault.Injection) (string, error)
	ClearFaults(context.Context, control.FaultSelector) error
	Faults(ctx context.Context, group string) (control.Faults, error)
	Act(context.Context, control.ActRequest) error
	Repair(context.Context, control.RepairRequest) error
	StartTraffic(ctx context.Context, group string, s traffic.Spec) error
	Traffic(ctx context.Context, group string) ([]traffic.Summary, error)
	StopTraffic(ctx context.Context, group, name string) (*traffic.End, error)
}

// Options of a Stage. All are required but where a default is given.
type Options struct {
	Sandbox Sandbox
	Kube    *kube.Client
	World   *observe.World
	// Static is what expressions know before the run, Vars, Matrix and Run with what.
	Static    expr.Static
	Vars      map[string]any
	Matrix    map[string]any
	Run       expr.Run
	Namespace string
	Group     string
	// Folder that file names are relative to.
	Folder string
	// Kubeconfig for scripts: of an identity of their own in the namespace.
	Kubeconfig string
	// Seed for what is random.
	Seed uint64
	// TrafficFor is how long a stream of requests that is not stopped goes on. It must be no less than the run takes. Default:
	// traffic.DefaultDuration.
	TrafficFor time.Duration
}

// Stage is where the actions of one run happen. Do may be called concurrently.
type Stage struct {
	o   Options
	env *expr.Env

	mu       sync.Mutex
	programs map[programKey]*expr.Program
	sets     map[string]v1alpha1.BaseSet
	outputs  map[string]any
	streams  map[string]*Stream
	order    []string // of streams
	faults   []FaultRun
	releases []ReleaseRun
	unnamed  int // faults that the scenario gave no id

	onConnections bool // faults of the targets api and mqtt were set
}

type programKey struct {
	text string
	kind expr.Kind
}

// New returns a Stage.
func New(o Options) (*Stage, error) {
	env, err := expr.New(o.Static)
	if err != nil {
		return nil, err
	}
	return &Stage{
		o: o, env: env, programs: map[programKey]*expr.Program{}, sets: map[string]v1alpha1.BaseSet{}, outputs: map[string]any{},
		streams: map[string]*Stream{},
	}, nil
}

// Do does an action that is not a group of steps, nor waits for one, and says what it has done. A
// *Failure tells more about an error.
func (s *Stage) Do(ctx context.Context, a *v1alpha1.Action) (string, error) {
	switch {
	case a.Apply != nil:
		return s.apply(ctx, a.Apply)
	case a.Patch != nil:
		return s.patch(ctx, a.Patch)
	case a.Delete != nil:
		return s.remove(ctx, a.Delete)
	case a.Scale != nil:
		return s.scale(ctx, a.Scale)
	case a.Rollback != nil:
		return s.rollback(ctx, a.Rollback)
	case a.Base != nil:
		return s.base(ctx, a.Base)
	case a.Fault != nil:
		return s.fault(ctx, a.Fault)
	case a.Controller != nil:
		return s.component(ctx, controllerName(a.Controller), a.Controller)
	case a.Broker != nil:
		return s.component(ctx, brokerName, a.Broker)
	case a.APIServer != nil:
		return s.component(ctx, apiServerName, a.APIServer)
	case a.ControllerManager != nil:
		return s.component(ctx, controllerManagerName, a.ControllerManager)
	case a.Scheduler != nil:
		return s.component(ctx, schedulerName, a.Scheduler)
	case a.Traffic != nil:
		return s.traffic(ctx, a.Traffic)
	case a.Script != nil:
		return s.script(ctx, a.Script)
	case a.Wait != nil:
		return s.wait(ctx, a.Wait)
	case a.Assert != nil:
		return s.assert(ctx, a.Assert)
	case a.Sleep != nil:
		return s.sleep(ctx, a.Sleep)
	}
	return "", fmt.Errorf("the step has no action")
}

// Compile compiles an expression once.
func (s *Stage) Compile(text string, kind expr.Kind) (*expr.Program, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := programKey{text, kind}
	if p, ok := s.programs[key]; ok {
		return p, nil
	}
	p, err := s.env.Compile(text, kind)
	if err != nil {
		return nil, fmt.Errorf("the expression %q: %w", text, err)
	}
	s.programs[key] = p
	return p, nil
}

// Uses tells whether any expression compiled so far uses the name, or a field of it.
func (s *Stage) Uses(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.programs {
		if slices.Contains(topicsOf(p), name) {
			return true
		}
	}
	return false
}

// Follow has the World follow what an expression uses, and returns when it is known.
func (s *Stage) Follow(ctx context.Context, p *expr.Program) error {
	for _, name := range p.Uses() {
		if subject, ok := observe.SubjectOf(name, s.o.Namespace, s.o.Group); ok {
			if err := s.o.World.Follow(ctx, subject); err != nil {
				return err
			}
		}
	}
	return nil
}

// Known is what expressions know at any time: vars, matrix, run, outputs.
func (s *Stage) Known() expr.Data {
	s.mu.Lock()
	defer s.mu.Unlock()
	return expr.Data{"vars": s.o.Vars, "matrix": s.o.Matrix, "run": s.o.Run.Value(), "outputs": maps.Clone(s.outputs)}
}

// Data is what an expression knows of a moment.
func (s *Stage) Data(v observe.View, p *expr.Program) expr.Data {
	data := s.Known()
	maps.Copy(data, v.Data(topicsOf(p)))
	return data
}

// topicsOf are the names that an expression uses, without their fields.
func topicsOf(p *expr.Program) []string {
	topics := slices.Clone(p.Uses())
	for i := range topics {
		topics[i], _, _ = strings.Cut(topics[i], ".")
	}
	return topics
}

// Affected tells whether a change of the topic may change an expression.
func Affected(p *expr.Program, topic string) bool {
	return slices.Contains(topicsOf(p), topic)
}

// Expand evaluates the expressions in a step that were left for the run, which use outputs.
func (s *Stage) Expand(value any) (any, error) {
	return s.env.Expand(value, s.Known())
}

// sleep does nothing for a time, or until a condition is true.
func (s *Stage) sleep(ctx context.Context, a *v1alpha1.Sleep) (string, error) {
	if a.OrUntil != "" {
		return s.sleepUntil(ctx, a)
	}
	select {
	case <-time.After(a.For.Duration):
		return fmt.Sprintf("slept for %s: %s", a.For.Duration, a.Reason), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (s *Stage) sleepUntil(ctx context.Context, a *v1alpha1.Sleep) (string, error) {
	p, err := s.Compile(a.OrUntil, expr.Condition)
	if err != nil {
		return "", err
	}
	if err := s.Follow(ctx, p); err != nil {
		return "", err
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, a.For.Duration)
	defer cancel()
	is := s.condition(p)
	err = s.o.World.Until(limited, func(v observe.View) (bool, error) { return is(v) == nil, nil })
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case limited.Err() != nil:
		return fmt.Sprintf("slept for %s: %s; what was waited for was not seen", a.For.Duration, a.Reason), nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("slept for %s: %s", time.Since(began).Round(time.Millisecond), a.Reason), nil
}
