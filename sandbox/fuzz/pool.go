package fuzz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// maxConcurrent is the maximum number of schedules that run concurrently in one sandbox. More schedules would slow
// each other down too much.
const maxConcurrent = 6

// pool runs schedules in sandboxes. It creates each sandbox when a schedule first needs it.
type pool struct {
	o    Options
	work string // directory for scenario files

	creating sync.Mutex // sandboxes are created one at a time, because they share the CPUs
	mu       sync.Mutex
	boxes    []*box
}

type box struct {
	name string
	// room is a semaphore with maxConcurrent slots. A schedule holds one slot, or all slots if it needs its own
	// sandbox.
	room *semaphore.Weighted

	load int64 // number of slots of room that running and waiting schedules use; guarded by pool.mu

	// A goroutine that holds all slots of room may write the following fields. A goroutine that holds at least one
	// slot may read them.
	in     *sandbox.Sandbox // nil until the sandbox is created
	broken atomic.Bool      // true after a component has exited unexpectedly
}

func openPool(o Options) (*pool, error) {
	work, err := os.MkdirTemp("", "koup-fuzz-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for schedules: %w", err)
	}
	p := &pool{o: o, work: work}
	for n := range o.Parallel {
		p.boxes = append(p.boxes,
			&box{name: fmt.Sprintf("%s-%d", o.Name, n+1), room: semaphore.NewWeighted(maxConcurrent)})
	}
	return p, nil
}

// choose reserves room slots in a sandbox and returns the sandbox. It prefers the sandbox with the highest load that
// has enough free slots. If no sandbox has enough free slots, it chooses the sandbox with the lowest load.
func (p *pool) choose(room int64) *box {
	p.mu.Lock()
	defer p.mu.Unlock()
	chosen := slices.MinFunc(p.boxes, func(a, b *box) int { return cmp.Compare(a.load, b.load) })
	for _, b := range p.boxes {
		if b.load+room <= maxConcurrent && b.load > chosen.load {
			chosen = b
		}
	}
	chosen.load += room
	return chosen
}

// withSandbox calls do with a sandbox while it holds room slots of this sandbox. It blocks until the slots are free and
// the sandbox is created.
func (p *pool) withSandbox(ctx context.Context, room int64, do func(*box) error) error {
	b := p.choose(room)
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		b.load -= room
	}()
	if err := b.room.Acquire(ctx, room); err != nil {
		return context.Cause(ctx)
	}
	for b.in == nil || b.broken.Load() {
		b.room.Release(room)
		if err := b.room.Acquire(ctx, maxConcurrent); err != nil {
			return context.Cause(ctx)
		}
		err := p.prepare(ctx, b)
		b.room.Release(maxConcurrent - room)
		if err != nil {
			b.room.Release(room)
			return err
		}
	}
	defer b.room.Release(room)
	return do(b)
}

// prepare creates the sandbox. If the sandbox exists but is broken, prepare deletes it first. The caller must hold
// all slots of the sandbox.
func (p *pool) prepare(ctx context.Context, b *box) error {
	p.creating.Lock()
	defer p.creating.Unlock()
	if b.in != nil && !b.broken.Load() {
		return nil // another schedule has prepared it
	}
	if b.in != nil {
		if err := p.deleteSandbox(ctx, b); err != nil {
			return err
		}
	}
	in, err := p.createSandbox(ctx, b.name)
	if err != nil {
		return err
	}
	b.in = in
	b.broken.Store(false)
	return nil
}

func (p *pool) deleteSandbox(ctx context.Context, b *box) error {
	if _, err := sandbox.Down(ctx, sandbox.DownOptions{Home: p.o.Home, Name: b.name}); err != nil {
		return fmt.Errorf("deleting sandbox %s: %w", b.name, err)
	}
	b.in = nil
	return nil
}

// lostInstall is the timeout after which the controller treats an install command as lost, at any speed. It must be
// shorter than the grace period of a Pod whose module is replaced, which is 30 s at any speed.
const lostInstall = 18 * time.Second

// forSettling returns settings of the bundled controller with which schedules reach their final state in time. A mass
// outage ends after 3 minutes. A lost install command is repeated after lostInstall. The number of Nodes that are
// deleted per minute is not limited, because concurrent schedules share one sandbox, and would delay each other.
func forSettling(speed int) map[string]string {
	return map[string]string{"MASS_SILENCE_AT_MOST": "3m", "BASE_DELETIONS_PERCENT": "100",
		"INSTALL_TIMEOUT": (lostInstall * time.Duration(speed)).String()}
}

