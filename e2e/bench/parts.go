package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const (
	daemonPart     = "daemon"
	controllerPart = box.ControllerProgram

	// lookEvery is how often the memory of a part is looked at: it moves with the
	// collection of garbage, and one look sees any point of that.
	lookEvery = 250 * time.Millisecond
)

// usage is what a part uses.
type usage struct {
	rss uint64  // bytes
	cpu float64 // seconds so far
}

func (u usage) megabytes() float64 { return float64(u.rss) / megabyte }

// parts asks every process of the sandbox.
func (b *bench) parts(ctx context.Context) (map[string]usage, error) {
	list, err := b.Processes(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]usage{}
	for _, p := range list {
		var u usage
		if u.rss, u.cpu, err = p.Usage(ctx); err != nil {
			return nil, err
		}
		found[p.Component] = u
	}
	for _, name := range []string{daemonPart, controllerPart} {
		if _, ok := found[name]; !ok {
			return nil, fmt.Errorf("%s does not run", name)
		}
	}
	return found, nil
}

// together is what all parts but some use.
func together(parts map[string]usage, but ...string) (all usage) {
	for name, u := range parts {
		if !slices.Contains(but, name) {
			all.rss, all.cpu = all.rss+u.rss, all.cpu+u.cpu
		}
	}
	return all
}

// noteCPU adds the processor time that each part used, which tells where the time of what was
// measured went.
func (b *bench) noteCPU(doing string, c cost) {
	for _, name := range slices.Sorted(maps.Keys(c.after)) {
		b.note(fmt.Sprintf("  processor time, %s: %s", doing, name), c.cpu(name), "s")
	}
}

// memory follows how much one part uses.
type memory struct {
	stop func() // ends it, and waits

	mu   sync.Mutex
	seen []float64 // MB
}

// watchMemory begins when the part does, which may be later.
func (b *bench) watchMemory(ctx context.Context, part string) *memory {
	ctx, cancel := context.WithCancel(ctx)
	m := &memory{}
	var running sync.WaitGroup
	m.stop = func() {
		cancel()
		running.Wait()
	}
	running.Go(func() {
		var p box.Process
		for rest(ctx, lookEvery) == nil {
			if p.PID == 0 {
				list, _ := b.Processes(ctx) // there is no sandbox yet, or it has not come to this part
				p, _ = box.Find(list, part)
				continue
			}
			if rss, _, err := p.Usage(ctx); err == nil { // a process that is gone uses nothing
				m.mu.Lock()
				m.seen = append(m.seen, float64(rss)/megabyte)
				m.mu.Unlock()
			}
		}
	})
	return m
}

// since returns average and most, in MB, since it was last asked.
func (m *memory) since() (mean, most float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rss := range m.seen {
		mean, most = mean+rss/float64(len(m.seen)), max(most, rss)
	}
	m.seen = nil
	return mean, most
}

// daemonCost runs the daemon in this process, because only a process itself can
// count its goroutines: the difference between few and many bases is theirs.
func daemonCost(ctx context.Context, b *bench) (err error) {
	few, many := 10, b.bases()/2
	config := &v1alpha1.Sandbox{Metadata: v1alpha1.Metadata{Name: b.Name}}
	config.Spec.Provider = v1alpha1.ProviderEmbedded
	config.Spec.Bases.Count = &few
	v1alpha1.SetDefaults(config)
	s, err := sandbox.Up(ctx, sandbox.Options{
		Home: b.Home, Config: config, InProcess: true, Programs: sandbox.FindPrograms("", b.Bin),
	})
	if err != nil {
		return err
	}
	defer func() {
		// A command would have to end this process; only the process itself can do better.
		_, downErr := sandbox.Down(context.WithoutCancel(ctx), sandbox.DownOptions{Home: b.Home, Name: b.Name})
		s.Close()
		err = errors.Join(err, downErr)
	}()
	before := runtime.NumGoroutine()
	if _, err := s.AddBases(ctx, sandbox.AddRequest{Count: many}); err != nil {
		return err
	}
	if err := rest(ctx, restAfter); err != nil { // what only connecting needs, ends
		return err
	}
	if err := b.profileHeap(); err != nil {
		return err
	}
	b.note("goroutines of the daemon", float64(runtime.NumGoroutine()-before)/float64(many), "a base")
	return nil
}
