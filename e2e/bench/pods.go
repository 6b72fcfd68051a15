package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// Targets for 1,000 bases with a module each.
const (
	readyTarget         = 7    // seconds from create to all Ready
	controllerRSSTarget = 120  // MB
	controllerCPUTarget = 5    // seconds a minute
	daemonRSSTarget     = 200  // MB
	idleWritesTarget    = 0.11 // a second and base: a lease every 10 s, and a tenth more
)

const (
	namespace = metav1.NamespaceDefault
	app       = "order"
	megabyte  = 1e6

	createFigure = "create to all Pods Ready"
	oldVersion   = "1.0.0"
	newVersion   = "2.0.0"

	// settle is how long after the last change rest begins: the controller writes the
	// free memory of a Node up to half a minute after an install, when it next renews the lease.
	settle    = 50 * time.Second
	idleTime  = time.Minute
	idleQuick = 10 * time.Second
)

// stage is a sandbox with bases that are up, and its Pods.
type stage struct {
	*bench
	client kubernetes.Interface
	pods   *follower
	n      int // of bases, and of Pods
}

// set brings n bases up.
func (b *bench) set(ctx context.Context, n int) (*stage, error) {
	s := &stage{bench: b, n: n}
	if _, err := b.upTime(ctx, s.n); err != nil {
		return nil, err
	}
	var err error
	if s.client, _, err = b.api(); err != nil {
		return nil, err
	}
	s.pods, err = follow(ctx, s.client, namespace)
	return s, err
}

// spreading makes the scheduler put no two Pods on one base.
type spreading func(*corev1.PodTemplateSpec)

// create makes a Deployment with a Pod for each base and waits until all are Ready.
func (s *stage) create(ctx context.Context, spread spreading) error {
	t := module.Template(app, module.Container(app, oldVersion))
	spread(&t)
	d := module.Deployment(namespace, app, int32(s.n), t) //nolint:gosec // 1,000 fits
	if _, err := s.client.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the Deployment: %w", err)
	}
	return s.pods.wait(ctx, "all Pods are Ready", func() bool { return s.pods.ready[oldVersion] == s.n })
}

