package main

import (
	"context"
	"fmt"
	"strings"
	"time"

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
	namespace  = metav1.NamespaceDefault
	app        = "order"
	oldVersion = "1.0.0"
	newVersion = "2.0.0"
	megabyte   = 1e6

	// settle is how long after the last change rest begins.
	settle    = 5 * time.Second
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

// set brings the bases up.
func (b *bench) set(ctx context.Context) (*stage, error) {
	s := &stage{bench: b, n: b.bases()}
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

// create makes a Deployment with a Pod for each base and waits until all are Ready.
func (s *stage) create(ctx context.Context) error {
	t := module.Template(app, module.Container(app, oldVersion))
	module.OnePerBase(&t)
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
	list, err := up.Bases(ctx)
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

func deploy(ctx context.Context, b *bench) error {
	s, err := b.set(ctx)
	if err != nil {
		return err
	}
	defer s.pods.stop()
	c, err := s.of(ctx, "create", s.create)
	if err != nil {
		return err
	}
	b.judgeScale("create to all Pods Ready", c.seconds, "s", readyTarget)
	on, all, err := s.modules(ctx, oldVersion)
	if err != nil {
		return err
	}
	b.note("bases with exactly that module, as they say themselves", float64(on), "bases")
	if on != s.n || all != s.n {
		return fmt.Errorf("all %d Pods are Ready, but %d bases have exactly the module, and %d modules are there", s.n, on, all)
	}
	b.noteWrites("of the controller", c.writes.controller, float64(s.n), "a Pod")
	b.noteWrites("in all", c.writes.total, float64(s.n), "a Pod")
	b.noteCPU("create", c.before, c.after)

	if c, err = s.of(ctx, "delete", s.remove); err != nil {
		return err
	}
	b.note("delete to all modules uninstalled", c.seconds, "s")
	if _, all, err = s.modules(ctx, oldVersion); err != nil {
		return err
	}
	if all != 0 {
		return fmt.Errorf("no Pod is left, but bases have %d modules", all)
	}
	b.noteWrites("of the controller, delete", c.writes.controller, float64(s.n), "a Pod")
	return nil
}

func rollout(ctx context.Context, b *bench) error {
	s, err := b.set(ctx)
	if err != nil {
		return err
	}
	defer s.pods.stop()
	if err := s.create(ctx); err != nil {
		return err
	}
	c, err := s.of(ctx, "rollout", s.roll)
	if err != nil {
		return err
	}
	on, all, err := s.modules(ctx, newVersion)
	if err != nil {
		return err
	}
	if on != s.n || all != s.n {
		return fmt.Errorf("the rollout is done, but %d of %d bases have exactly the new version, and %d modules are there", on, s.n, all)
	}
	b.note("rolling update", c.seconds, "s")
	b.note("Pods turned over", float64(s.n)/c.seconds, "a second")
	b.noteWrites("of the controller", c.writes.controller, float64(s.n), "a Pod")
	b.noteWrites("in all", c.writes.total, float64(s.n), "a Pod")
	b.noteCPU("rollout", c.before, c.after)
	return nil
}

func idle(ctx context.Context, b *bench) error {
	s, err := b.set(ctx)
	if err != nil {
		return err
	}
	defer s.pods.stop()
	if err := s.create(ctx); err != nil {
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
