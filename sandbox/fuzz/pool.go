package fuzz

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// pool has sandboxes, each of which runs one schedule at a time.
type pool struct {
	o    *Options
	free chan *sandbox.Sandbox
	next chan int // the number of the next sandbox to bring up; empty while one comes up, and after the last
	work string   // folder for scenarios

	growth growth

	mu    sync.Mutex
	names []string
}

// openPool makes a pool. Its sandboxes are brought up when they are needed.
func openPool(o *Options) (*pool, error) {
	work, err := os.MkdirTemp("", "koup-fuzz-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for schedules: %w", err)
	}
	p := &pool{o: o, work: work, free: make(chan *sandbox.Sandbox, o.Parallel), next: make(chan int, 1)}
	p.next <- 1
	return p, nil
}

// take waits for a free sandbox, or brings another one up: one after the other, since they share the
// processors. Put it into free again.
func (p *pool) take(ctx context.Context) (*sandbox.Sandbox, error) {
	select {
	case in := <-p.free:
		return in, nil
	default:
	}
	select {
	case in := <-p.free:
		return in, nil
	case n := <-p.next:
		in, err := p.up(ctx, fmt.Sprintf("%s-%d", p.o.Name, n))
		if n < p.o.Parallel && err == nil {
			p.next <- n + 1
		}
		return in, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// What our controller needs: for peer Deployments, and so that bases which were upgraded while nobody
// heard it are gone before a schedule must have settled.
var (
	forPeers = map[string]string{"ENABLE_MODULE_DEPLOYMENT_CONTROLLER": "true"}
	forMass  = map[string]string{"MASS_SILENCE_AT_MOST": "3m"}
)

func (p *pool) up(ctx context.Context, name string) (*sandbox.Sandbox, error) {
	config := *p.o.Config
	config.Metadata.Name = name
	if len(config.Spec.Controller.Command) == 0 { // a command of the user's has what it was configured with
		env := map[string]string{}
		maps.Copy(env, config.Spec.Controller.Env)
		maps.Copy(env, forPeers)
		maps.Copy(env, forMass)
		config.Spec.Controller.Env = env
	}
	config.Spec.Controller.APIView = config.Spec.Controller.Location != v1alpha1.LocationCluster
	p.mu.Lock()
	if !slices.Contains(p.names, name) { // else it replaces one
		p.names = append(p.names, name)
	}
	p.mu.Unlock()
	s, err := sandbox.Up(ctx, sandbox.Options{Home: p.o.Home, Config: &config, Programs: p.o.Programs, Held: true})
	if err != nil {
		return nil, fmt.Errorf("bringing sandbox %s up: %w", name, err)
	}
	return s, nil
}

// close takes the sandboxes down.
func (p *pool) close(ctx context.Context) error {
	var errs []error
	for _, name := range p.names {
		_, err := sandbox.Down(ctx, sandbox.DownOptions{Home: p.o.Home, Name: name})
		errs = append(errs, err)
	}
	return errors.Join(append(errs, os.RemoveAll(p.work))...)
}

// run runs a schedule in a free sandbox. One in which a run has left something broken is replaced.
func (p *pool) run(ctx context.Context, s Schedule) (outcome, *scenario.Report, error) {
	in, err := p.take(ctx)
	if err != nil {
		return outcome{}, nil, err
	}
	defer func() { p.free <- in }()
	if ctx.Err() != nil {
		return outcome{}, nil, context.Cause(ctx)
	}
	r, err := p.execute(ctx, in, s)
	if err != nil {
		return outcome{}, nil, err
	}
	o := judge(r)
	status, err := in.Status(ctx, false)
	if err != nil {
		return o, r, nil //nolint:nilerr // somebody ends the run
	}
	ended := exited(status)
	if ended == nil {
		count := func(url string) uint64 { return goroutines(ctx, url) }
		if invariant, seen := p.growth.look(status, count); invariant != "" && o.invariant == "" {
			o = outcome{invariant: invariant, seen: seen}
		}
		return o, r, nil
	}
	if seen := ended.Name + " has ended by itself: " + strings.Join(supervise.Tail(ended.Log, 0, 3), " | "); strings.HasPrefix(ended.Name, controller) {
		o = outcome{invariant: "the controller runs", seen: seen}
	} else {
		o = outcome{unclear: true, seen: seen}
	}
	if _, err := sandbox.Down(ctx, sandbox.DownOptions{Home: p.o.Home, Name: in.Name}); err != nil {
		return o, r, fmt.Errorf("replacing sandbox %s: %w", in.Name, err)
	}
	fresh, err := p.up(ctx, in.Name)
	if err != nil {
		return o, r, err
	}
	in = fresh
	return o, r, nil
}

// controller is how the names of controllers begin.
const controller = "module-controller"

// exited returns a component that does not run although nothing disturbs it; nil if all run.
func exited(status *sandbox.Status) *sandbox.Component {
	for i := range status.Components {
		if c := &status.Components[i]; c.State != "running" {
			return c
		}
	}
	return nil
}

func (p *pool) execute(ctx context.Context, in *sandbox.Sandbox, s Schedule) (*scenario.Report, error) {
	name := fmt.Sprintf("fuzz-%d", s.Seed%1e9)
	text, err := s.YAML(name, false)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(p.work, "")
	if err != nil {
		return nil, fmt.Errorf("making a folder for a schedule: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("writing a schedule: %w", err)
	}
	scenarios, err := source.Load([]string{file}, source.Options{})
	if err != nil {
		return nil, fmt.Errorf("schedule %d is no scenario: %w", s.Seed, err)
	}
	return scenario.Execute(ctx, scenario.Options{Sandbox: in, Scenarios: scenarios, Seed: s.Seed})
}