func (p *pool) createSandbox(ctx context.Context, name string) (*sandbox.Sandbox, error) {
	config := *p.o.Config
	config.Metadata.Name = name
	if len(config.Spec.Controller.Command) == 0 { // custom controllers keep their settings
		env := map[string]string{}
		maps.Copy(env, config.Spec.Controller.Env)
		maps.Copy(env, forSettling(config.Spec.Speed))
		config.Spec.Controller.Env = env
	}
	config.Spec.Controller.APIView = config.Spec.Controller.Location != v1alpha1.LocationCluster
	if existing, err := sandbox.Open(ctx, p.o.Home, name); err == nil {
		existing.Close()
		return nil, fmt.Errorf(
			"sandbox %s already exists; use another --name, or delete it with: koupsandbox down --name %s", name, name)
	}
	s, err := sandbox.Up(ctx, sandbox.Options{Home: p.o.Home, Config: &config, Binaries: p.o.Binaries,
		DownOnClose: true})
	if err != nil {
		return nil, fmt.Errorf("creating sandbox %s: %w", name, err)
	}
	return s, nil
}

func (p *pool) close(ctx context.Context) error {
	var errs []error
	for _, b := range p.boxes {
		if b.in != nil {
			errs = append(errs, p.deleteSandbox(ctx, b))
		}
	}
	return errors.Join(append(errs, os.RemoveAll(p.work))...)
}

// run runs a schedule in a sandbox. Other schedules may run in the same sandbox concurrently, unless the schedule
// needs its own sandbox.
func (p *pool) run(ctx context.Context, s Schedule) (o runResult, r *scenario.Report, err error) {
	room := int64(1)
	if s.needsOwnSandbox() {
		room = maxConcurrent
	}
	err = p.withSandbox(ctx, room, func(b *box) error {
		r, err = p.execute(ctx, b.in, s)
		if err != nil {
			return err
		}
		o = evaluate(r)
		status, err := b.in.Status(ctx, false)
		if err != nil {
			return nil //nolint:nilerr // the run is being cancelled
		}
		if ended := exitedComponent(status); ended != nil {
			b.broken.Store(true)
			o = componentExit(ended)
		}
		if o.invariant != "" {
			o.log = controllerLogs(status)
		}
		return nil
	})
	return o, r, err
}

// componentExit returns the result of a schedule if a component exited during its run.
func componentExit(ended *sandbox.Component) runResult {
	seen := ended.Name + " exited: " + strings.Join(supervise.Tail(ended.Log, 0, 3), " | ")
	if strings.HasPrefix(ended.Name, controller) {
		return runResult{invariant: "the controller runs", seen: seen}
	}
	return runResult{inconclusive: true, seen: seen}
}

// controller is the prefix of controller names.
const controller = "module-controller"

func exitedComponent(status *sandbox.Status) *sandbox.Component {
	for i := range status.Components {
		if c := &status.Components[i]; c.State != "running" {
			return c
		}
	}
	return nil
}

func (p *pool) execute(ctx context.Context, in *sandbox.Sandbox, s Schedule) (*scenario.Report, error) {
	file, err := p.write(s)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(filepath.Dir(file)) }()
	scenarios, err := source.Load([]string{file}, source.Options{})
	if err != nil {
		return nil, fmt.Errorf("schedule %d is not a valid scenario: %w", s.Seed, err)
	}
	return scenario.Execute(ctx,
		scenario.Options{Sandbox: in, Scenarios: scenarios, Seed: s.Seed, LeaveNamespaces: true})
}

// write writes a schedule to a scenario file in a new directory.
func (p *pool) write(s Schedule) (file string, err error) {
	name := fmt.Sprintf("fuzz-%d", s.Seed%1e9)
	text, err := s.YAML(name, false)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(p.work, "")
	if err != nil {
		return "", fmt.Errorf("creating a directory for a schedule: %w", err)
	}
	file = filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", errors.Join(fmt.Errorf("writing a schedule: %w", err), os.RemoveAll(dir))
	}
	return file, nil
}
