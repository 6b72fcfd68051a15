package daemon

import (
	"context"
	"fmt"
	"reflect"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// ensure brings a running sandbox in line with a configuration: it starts what
// has exited, brings the number of bases to the wanted one, and says what it has
// done. Other settings stay until the next down. When it fails the sandbox stays
// up as it is.
func (d *Daemon) ensure(ctx context.Context, steps *progress.Steps, r control.UpRequest) ([]string, error) {
	config := r.Config
	var changes []string
	s := d.now()
	d.made(func(s *sandbox) {
		updated := *s.config
		updated.Spec.Wait = config.Spec.Wait
		s.config = &updated
	})
	if otherSettings(s.config, config) {
		steps.Note("other settings than the number of bases take effect after a down and an up")
	}
	if s.mqtt.component().State == string(supervise.Exited) {
		if err := d.step(ctx, steps, "Starting broker again", s.mqtt.start); err != nil {
			return changes, err
		}
		changes = append(changes, "started broker again")
	}
	for _, status := range d.supervisor.Status(ctx) {
		if status.State != supervise.Exited {
			continue
		}
		if err := d.step(ctx, steps, "Starting "+status.Name+" again", func(ctx context.Context) error {
			return d.restart(ctx, status.Name)
		}); err != nil {
			return changes, err
		}
		changes = append(changes, "started "+status.Name+" again")
	}
	if s.deployed != nil {
		started, err := d.ensureDeployed(ctx, steps, s)
		if changes = append(changes, started...); err != nil {
			return changes, err
		}
	}
	have := s.fleet.Count().Own
	want := *config.Spec.Bases.Count
	if have != want && !r.KeepBases {
		if err := d.scaleTo(ctx, steps, want); err != nil {
			return changes, err
		}
		changes = append(changes, fmt.Sprintf("brought the number of bases from %d to %d", have, want))
		d.made(func(s *sandbox) {
			updated := *s.config
			updated.Spec.Bases.Count = &want
			s.config = &updated
		})
		if err := d.saveConfig(d.now().config); err != nil {
			return changes, err
		}
	}
	return changes, d.waitNodes(ctx, steps)
}

// ensureDeployed starts the controllers in the cluster that are not ready; one that somebody has paused stays so.
func (d *Daemon) ensureDeployed(ctx context.Context, steps *progress.Steps, s sandbox) (changes []string, err error) {
	for _, c := range d.deployedComponents(s.deployed) {
		if c.Ready || c.State == string(supervise.Paused) {
			continue
		}
		if err := d.step(ctx, steps, "Starting "+c.Name+" again", func(ctx context.Context) error {
			number, err := s.deployed.Find(c.Name)
			if err != nil {
				return err
			}
			return s.deployed.StartAgain(ctx, number)
		}); err != nil {
			return changes, err
		}
		changes = append(changes, "started "+c.Name+" again")
	}
	return changes, nil
}

// otherSettings tells whether two configurations differ in more than the number
// of bases and the patience.
func otherSettings(a, b *v1alpha1.Sandbox) bool {
	x, y := *a, *b
	if y.Spec.Provider == v1alpha1.ProviderAuto { // what that meant was settled when the sandbox came up
		y.Spec.Provider, y.Spec.Kind, y.Spec.Cluster = x.Spec.Provider, x.Spec.Kind, x.Spec.Cluster
	}
	if y.Spec.Env == "" { // as above, for an environment of its own
		y.Spec.Env = x.Spec.Env
	}
	if y.Spec.Controller.Location == "" { // as above
		y.Spec.Controller.Location = x.Spec.Controller.Location
		y.Spec.Broker.TLS = y.Spec.Broker.TLS || inCluster(&x)
	}
	for _, s := range []*v1alpha1.Sandbox{&x, &y} {
		s.Spec.Bases.Count, s.Spec.Wait = nil, nil
	}
	return !reflect.DeepEqual(x, y)
}
