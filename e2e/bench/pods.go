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
	readyTarget         = 7     // seconds from create to all Ready
	controllerRSSTarget = 120   // MB
	controllerCPUTarget = 5     // seconds a minute
	podCPUTarget        = 15    // milliseconds of all processes, create to Ready
	podControllerTarget = 1.2   // milliseconds of the controller
	zonesTarget         = 1.3   // times without the anti-affinity
	daemonRSSTarget     = 200   // MB
	idleWritesTarget    = 0.055 // a second and base: a lease every 20 s, and a tenth more
)

const (
	namespace = metav1.NamespaceDefault
	app       = "order"
	megabyte  = 1e6

	createFigure = "create to all Pods Ready"
	oldVersion   = "1.0.0"
	newVersion   = "2.0.0"

	// restAfter is how long after the last change rest begins: the controller writes the
	// free memory of a Node 50 s after an install at most, when it next renews the lease.
	restAfter = 60 * time.Second
	idleTime  = time.Minute
	idleQuick = 10 * time.Second
)

// stage is a sandbox with bases that are up, and its Pods.
type stage struct {
	*bench
	client kubernetes.Interface
	pods   *pods
	n      int // of bases, and of Pods
}

// set brings n bases up.
func (b *bench) set(ctx context.Context, n int) (s *stage, err error) {
	s = &stage{bench: b, n: n}
	if _, err := b.upTime(ctx, n); err != nil {
		return nil, err
	}
	if s.client, err = b.api(); err != nil {
		return nil, err
	}
	s.pods, err = watchPods(ctx, s.client)
	return s, err
}

// spreading makes the scheduler put no two Pods on one base.
type spreading func(*corev1.PodTemplateSpec)

// create makes a Deployment with a Pod for each base and waits until all are Ready.
func (s *stage) create(spread spreading) func(context.Context) error {
	return func(ctx context.Context) error {
		return s.createFrom(ctx, module.Template(app, module.Container(app, oldVersion)), spread)
	}
}

// createFrom is create with a template.
func (s *stage) createFrom(ctx context.Context, t corev1.PodTemplateSpec, spread spreading) error {
	spread(&t)
	d := module.Deployment(namespace, app, int32(s.n), t) //nolint:gosec // 1,000 fits
	if _, err := s.client.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the Deployment: %w", err)
	}
	return s.allReady(ctx)
}

// createEverywhere makes a DaemonSet and waits until its Pod is Ready on every base.
func (s *stage) createEverywhere(ctx context.Context) error {
	d := module.DaemonSet(namespace, app, module.Template(app, module.Container(app, oldVersion)))
	if _, err := s.client.AppsV1().DaemonSets(namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the DaemonSet: %w", err)
	}
	return s.allReady(ctx)
}

func (s *stage) allReady(ctx context.Context) error {
	return s.pods.wait(ctx, "all Pods are Ready", func(_ int, ready map[string]int) bool { return ready[oldVersion] == s.n })
}

