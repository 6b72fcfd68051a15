package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/mosquitto"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const (
	// atOnce is how many tests run at the same time: most of the time they wait.
	atOnce = 4
	// The number of scenarios that run in parallel in the shared sandbox, and the number of parallel cells of a matrix.
	sideBySide, cellsAtOnce = 2, 2
	// The number of further sandboxes for exclusive scenarios. On kind there are none: the kubelets of two clusters exceed
	// the default of fs.inotify.max_user_instances.
	besides = 2
)

// place is a sandbox that is up.
type place struct {
	box *box.Box
	up  *sandbox.Sandbox // its Go API
}

// What all tests use; bringUp sets it.
var (
	programs string             // directory of the built binaries
	home     string             // directory of all sandboxes of this run
	shared   *box.Box           // for scenarios that do not affect others
	up       *sandbox.Sandbox   // the Go API of shared
	places   []place            // for what disturbs others, one scenario at a time
	speed    int                // of all these; 0 = 1
	theirs   *mosquitto.Process // the user's broker; nil = the sandbox has its own
)

func TestMain(m *testing.M) {
	os.Exit(box.Main(m, "scenarios", atOnce, bringUp, func() error {
		ctx := context.Background()
		return errors.Join(down(ctx), endBroker(ctx), asAllowed())
	}))
}

// byItself makes the controller evaluate each base alone, and delete any number of Nodes at the same time. A scenario stops
// all its bases together, which the controller would otherwise treat as a network failure for half an hour, unless new bases
// replace them. The scenario long/most-silent-5m tests the default settings in a separate sandbox.
var byItself = map[string]string{"MASS_SILENCE_PERCENT": "0", "BASE_DELETIONS_PERCENT": "100"}

// bringUp starts the sandboxes of the catalogue. Scenarios bring bases of their own.
func bringUp(ctx context.Context, first *box.Box) error {
	shared, programs, home = first, first.Bin, first.Home
	provider := v1alpha1.Provider(os.Getenv("E2E_PROVIDER"))
	switch provider {
	case "", v1alpha1.ProviderEmbedded, v1alpha1.ProviderKind:
	default:
		return fmt.Errorf("E2E_PROVIDER is %q: say embedded or kind", provider)
	}
	if text := os.Getenv("E2E_SPEED"); text != "" {
		var err error
		speed, err = strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("reading E2E_SPEED: %w", err)
		}
	}
	if err := startBroker(ctx); err != nil {
		return err
	}
	start := time.Now()
	instead, err := audited(provider)
	if err != nil {
		return err
	}
	n := 1 + besides
	if provider == v1alpha1.ProviderKind {
		n = 1
	}
	shared.Provider, shared.Instead = provider, instead
	all := []place{{box: shared}}
	for len(all) < n {
		another := &box.Box{Bin: programs, Instead: instead, Home: home, Name: envconf.RandomName("show", 10),
			Provider: provider}
		all = append(all, place{box: another})
	}
	places = all[1:]
	g, upCtx := errgroup.WithContext(ctx)
	for i := range all {
		p := &all[i]
		g.Go(func() (err error) {
			s := spec()
			s.Controller.Env = byItself
			err = p.box.Up(upCtx, s)
			if err == nil {
				p.up, err = p.box.Open(ctx)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	up = all[0].up
	fmt.Printf("sandboxes that are up: %d, after %.1fs\n", len(all), time.Since(start).Seconds())
	return nil
}

// down ends all sandboxes of the catalogue.
func down(ctx context.Context) error {
	g := &errgroup.Group{}
	g.Go(func() error { return shared.Down(ctx) })
	for _, p := range places {
		g.Go(func() error { return p.box.Down(ctx) })
	}
	return g.Wait()
}

// startBroker starts the broker that E2E_BROKER names.
func startBroker(ctx context.Context) (err error) {
	switch name := os.Getenv("E2E_BROKER"); name {
	case "":
		return nil
	case "mosquitto":
	default:
		return fmt.Errorf("E2E_BROKER is %q: say mosquitto, or leave it out", name)
	}
	folder := filepath.Join(home, ".mosquitto")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fmt.Errorf("making a folder for mosquitto: %w", err)
	}
	theirs, err = mosquitto.Start(ctx, folder)
	return err
}

// endBroker ends the broker, after a look at what the sandboxes have left there.
func endBroker(ctx context.Context) error {
	if theirs == nil {
		return nil
	}
	defer theirs.Stop()
	if err := theirs.Check(); err != nil {
		return err
	}
	topics, err := theirs.Retained(ctx)
	if err == nil && len(topics) > 0 {
		err = fmt.Errorf("the sandboxes have left retained messages at the broker: %q", topics)
	}
	return err
}

// spec has one base, the fewest that a sandbox may have; no scenario uses it.
func spec() v1alpha1.Spec {
	one := 1
	s := v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &one, Name: "unused"}, Speed: speed}
	if theirs != nil {
		s.Broker = v1alpha1.Broker{URL: theirs.URL(), Username: mosquitto.User,
			PasswordFile: theirs.Passwords[mosquitto.User], CAFile: theirs.CAFile}
	}
	return s
}