// roll brings all Pods to the new version.
func (s *stage) roll(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q,"env":[{"name":%q,"value":%q}]}]}}}}`,
		app, module.URL(app, newVersion), module.EnvVersion, newVersion)
	if _, err := s.client.AppsV1().Deployments(namespace).Patch(ctx, app, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("updating the Deployment: %w", err)
	}
	return s.pods.wait(ctx, "all Pods have the new version and the old ones are gone", func() bool {
		return s.pods.ready[newVersion] == s.n && len(s.pods.pods) == s.n
	})
}

// remove deletes the Deployment. A Pod leaves the API after its module has left
// the base, so no Pod means no module.
func (s *stage) remove(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	err := s.client.AppsV1().Deployments(namespace).Delete(ctx, app, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		return fmt.Errorf("deleting the Deployment: %w", err)
	}
	return s.pods.wait(ctx, "all Pods are gone", func() bool { return len(s.pods.pods) == 0 })
}

// modules asks the bases themselves: on how many a version is active, and how
// many modules they have in all.
func (s *stage) modules(ctx context.Context, version string) (bases, modules int, err error) {
	up, err := s.Open(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer up.Close()
	list, err := up.Bases(ctx, "")
	if err != nil {
		return 0, 0, err
	}
	for _, b := range list {
		modules += len(b.Modules)
		if strings.Join(b.Modules, ",") == app+":"+version+" ACTIVATED" {
			bases++
		}
	}
	return bases, modules, nil
}

// proved notes on how many bases a version is active, and fails unless it is all
// of them and nothing else is there.
func (s *stage) proved(ctx context.Context, version string) error {
	on, all, err := s.modules(ctx, version)
	if err != nil {
		return err
	}
	if on != s.n || all != s.n {
		return fmt.Errorf("all %d Pods are Ready, but %d bases have exactly version %s, and there are %d modules", s.n, on, version, all)
	}
	s.note("bases with exactly that module, as they say themselves", float64(on), "bases")
	return nil
}

// cost is what a change took.
type cost struct {
	seconds float64
	writes  writes
	before  map[string]usage
	after   map[string]usage
}

// of measures a change.
func (s *stage) of(ctx context.Context, doing string, change func(context.Context) error) (c cost, err error) {
	if c.before, err = s.parts(ctx); err != nil {
		return c, err
	}
	before, err := s.writesOf(ctx, s.client)
	if err != nil {
		return c, err
	}
	profiled := s.startProfile(ctx, doing)
	start := time.Now()
	if err := change(ctx); err != nil {
		return c, err
	}
	c.seconds = time.Since(start).Seconds()
	after, err := s.writesOf(ctx, s.client)
	if err != nil {
		return c, err
	}
	c.writes = after.since(before)
	if c.after, err = s.parts(ctx); err != nil {
		return c, err
	}
	return c, profiled()
}

// deploy spreads by a port, and judges.
func deploy(ctx context.Context, b *bench) error {
	s, err := b.deployed(ctx, module.OnePerPort, func(seconds float64) { b.judgeScale(createFigure, seconds, "s", readyTarget) })
	if err != nil {
		return err
	}
	defer s.pods.stop()
	c, err := s.of(ctx, "delete", s.remove)
	if err != nil {
		return err
	}
	b.note("delete to all modules uninstalled", c.seconds, "s")
	_, all, err := s.modules(ctx, oldVersion)
	if err != nil {
		return err
	}
	if all != 0 {
		return fmt.Errorf("no Pod is left, but bases have %d modules", all)
	}
	b.noteWrites("of the controller, delete", c.writes.controller, float64(s.n), "a Pod")
	return nil
}

// zones spreads by the documents' anti-affinity, which costs the scheduler more.
func zones(ctx context.Context, b *bench) error {
	s, err := b.deployed(ctx, module.OnePerBase, func(seconds float64) { b.note(createFigure, seconds, "s") })
	if err != nil {
		return err
	}
	s.pods.stop()
	return nil
}

// deployed brings bases up, puts a Pod on each, checks with the bases that it is
// there, and notes what that cost; took gets the time from create to all Ready.
func (b *bench) deployed(ctx context.Context, spread spreading, took func(seconds float64)) (s *stage, err error) {
	if s, err = b.set(ctx, b.bases()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.pods.stop()
		}
	}()
	c, err := s.of(ctx, "create", func(ctx context.Context) error { return s.create(ctx, spread) })
	if err != nil {
		return nil, err
	}
	took(c.seconds)
	if err := s.proved(ctx, oldVersion); err != nil {
		return nil, err
	}
	b.noteWrites("of the controller", c.writes.controller, float64(s.n), "a Pod")
	b.noteWrites("in all", c.writes.total, float64(s.n), "a Pod")
	b.noteCPU("create", c.before, c.after)
	return s, nil
}

func rollout(ctx context.Context, b *bench) error {
	s, err := b.set(ctx, b.bases())
	if err != nil {
		return err
	}
	defer s.pods.stop()
	if err := s.create(ctx, module.OnePerBase); err != nil {
		return err
	}
	c, err := s.of(ctx, "rollout", s.roll)
	if err != nil {
		return err
	}
	if err := s.proved(ctx, newVersion); err != nil {
		return err
	}
	b.note("rolling update", c.seconds, "s")
	b.note("Pods turned over", float64(s.n)/c.seconds, "a second")
	b.noteWrites("of the controller", c.writes.controller, float64(s.n), "a Pod")
	b.noteWrites("in all", c.writes.total, float64(s.n), "a Pod")
	b.noteCPU("rollout", c.before, c.after)
	return nil
}

func idle(ctx context.Context, b *bench) error {
	s, err := b.set(ctx, b.bases())
	if err != nil {
		return err
	}
	defer s.pods.stop()
	if err := s.create(ctx, module.OnePerBase); err != nil {
		return err
	}
	s.pods.stop() // so that the watch, too, is at rest
	if err := b.rest(ctx, settle); err != nil {
		return err
	}
	d := idleTime
	if b.o.quick {
		d = idleQuick
	}
	c, err := s.of(ctx, "idle", func(ctx context.Context) error { return b.rest(ctx, d) })
	if err != nil {
		return err
	}
	minute := time.Minute.Seconds() / c.seconds
	b.judgeScale("memory of the controller", float64(c.after[controllerPart].rss)/megabyte, "MB", controllerRSSTarget)
	b.judgeScale("processor time of the controller", (c.after[controllerPart].cpu-c.before[controllerPart].cpu)*minute, "s a minute", controllerCPUTarget)
	b.judgeScale("memory of the daemon", float64(c.after[daemonPart].rss)/megabyte, "MB", daemonRSSTarget)
	b.note("processor time of the daemon", (c.after[daemonPart].cpu-c.before[daemonPart].cpu)*minute, "s a minute")
	b.judge("API writes in all, leases too", sum(c.writes.total)/float64(s.n)/c.seconds, "a second and base", idleWritesTarget)
	b.noteKinds(c.writes.total, float64(s.n)*c.seconds, 0.0005, "a second and base")
	m, err := b.ControllerMetrics(ctx)
	if err != nil {
		return err
	}
	b.note("goroutines of the controller", m.Sum("go_goroutines", nil), "in all")
	b.note("goroutines of the controller", m.Sum("go_goroutines", nil)/float64(s.n), "a base")
	b.noteCPU("idle", c.before, c.after)
	return nil
}
