package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const (
	daemonPart     = "daemon"
	controllerPart = box.ControllerProgram
)

// usage is what a part uses.
type usage struct {
	rss uint64  // bytes
	cpu float64 // seconds so far
}

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

// noteCPU adds the processor time that each part used since before, which tells
// where the time of what was measured went.
func (b *bench) noteCPU(doing string, before, now map[string]usage) {
	names := make([]string, 0, len(now))
	for name := range now {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.note(fmt.Sprintf("  processor time, %s: %s", doing, name), now[name].cpu-before[name].cpu, "s")
	}
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
	if err := b.rest(ctx, settle); err != nil { // what only connecting needs, ends
		return err
	}
	if err := b.profileHeap(); err != nil {
		return err
	}
	b.note("goroutines of the daemon", float64(runtime.NumGoroutine()-before)/float64(many), "a base")
	return nil
}
