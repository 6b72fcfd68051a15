// Package steps has what the steps of a scenario share. Each step has a package below this one, and package registry has the table of
// them.
//
// A step ends when its effect is visible in the World, so that the next step does not see an earlier state.
package steps

import (
	"context"
	"errors"
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

// Sandbox is the daemon as steps use it. *control.Client implements it.
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
	StopTraffic(ctx context.Context, group, name string) (*traffic.StreamResult, error)
}

// Options of an Env. A field without a default is required.
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
	// Join waits for a step in the background.
	Join func(ctx context.Context, step string) (string, error)
}

// Env is what the steps of one run share. Its methods may be called concurrently.
type Env struct {
	Options
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

// New returns an Env.
func New(o Options) (*Env, error) {
	env, err := expr.New(o.Static)
	if err != nil {
		return nil, err
	}
	return &Env{
		Options: o, env: env, programs: map[programKey]*expr.Program{}, sets: map[string]v1alpha1.BaseSet{},
		outputs: map[string]any{},
		streams: map[string]*Stream{},
	}, nil
}

// Compile compiles an expression once.
func (e *Env) Compile(text string, kind expr.Kind) (*expr.Program, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := programKey{text, kind}
	if p, ok := e.programs[key]; ok {
		return p, nil
	}
	p, err := e.env.Compile(text, kind)
	if err != nil {
		return nil, fmt.Errorf("the expression %q: %w", text, err)
	}
	e.programs[key] = p
	return p, nil
}

// Uses tells whether any expression compiled so far uses the name, or a field of it.
func (e *Env) Uses(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.programs {
		if slices.Contains(topicsOf(p), name) {
			return true
		}
	}
	return false
}

// Follow has the World follow what an expression uses, and returns when it is known.
func (e *Env) Follow(ctx context.Context, p *expr.Program) error {
	for _, name := range p.Uses() {
		if subject, ok := observe.SubjectOf(name, e.Namespace, e.Group); ok {
			if err := e.World.Follow(ctx, subject); err != nil {
				return err
			}
		}
	}
	return nil
}

// Known is what expressions know at any time: vars, matrix, run, outputs.
func (e *Env) Known() expr.Data {
	e.mu.Lock()
	defer e.mu.Unlock()
	return expr.Data{"vars": e.Vars, "matrix": e.Matrix, "run": e.Run.Value(), "outputs": maps.Clone(e.outputs)}
}

// Data is what an expression knows of a moment.
func (e *Env) Data(v observe.View, p *expr.Program) expr.Data {
	data := e.Known()
	maps.Copy(data, v.Data(topicsOf(p)))
	return data
}

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
func (e *Env) Expand(value any) (any, error) {
	return e.env.Expand(value, e.Known())
}

// SetOutput sets what outputs.NAME is in later steps.
func (e *Env) SetOutput(name, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outputs[name] = text
}

// Poll calls is until it returns true or an error, or ctx ends.
func Poll(ctx context.Context, every time.Duration, is func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if done, err := is(); ctx.Err() == nil && (done || err != nil) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Repair ends the faults on connections that the run has left, and undoes what it has done to components. The
// controllers stay what the scenario needs: bringing them back restarts them.
func (e *Env) Repair(ctx context.Context) error {
	return errors.Join(e.clearConnections(ctx), e.Sandbox.Repair(ctx, control.RepairRequest{Group: e.Group}))
}

// Restore brings the controllers back to what they were before the run; Repair comes first.
func (e *Env) Restore(ctx context.Context) error {
	return e.Sandbox.Repair(ctx, control.RepairRequest{Group: e.Group, Controllers: true})
}
