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
	"time"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// beside is the maximum number of schedules that run concurrently in one sandbox. More of them would delay each
// other.
const beside = 6

// pool runs schedules in sandboxes.
type pool struct {
	o    *Options
	work string // directory for scenarios

	mu      sync.Mutex
	boxes   []*box
	coming  bool          // a sandbox is being created
	alone   int           // schedules that wait for a sandbox of their own
	changed chan struct{} // closed when a sandbox may have room
	names   []string      // of the sandboxes that the pool has created
}

// box is a sandbox and its load. The mutex of the pool guards it.
type box struct {
	in   *sandbox.Sandbox
	used int // of beside
	// broken is set if a component of the sandbox has exited. The last schedule to leave replaces the sandbox.
	broken bool
}

// openPool returns a pool. It creates its sandboxes when they are needed.
func openPool(o *Options) (*pool, error) {
	work, err := os.MkdirTemp("", "koup-fuzz-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for schedules: %w", err)
	}
	return &pool{o: o, work: work, changed: make(chan struct{})}, nil
}

// take returns a sandbox with room. It waits for one, or creates one, one at a time because they share the CPUs. The
// caller must call leave with the same room.
func (p *pool) take(ctx context.Context, room int) (*box, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if room == beside {
		p.alone++
		defer func() {
			p.alone--
			p.tell()
		}()
	}
	for {
		if b := p.fitting(room); b != nil {
			b.used += room
			return b, nil
		}
		if n := len(p.boxes) + 1; !p.coming && n <= p.o.Parallel {
			p.coming = true
			p.mu.Unlock()
			in, err := p.up(ctx, fmt.Sprintf("%s-%d", p.o.Name, n))
			p.mu.Lock()
			p.coming = false
			p.tell()
			if err != nil {
				return nil, err
			}
			p.boxes = append(p.boxes, &box{in: in})
			continue
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// fitting returns the fullest sandbox with enough room, or nil. While a schedule waits for a sandbox of its own, no
// other schedule may start.
func (p *pool) fitting(room int) (best *box) {
	if room < beside && p.alone > 0 {
		return nil
	}
	for _, b := range p.boxes {
		if !b.broken && b.used+room <= beside && (best == nil || b.used > best.used) {
			best = b
		}
	}
	return best
}

// tell wakes the callers of take. The caller holds the lock.
func (p *pool) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// leave gives the room of take back. The last schedule to leave a broken sandbox replaces it.
func (p *pool) leave(ctx context.Context, b *box, room int) error {
	p.mu.Lock()
	replace := b.broken && b.used == room
	if !replace {
		b.used -= room
		p.tell()
	}
	p.mu.Unlock()
	if !replace {
		return nil
	}
	fresh, err := p.replace(ctx, b.in.Name)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tell()
	b.used -= room
	if err == nil {
		b.in, b.broken = fresh, false
	}
	return err
}

func (p *pool) replace(ctx context.Context, name string) (*sandbox.Sandbox, error) {
	if _, err := sandbox.Down(ctx, sandbox.DownOptions{Home: p.o.Home, Name: name}); err != nil {
		return nil, fmt.Errorf("replacing sandbox %s: %w", name, err)
	}
	return p.up(ctx, name)
}

// forPeers enables peer Deployments in the bundled controller.
var forPeers = map[string]string{"ENABLE_MODULE_DEPLOYMENT_CONTROLLER": "true"}

// lostInstall is the timeout of an install whose command was lost, at any speed. It is shorter than the grace period
// of 30 s of the Pod whose module is replaced. That period is the same at any speed.
const lostInstall = 18 * time.Second

// forSettling returns the settings of the bundled controller with which schedules settle in time. Bases that were
// upgraded unnoticed are removed without a limit per minute, since concurrent schedules share the limit. An install
// whose command was lost is repeated.
func forSettling(speed int) map[string]string {
	return map[string]string{"MASS_SILENCE_AT_MOST": "3m", "BASE_DELETIONS_PERCENT": "100", "INSTALL_TIMEOUT": (lostInstall * time.Duration(speed)).String()}
}

func (p *pool) up(ctx context.Context, name string) (*sandbox.Sandbox, error) {
	config := *p.o.Config
	config.Metadata.Name = name
	if len(config.Spec.Controller.Command) == 0 { // custom controllers keep their settings
		env := map[string]string{}
		maps.Copy(env, config.Spec.Controller.Env)
		maps.Copy(env, forPeers)
		maps.Copy(env, forSettling(config.Spec.Speed))
		config.Spec.Controller.Env = env
	}
	config.Spec.Controller.APIView = config.Spec.Controller.Location != v1alpha1.LocationCluster
	if theirs, err := sandbox.Open(ctx, p.o.Home, name); err == nil {
		theirs.Close()
		return nil, fmt.Errorf("sandbox %s exists already; use another --name, or delete it with: koupsandbox down --name %s", name, name)
	}
	s, err := sandbox.Up(ctx, sandbox.Options{Home: p.o.Home, Config: &config, Programs: p.o.Programs, Held: true})
	if err != nil {
		return nil, fmt.Errorf("creating sandbox %s: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.names, name) { // otherwise it replaces one
		p.names = append(p.names, name)
	}
	return s, nil
}

// close deletes the sandboxes.
func (p *pool) close(ctx context.Context) error {
	var errs []error
	for _, name := range p.names {
		_, err := sandbox.Down(ctx, sandbox.DownOptions{Home: p.o.Home, Name: name})
		errs = append(errs, err)
	}
	return errors.Join(append(errs, os.RemoveAll(p.work))...)
}

// run runs a schedule in a sandbox, together with others unless the schedule needs one of its own. It replaces a
// sandbox in which a component has exited.
func (p *pool) run(ctx context.Context, s Schedule) (o outcome, r *scenario.Report, err error) {
	room := 1
	if s.alone() {
		room = beside
	}
	b, err := p.take(ctx, room)
	if err != nil {
		return outcome{}, nil, err
	}
	defer func() { err = errors.Join(err, p.leave(ctx, b, room)) }()
	if ctx.Err() != nil {
		return outcome{}, nil, context.Cause(ctx)
	}
	if r, err = p.execute(ctx, b.in, s); err != nil {
		return outcome{}, nil, err
	}
	o = judge(r)
	status, err := b.in.Status(ctx, false)
	if err != nil {
		return o, r, nil //nolint:nilerr // the run is being cancelled
	}
	ended := exited(status)
	if ended == nil {
		if o.invariant != "" {
			o.log = lastOf(status)
		}
		return o, r, nil
	}
	p.mu.Lock()
	b.broken = true
	p.mu.Unlock()
	if seen := ended.Name + " exited: " + strings.Join(supervise.Tail(ended.Log, 0, 3), " | "); strings.HasPrefix(ended.Name, controller) {
		o = outcome{invariant: "the controller runs", seen: seen, log: lastOf(status)}
	} else {
		o = outcome{unclear: true, seen: seen}
	}
	return o, r, nil
}

// controller is the prefix of the names of controllers.
const controller = "module-controller"

// exited returns a component that does not run, or nil.
func exited(status *sandbox.Status) *sandbox.Component {
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
	return scenario.Execute(ctx, scenario.Options{Sandbox: in, Scenarios: scenarios, Seed: s.Seed, LeaveNamespaces: true})
}

// write writes a schedule as a scenario, in a new directory.
func (p *pool) write(s Schedule) (file string, err error) {
	name := fmt.Sprintf("fuzz-%d", s.Seed%1e9)
	text, err := s.YAML(name, false)
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(p.work, "")
	if err != nil {
		return "", fmt.Errorf("creating a directory for a schedule: %w", err)
	}
	file = filepath.Join(folder, name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", errors.Join(fmt.Errorf("writing a schedule: %w", err), os.RemoveAll(folder))
	}
	return file, nil
}
