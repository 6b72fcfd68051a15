package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// ensure reconciles a running sandbox with a configuration: it resumes paused components, starts exited components,
// and scales the bases. It returns a description of each change. Changes to other settings take effect only after a
// down and an up.
func (d *Daemon) ensure(ctx context.Context, steps *progress.Steps, r control.UpRequest) ([]string, error) {
	config := r.Config
	running, err := d.requireUp()
	if err != nil {
		return nil, err
	}
	before := d.configNow()
	updated := *before
	updated.Spec.Wait = config.Spec.Wait
	d.mu.Lock()
	d.config = &updated
	d.mu.Unlock()
	if fields := changedSettings(before, config); len(fields) > 0 {
		steps.Note("some settings differ from the running sandbox; to apply them, run koupsandbox down and " +
			"koupsandbox up: " + strings.Join(fields, ", "))
	}
	var changes []string
	for _, part := range d.allComponentSets() {
		for _, c := range part.Components(ctx) {
			if c.State != supervise.Paused {
				continue
			}
			if err := d.runStep(ctx, steps, "Resuming "+c.Name, func(ctx context.Context) error {
				return part.Act(ctx, c.Name, supervise.Resume)
			}); err != nil {
				return changes, err
			}
			changes = append(changes, "resumed "+c.Name)
		}
		for _, name := range part.ToStart(ctx) {
			if err := d.runStep(ctx, steps, "Starting "+name+" again", func(ctx context.Context) error {
				return part.Act(ctx, name, supervise.Start)
			}); err != nil {
				return changes, err
			}
			changes = append(changes, "started "+name+" again")
		}
	}
	again, err := d.restartEndedBases(ctx, steps, running)
	changes = append(changes, again...)
	if err != nil {
		return changes, err
	}
	if !r.KeepBases {
		scaled, err := d.scaleSets(ctx, steps, running.fleet, updated.Spec.Bases, config.Spec.Bases)
		changes = append(changes, scaled...)
		if err != nil {
			return changes, err
		}
	}
	if left := running.nodes.WithReadyNode(running.fleet.RemovedIdentities(), true); len(left) > 0 {
		name := "Deleting " + plain.Count(len(left), "Node") + " without a base"
		if err := d.runStep(ctx, steps, name,
			func(ctx context.Context) error { return d.deleteNodes(ctx, running.nodes, left) }); err != nil {
			return changes, err
		}
		changes = append(changes, "deleted "+plain.Count(len(left), "Node")+" without a base")
	}
	return changes, d.runStep(ctx, steps, waitingForNodes(running.fleet.Count().Own),
		func(ctx context.Context) error { return d.waitNodes(ctx, running) })
}

// scaleSets changes the number of bases of each own set to the number in the new configuration, and saves the new
// numbers. It adds new sets, and removes the bases of sets that are no longer in the configuration. Sets that were
// added to the running sandbox are not in either configuration; they keep their bases.
func (d *Daemon) scaleSets(ctx context.Context, steps *progress.Steps, f *fleet.Fleet, before,
	after []v1alpha1.BaseSet) (changes []string, err error) {
	sets := slices.Clone(after)
	for i, set := range sets {
		if old := setNamed(before, set.Name); old != nil { // changed settings take effect after down and up
			sets[i] = *old
			sets[i].Count = set.Count
		}
	}
	for _, old := range before {
		if setNamed(after, old.Name) == nil {
			old.Count = new(int)
			sets = append(sets, old)
		}
	}
	counts := f.SetCounts()
	for _, set := range sets {
		have, want := counts[set.Name], *set.Count
		if have == want {
			continue
		}
		add := fleet.Set{Name: set.Name}
		if setNamed(before, set.Name) == nil {
			add.Spec = set
		}
		err = d.scaleTo(ctx, steps, f, add, have, want)
		if err != nil {
			break
		}
		of := ""
		if len(sets) > 1 {
			of = " in the set " + set.Name
		}
		changes = append(changes, fmt.Sprintf("changed the number of bases%s from %d to %d", of, have, want))
	}
	if len(changes) == 0 && err == nil {
		return nil, nil
	}
	counts = f.SetCounts() // differ from the configuration if the scaling failed
	sets = slices.DeleteFunc(sets, func(s v1alpha1.BaseSet) bool {
		return counts[s.Name] == 0 && setNamed(after, s.Name) == nil
	})
	for i := range sets {
		n := counts[sets[i].Name]
		sets[i].Count = &n
	}
	d.mu.Lock()
	scaled := *d.config
	d.mu.Unlock()
	scaled.Spec.Bases = sets
	return changes, errors.Join(err, d.saveConfig(&scaled))
}