// roll brings all Pods to the new version.
func (s *stage) roll(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q,"env":[{"name":%q,"value":%q}]}]}}}}`,
		app, module.URL(app, newVersion), module.EnvVersion, newVersion)
	if _, err := s.client.AppsV1().Deployments(namespace).Patch(ctx, app, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("updating the Deployment: %w", err)
	}
	return s.pods.wait(ctx, "all Pods have the new version and the old ones are gone", func(all int, ready map[string]int) bool {
		return ready[newVersion] == s.n && all == s.n
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
	return s.pods.wait(ctx, "all Pods are gone", func(all int, _ map[string]int) bool { return all == 0 })
}

// proved asks the bases themselves, and fails unless n of them have exactly the module in the
// version, and the others none.
func (s *stage) proved(ctx context.Context, version string, n int) error {
	up, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer up.Close()
	list, err := up.Bases(ctx, "")
	if err != nil {
		return err
	}
	on, all := 0, 0
	for _, b := range list {
		all += len(b.Modules)
		if strings.Join(b.Modules, ",") == app+":"+version+" ACTIVATED" {
			on++
		}
	}
	if on != n || all != n {
		return fmt.Errorf("there are %d Pods, but %d bases have exactly version %s, and there are %d modules", n, on, version, all)
	}
	if n > 0 {
		s.note("bases with exactly that module, as they say themselves", float64(on), "bases")
	}
	return nil
}

// cost is what a change took.
type cost struct {
	seconds       float64
	writes        writes
	before, after map[string]usage
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

// atRest measures what is done when nothing changes.
func (s *stage) atRest(ctx context.Context, doing string) (cost, error) {
	return s.of(ctx, doing, func(ctx context.Context) error { return rest(ctx, s.idleFor()) })
}

// idleFor is how long rest is measured.
func (b *bench) idleFor() time.Duration {
	if b.o.quick {
		return idleQuick
	}
	return idleTime
}

// cpu is the processor time that a part has used meanwhile, in seconds.
func (c cost) cpu(part string) float64 { return c.after[part].cpu - c.before[part].cpu }

// aMinute is a value of the whole time as one of a minute.
func (c cost) aMinute(value float64) float64 { return value * time.Minute.Seconds() / c.seconds }

// noteChange notes what a change cost for each of the Pods.
func (s *stage) noteChange(doing string, c cost) {
	s.noteWrites("of the controller", c.writes.controller, float64(s.n), "a Pod")
	s.noteWrites("in all", c.writes.total, float64(s.n), "a Pod")
	s.noteCPU(doing, c)
}

// deploy spreads by a port, judges, and deletes.
func deploy(ctx context.Context, b *bench) error {
	s, err := b.set(ctx, b.bases())
	if err != nil {
		return err
	}
	defer s.pods.stop()
	c, err := s.of(ctx, "create", s.create(module.OnePerPort))
	if err != nil {
		return err
	}
	if err := s.proved(ctx, oldVersion, s.n); err != nil {
		return err
	}
	b.judgeScale(createFigure, c.seconds, "s", readyTarget)
	milliseconds := 1e3 / float64(s.n)
	b.judgeScale("processor time of all processes a Pod", (together(c.after).cpu-together(c.before).cpu)*milliseconds, "ms", podCPUTarget)
	b.judgeScale("  of the controller", c.cpu(controllerPart)*milliseconds, "ms", podControllerTarget)
	s.noteChange("create", c)
	if c, err = s.of(ctx, "delete", s.remove); err != nil {
		return err
	}
	b.note("delete to all modules uninstalled", c.seconds, "s")
	b.noteWrites("of the controller, delete", c.writes.controller, float64(s.n), "a Pod")
	return s.proved(ctx, oldVersion, 0)
}

// zones spreads by the documents' anti-affinity, which costs the scheduler more than a port.
func zones(ctx context.Context, b *bench) error {
	s, err := b.set(ctx, b.bases())
	if err != nil {
		return err
	}
	defer s.pods.stop()
	port, err := s.of(ctx, "create by port", s.create(module.OnePerPort))
	if err != nil {
		return err
	}
	if err := s.remove(ctx); err != nil {
		return err
	}
	c, err := s.of(ctx, "create", s.create(module.OnePerBase))
	if err != nil {
		return err
	}
	if err := s.proved(ctx, oldVersion, s.n); err != nil {
		return err
	}
	b.note(createFigure, c.seconds, "s")
	b.judgeScale("  by that with a port, just before", c.seconds/port.seconds, "times", zonesTarget)
	s.noteChange("create", c)
	return nil
}

func rollout(ctx context.Context, b *bench) error {
	s, err := b.set(ctx, b.bases())
	if err != nil {
		return err
	}
	defer s.pods.stop()
	if err := s.create(module.OnePerBase)(ctx); err != nil {
		return err
	}
	c, err := s.of(ctx, "rollout", s.roll)
	if err != nil {
		return err
	}
	if err := s.proved(ctx, newVersion, s.n); err != nil {
		return err
	}
	b.note("rolling update", c.seconds, "s")
	b.note("Pods turned over", float64(s.n)/c.seconds, "a second")
	s.noteChange("rollout", c)
	return nil
}

func idle(ctx context.Context, b *bench) error {
	s, err := b.set(ctx, b.bases())
	if err != nil {
		return err
	}
	defer s.pods.stop()
	if err := s.create(module.OnePerBase)(ctx); err != nil {
		return err
	}
	s.pods.stop() // so that the watch, too, is at rest
	if err := rest(ctx, restAfter); err != nil {
		return err
	}
	c, err := s.atRest(ctx, "idle")
	if err != nil {
		return err
	}
	b.judgeScale("memory of the controller", c.after[controllerPart].megabytes(), "MB", controllerRSSTarget)
	b.judgeScale("processor time of the controller", c.aMinute(c.cpu(controllerPart)), "s a minute", controllerCPUTarget)
	b.judgeScale("memory of the daemon", c.after[daemonPart].megabytes(), "MB", daemonRSSTarget)
	b.note("processor time of the daemon", c.aMinute(c.cpu(daemonPart)), "s a minute")
	b.judge("API writes in all, leases too", sum(c.writes.total)/float64(s.n)/c.seconds, "a second and base", idleWritesTarget)
	b.noteKinds(c.writes.total, float64(s.n)*c.seconds, 0.0005, "a second and base")
	m, err := b.ControllerMetrics(ctx)
	if err != nil {
		return err
	}
	goroutines := m.Sum("go_goroutines", nil)
	b.note("goroutines of the controller", goroutines, "in all")
	b.note("goroutines of the controller", goroutines/float64(s.n), "a base")
	b.noteCPU("idle", c)
	return nil
}
