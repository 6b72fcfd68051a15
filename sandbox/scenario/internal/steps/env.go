// Package steps has the code that all steps of scenarios share. Each step has its own package below this package.
// Package registry has the table of the steps.
//
// A step ends when the Recorder has observed its effect, so that the next step does not use an outdated state.
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

// Sandbox is the part of the daemon API that the steps use. *control.Client implements it.
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

// Options configures an Env. Fields are required unless their comment gives a default.
type Options struct {
	Sandbox  Sandbox
	Kube     *kube.Client
	Recorder *observe.Recorder
	// Static contains the names that expressions can use. Vars, Matrix and Run contain the values of these names.
	Static    expr.Static
	Vars      map[string]any
	Matrix    map[string]any
	Run       expr.Run
	Namespace string
	Group     string
	// Dir is the directory to which file names are relative.
	Dir string
	// Kubeconfig is the path of the kubeconfig for scripts. It uses a ServiceAccount in the namespace of the run.
	Kubeconfig string
	// Seed is the random seed of the run.
	Seed uint64
	// TrafficFor is the maximum duration of a stream of requests. It must not be shorter than the run. Default:
	// traffic.DefaultDuration.
	TrafficFor time.Duration
	// Join waits for a background step and returns its error.
	Join func(ctx context.Context, step string) (string, error)
}

// Env is the execution environment of the steps of one run. Its methods may be called concurrently.
type Env struct {
	Options
	env *expr.Env

	mu       sync.Mutex
	programs map[programKey]*expr.Program
	sets     map[string]v1alpha1.BaseSet
	outputs  map[string]any
	streams  map[string]*Stream
	order    []string // stream names in the order in which the streams started
	faults   []FaultRun
	releases []ReleaseRun
	unnamed  int // number of faults that have no id in the scenario

	hasConnectionFaults bool // the run has set a fault of the target api or mqtt
}

type programKey struct {
	text string
	kind expr.Scope
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

// Compile compiles an expression. Compiled programs are cached.
func (e *Env) Compile(text string, kind expr.Scope) (*expr.Program, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := programKey{text, kind}
	if p, ok := e.programs[key]; ok {
		return p, nil
	}
	p, err := e.env.Compile(text, kind)
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", text, err)
	}
	e.programs[key] = p
	return p, nil
}

// Uses reports whether any expression that was compiled so far uses the name, or a field of the name.
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

// Follow starts to watch the objects that an expression uses. It blocks until the existing objects are listed.
func (e *Env) Follow(ctx context.Context, p *expr.Program) error {
	for _, name := range p.Uses() {
		if subject, ok := observe.SubjectOf(name, e.Namespace, e.Group); ok {
			if err := e.Recorder.Follow(ctx, subject); err != nil {
				return err
			}
		}
	}
	return nil
}

// Values returns the values that do not depend on the observed state: vars, matrix, run and outputs.
func (e *Env) Values() expr.Data {
	e.mu.Lock()
	defer e.mu.Unlock()
	return expr.Data{"vars": e.Vars, "matrix": e.Matrix, "run": e.Run.Value(), "outputs": maps.Clone(e.outputs)}
}

// Data returns the data for the evaluation of an expression: the result of Values, and those data from the snapshot
// that the expression uses.
func (e *Env) Data(v observe.Snapshot, p *expr.Program) expr.Data {
	data := e.Values()
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

// UsesTopic reports whether an expression uses the data with the given topic, see observe.Update.
func UsesTopic(p *expr.Program, topic string) bool {
	return slices.Contains(topicsOf(p), topic)
}

// Expand evaluates the expressions in a step that use outputs. All other expressions were evaluated before the run.
func (e *Env) Expand(value any) (any, error) {
	return e.env.Expand(value, e.Values())
}

// SetOutput sets the value of outputs.NAME for later steps.
func (e *Env) SetOutput(name, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outputs[name] = text
}

// Poll calls done at an interval until done returns true or an error. If ctx ends first, Poll returns the
// cancellation cause of ctx.
func Poll(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := done(); ctx.Err() == nil && (ok || err != nil) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Repair clears the remaining faults of API and broker connections, and restores the components that the run has
// stopped or paused. It does not change the controller configuration, see Restore.
func (e *Env) Repair(ctx context.Context) error {
	return errors.Join(e.clearConnectionFaults(ctx), e.Sandbox.Repair(ctx, control.RepairRequest{Group: e.Group}))
}

// Restore restores the controller configuration from before the run. This restarts the controllers. Call Repair
// first.
func (e *Env) Restore(ctx context.Context) error {
	return e.Sandbox.Repair(ctx, control.RepairRequest{Group: e.Group, Controllers: true})
}