// setNamed returns the set with the given name, or nil if no set has this name.
func setNamed(sets []v1alpha1.BaseSet, name string) *v1alpha1.BaseSet {
	for i := range sets {
		if sets[i].Name == name {
			return &sets[i]
		}
	}
	return nil
}

// restartEndedBases restarts bases outside groups whose processes have exited. It removes failed bases, because
// scaling replaces them.
func (d *Daemon) restartEndedBases(ctx context.Context, steps *progress.Steps, running *assembly) (changes []string,
	err error) {
	var ended []string
	for _, m := range running.fleet.Group("") {
		switch failure := running.fleet.Failure(m); {
		case failure != nil:
			if _, err := running.fleet.Remove(ctx, fleet.Selection{Names: []string{m.HostName}}); err != nil {
				return changes, err
			}
			changes = append(changes, fmt.Sprintf("removed %s, which had failed: %v", m.HostName, failure))
		case !m.Base.Status().Running:
			ended = append(ended, m.HostName)
		}
	}
	if len(ended) == 0 {
		return changes, nil
	}
	err = d.runStep(ctx, steps, fmt.Sprintf("Starting %s again", plain.Count(len(ended), "base")),
		func(ctx context.Context) error {
			g, ctx := errgroup.WithContext(ctx)
			g.SetLimit(maxConcurrentRestarts)
			for _, name := range ended {
				g.Go(func() error {
					_, err := running.fleet.Restart(ctx, name, false)
					return err
				})
			}
			return g.Wait()
		})
	if err != nil {
		return changes, err
	}
	for _, name := range ended {
		changes = append(changes, "started "+name+" again")
	}
	return changes, nil
}

// maxConcurrentRestarts is the maximum number of concurrent base restarts. Each restart waits until the base is
// connected.
const maxConcurrentRestarts = 50

// changedSettings returns the paths of the fields that differ between two configurations. It ignores new sets of
// bases, the numbers of bases and the step timeout.
func changedSettings(a, b *v1alpha1.Sandbox) []string {
	x, y := *a, *b
	if y.Spec.Provider == v1alpha1.ProviderAuto { // resolved by the first up
		y.Spec.Provider, y.Spec.Kind, y.Spec.Cluster = x.Spec.Provider, x.Spec.Kind, x.Spec.Cluster
	}
	if y.Spec.Env == "" { // generated by the first up
		y.Spec.Env = x.Spec.Env
	}
	if y.Spec.Controller.Location == "" { // resolved by the first up
		y.Spec.Controller.Location = x.Spec.Controller.Location
		y.Spec.Broker.TLS = y.Spec.Broker.TLS || x.Spec.Controller.Location == v1alpha1.LocationCluster
	}
	fields := map[string]bool{}
	for i, set := range y.Spec.Bases {
		if old := setNamed(x.Spec.Bases, set.Name); old != nil {
			had := *old
			had.Count, set.Count = nil, nil
			addDifferences(fields, fmt.Sprintf("spec.bases[%d]", i), reflect.ValueOf(had), reflect.ValueOf(set))
		}
	}
	for _, s := range []*v1alpha1.Sandbox{&x, &y} {
		s.Spec.Bases, s.Spec.Wait = nil, nil
	}
	addDifferences(fields, "spec", reflect.ValueOf(x.Spec), reflect.ValueOf(y.Spec))
	return slices.Sorted(maps.Keys(fields))
}

// addDifferences adds to paths the paths of the fields whose values differ between a and b. at is the path of a and
// b.
func addDifferences(paths map[string]bool, at string, a, b reflect.Value) {
	if a.Kind() != reflect.Struct {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			paths[at] = true
		}
		return
	}
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		addDifferences(paths, at+"."+name, a.Field(i), b.Field(i))
	}
}
