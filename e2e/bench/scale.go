package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	// What 10,000 bases and Pods may need: seconds of up, MB of the controller and of the daemon.
	scaleUpTarget     = 40
	scaleRSSTarget    = 450
	scaleDaemonTarget = 600
	// flatTarget is how many times the cost of a base among 1,000 a base among 10,000 may cost.
	// Two runs differ by a tenth; n log n would be 1.33 already.
	flatTarget = 1.2
	// longRest is how long the most bases are watched at rest.
	longRest = 10 * time.Minute
)

// sizes are the numbers of bases of the scale scenario.
func (b *bench) sizes() []int {
	if b.o.quick {
		return []int{20, 100}
	}
	return []int{100, 1000, 10_000}
}

// size is what one controller needs at rest with a number of bases that have a
// module each.
type size struct {
	bases                         int
	rss, live, cpu, writes, alive float64 // MB, MB, seconds a minute, a second, goroutines
	daemon                        float64 // MB
}

// scale measures the same controller with ever more bases, which live in the
// daemon's process. A DaemonSet puts the Pods there: its controller names the Node, so that
// the scheduler looks at one only.
func scale(ctx context.Context, b *bench) error {
	var seen []size
	for _, n := range b.sizes() {
		one, err := b.sizeOf(ctx, n)
		if err != nil {
			return fmt.Errorf("%d bases: %w", n, err)
		}
		if err := b.Down(ctx); err != nil {
			return err
		}
		seen = append(seen, one)
	}
	first, before, last := seen[0], seen[len(seen)-2], seen[len(seen)-1]
	for _, part := range []struct {
		name   string
		memory func(size) float64
	}{
		{"of the controller", func(s size) float64 { return s.rss }},
		{"of the daemon", func(s size) float64 { return s.daemon }},
	} {
		kilobytes := func(a, b size) float64 { return (part.memory(b) - part.memory(a)) * 1e3 / float64(b.bases-a.bases) }
		if len(seen) > 2 {
			b.note(fmt.Sprintf("memory %s for one more base, %d to %d", part.name, first.bases, before.bases), kilobytes(first, before), "KB")
			b.note(fmt.Sprintf("memory %s for one more base, %d to %d", part.name, before.bases, last.bases), kilobytes(before, last), "KB")
			b.judge("  grown by", kilobytes(before, last)/kilobytes(first, before), "times", flatTarget)
		}
	}
	for _, cost := range []struct {
		what string
		of   func(size) float64
	}{
		{"processor time of a base", func(s size) float64 { return s.cpu }},
		{"goroutines of a base", func(s size) float64 { return s.alive }},
		{"API writes of a base", func(s size) float64 { return s.writes }},
	} {
		times := cost.of(last) / float64(last.bases) / (cost.of(before) / float64(before.bases))
		b.judgeScale(fmt.Sprintf("%s, %d against %d", cost.what, last.bases, before.bases), times, "times", flatTarget)
	}
	return nil
}

// sizeOf measures with n bases.
func (b *bench) sizeOf(ctx context.Context, n int) (one size, err error) {
	of := func(what string) string { return fmt.Sprintf("%d bases: %s", n, what) }
	controller, daemon := b.watchMemory(ctx, controllerPart), b.watchMemory(ctx, daemonPart)
	defer controller.stop()
	defer daemon.stop()
	begin := time.Now()
	s, err := b.set(ctx, n)
	if err != nil {
		return one, err
	}
	defer s.pods.stop()
	b.judge(of("up"), time.Since(begin).Seconds(), "s", scaleUpTarget)
	if err := s.noteLoad(ctx, of("load of the machine when they are up")); err != nil {
		return one, err
	}
	c, err := s.of(ctx, fmt.Sprintf("create-%d", n), s.createEverywhere)
	if err != nil {
		return one, err
	}
	if err := s.proved(ctx, oldVersion, n); err != nil {
		return one, err
	}
	b.note(of(createFigure), c.seconds, "s")
	b.noteWrites(fmt.Sprintf("of the controller, %d bases", n), c.writes.controller, float64(n), "a Pod")
	s.pods.stop() // so that the watch, too, is at rest
	if err := rest(ctx, restAfter); err != nil {
		return one, err
	}
	_, most := controller.since()
	b.note(of("memory of the controller, most until then"), most, "MB")
	_, most = daemon.since()
	b.note(of("memory of the daemon, most until then"), most, "MB")
	v, err := keepVigil(ctx, s.client, n)
	if err != nil {
		return one, err
	}
	c, err = s.of(ctx, fmt.Sprintf("idle-%d", n), func(ctx context.Context) error { return rest(ctx, b.restOf(n)) })
	v.end()
	if err != nil {
		return one, err
	}
	one = size{bases: n, cpu: c.aMinute(c.cpu(controllerPart)), writes: sum(c.writes.controller) / c.seconds}
	one.rss, most = controller.since()
	if one.live, one.alive, err = s.live(ctx); err != nil {
		return one, err
	}
	b.judge(of("memory of the controller at rest, most"), most, "MB", scaleRSSTarget)
	b.note(of("memory of the controller at rest, on average"), one.rss, "MB")
	b.note(of("its live heap"), one.live, "MB")
	b.note(of("its processor time"), one.cpu, "s a minute")
	b.note(of("its processor time a base"), one.cpu*1e3/float64(n), "ms a minute")
	b.note(of("its goroutines"), one.alive, "in all")
	b.note(of("its API writes, leases too"), one.writes/float64(n), "a second and base")
	b.judge(of("API writes in all, leases too"), sum(c.writes.total)/float64(n)/c.seconds, "a second and base", idleWritesTarget)
	one.daemon, most = daemon.since()
	b.judge(of("memory of the daemon at rest, most"), most, "MB", scaleDaemonTarget)
	b.note(of("memory of the daemon at rest, on average"), one.daemon, "MB")
	b.judge(of("Nodes that turned not Ready"), float64(len(v.notReady)), "Nodes", 0)
	b.judge(of("leases that were missed"), float64(len(v.missed)), "leases", 0)
	b.note(of("longest time between two renewals of a lease"), v.longest.Seconds(), "s")
	b.noteCPU(fmt.Sprintf("idle, %d bases", n), c)
	return one, s.noteLoad(ctx, of("load of the machine at the end"))
}

// restOf is how long n bases are watched at rest.
func (b *bench) restOf(n int) time.Duration {
	if n == slices.Max(b.sizes()) && !b.o.quick {
		return longRest
	}
	return b.idleFor()
}

// live asks the controller to collect its garbage, and what is left: MB of heap, and goroutines.
func (s *stage) live(ctx context.Context) (heap, goroutines float64, err error) {
	_, status, err := s.AskController(ctx, "metrics", "/debug/pprof/heap?gc=1")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("having the controller collect its garbage: it answers %d", status)
	}
	if err != nil {
		return 0, 0, err
	}
	m, err := s.ControllerMetrics(ctx)
	return m.Sum("go_memstats_heap_alloc_bytes", nil) / megabyte, m.Sum("go_goroutines", nil), err
}
