// Command record runs every condition against a real base over both tunnels and
// writes what it answers to fakebase/testdata/real, anew. make record does it; the
// real base must have been built with make realbase.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/koupleless/koupsandbox/e2e/realbase"
	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// versions are those of java/pom.xml and of what it brings.
var versions = recording.Versions{Koupleless: "2.1.6", SofaArk: "3.1.7", SpringBoot: "3.2.12", Fastjson: "1.2.83", Java: "17"}

// What make realbase has built, and where the recordings are.
var (
	target = filepath.Join("e2e", "realbase", "target")
	out    = filepath.Join("fakebase", "testdata", "real")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if err := realbase.Missing(target); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "record")
	if err != nil {
		return fmt.Errorf("making a folder for jars: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // nothing of it is needed
	p, err := openPlaces(work)
	if err != nil {
		return err
	}
	defer p.close()
	r, list := recorder{places: p, saved: map[string]bool{}}, conditions()
	if err := r.groups(ctx, list); err != nil {
		return err
	}
	if err := r.worlds(ctx, list); err != nil {
		return err
	}
	return r.tidy()
}

// groups records the conditions that share bases: one for each kind of settings.
func (r *recorder) groups(ctx context.Context, list []condition) error {
	type kind struct {
		settings recording.Settings
		apart    string
	}
	groups := map[kind][]condition{}
	var order []kind
	for _, c := range list {
		k := kind{c.base, c.apart}
		switch {
		case c.phases != nil:
			continue
		case groups[k] == nil:
			order = append(order, k)
		}
		groups[k] = append(groups[k], c)
	}
	for _, k := range order {
		if k.settings.Disk > 0 {
			if err := realbase.NoSmallDisk(ctx, r.places.Modules); err != nil {
				r.keep(groups[k], err)
				continue
			}
		}
		if err := r.group(ctx, k.settings, groups[k]); err != nil {
			return fmt.Errorf("recording with %+v: %w", k, err)
		}
	}
	return nil
}

// worlds records the conditions that have a base of their own, some at the same time.
func (r *recorder) worlds(ctx context.Context, list []condition) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
	for _, c := range list {
		if c.phases == nil {
			continue
		}
		for _, t := range c.tunnels() {
			all.Go(func() error {
				phases, err := recordWorld(ctx, r.places, c, t)
				if err != nil {
					return fmt.Errorf("condition %s over %s: %w", c.name, t, err)
				}
				return r.save(c, t, recording.Recording{Phases: phases})
			})
		}
	}
	return all.Wait()
}

// atOnce is how many bases with worlds of their own run at the same time: they wait
// most of it.
const atOnce = 5

// recorder writes recordings.
type recorder struct {
	places *places

	mu    sync.Mutex
	saved map[string]bool // files, without their ending
}

func (r *recorder) save(c condition, t recording.Tunnel, rec recording.Recording) error {
	rec.Condition, rec.Tunnel, rec.Base, rec.Simulate, rec.Versions = c.text, t, c.base, c.simulate, versions
	if t == recording.MQTT {
		rec.Versions.MQTT = "the tunnel of e2e/realbase/java: upstream's is not on Maven Central"
	}
	rec.Jars = map[string]recording.Manifest{}
	for _, jar := range c.jars {
		rec.Jars[jar] = r.places.manifests[jar]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved[string(t)+"/"+c.name] = true
	fmt.Println(t, c.name, len(rec.Exchanges)+len(rec.Phases))
	return rec.Save(out, c.name)
}

// keep leaves the recordings of conditions that this system cannot provoke.
func (r *recorder) keep(list []condition, why error) {
	for _, c := range list {
		fmt.Printf("%s is not recorded anew: %v\n", c.name, why)
		for _, t := range c.tunnels() {
			r.saved[string(t)+"/"+c.name] = true
		}
	}
}

// tidy removes recordings of conditions that are no more.
func (r *recorder) tidy() error {
	names, _, err := recording.Load(out)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !r.saved[name] {
			err = errors.Join(err, os.Remove(filepath.Join(out, name+".json")))
		}
	}
	return err
}

// startTime is how long a base may take to start on a busy machine.
const startTime = 3 * time.Minute

// options are those of a base that is recorded.
func options() realbase.Options {
	return realbase.Options{
		Jar: filepath.Join(target, realbase.BaseJar), Log: filepath.Join(target, "record.log"), Identity: "b1", Username: "any", Password: "any",
		// Arklet runs a command on the thread that reads from the connection, and all connections
		// of that thread wait. With the two for each core that it has by default, requests during
		// an install would hit on it.
		JVM: []string{"-Dio.netty.eventLoopThreads=64"},
	}
}

// group runs conditions on one real base, one after the other.
func (r *recorder) group(ctx context.Context, settings recording.Settings, list []condition) (err error) {
	b, err := openBroker()
	if err != nil {
		return err
	}
	defer b.close()
	o := options()
	o.Settings, o.Broker = settings, b.addr
	if settings.Disk > 0 {
		if o.Downloads, err = os.MkdirTemp("", "downloads"); err != nil {
			return fmt.Errorf("making a folder for downloads: %w", err)
		}
		defer func() { _ = os.Remove(o.Downloads) }() // what the base sees there goes with it
	}
	base, kill, err := begin(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kill()) }()
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := base.WaitReady(starting); err != nil {
		return err
	}
	if err := b.waitConnected(starting); err != nil {
		return err
	}
	for _, c := range list {
		for _, t := range c.tunnels() {
			pl := player{places: r.places, base: base, broker: b, tunnel: t}
			exchanges, err := pl.play(ctx, c.steps)
			if err == nil {
				err = clean(ctx, base)
			}
			if err == nil {
				err = r.save(c, t, recording.Recording{Exchanges: exchanges})
			}
			if err != nil {
				return fmt.Errorf("condition %s over %s: %w", c.name, t, err)
			}
		}
	}
	return nil
}

// clean uninstalls whatever a condition has left.
func clean(ctx context.Context, base *realbase.Base) error {
	list, err := base.Modules(ctx)
	if err != nil {
		return err
	}
	for _, module := range list {
		identity, _, _ := strings.Cut(module, " ")
		name, version, _ := strings.Cut(identity, ":")
		if _, err := base.Command(ctx, "uninstallBiz", fmt.Sprintf(`{"bizName":%q,"bizVersion":%q}`, name, version)); err != nil {
			return err
		}
	}
	left, err := base.Modules(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("modules are left: %s", strings.Join(left, ", "))
	}
	return err
}
