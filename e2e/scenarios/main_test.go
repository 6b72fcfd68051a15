package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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

// Limits of what runs concurrently. They follow the processors that the tests may use, so that a slow machine makes
// them slower, not inconclusive.
var (
	// parallelTests is the maximum number of concurrent tests, which mostly wait.
	parallelTests = 2 * runtime.GOMAXPROCS(0)
	// parallelScenarios is the number of scenarios that run concurrently in the shared sandbox. parallelCells is the
	// number of matrix cells that run concurrently for each scenario.
	parallelScenarios, parallelCells = min(2, runtime.GOMAXPROCS(0)), min(2, runtime.GOMAXPROCS(0))
	// exclusiveCount is the number of additional sandboxes for exclusive scenarios. There are no additional sandboxes
	// on kind, because the kubelets of two clusters exceed the default of fs.inotify.max_user_instances.
	exclusiveCount = min(2, runtime.GOMAXPROCS(0))
)

// maxRepeats is how often an inconclusive scenario is repeated while no other scenario runs.
const maxRepeats = 3

// runningSandbox is a running sandbox and its Go API.
type runningSandbox struct {
	box *box.Box
	up  *sandbox.Sandbox
}

// Fixtures that all tests share. bringUp sets them.
var (
	binDir             string             // directory of the built binaries
	home               string             // directory of all sandboxes of this run
	shared             *box.Box           // for scenarios that do not affect others
	up                 *sandbox.Sandbox   // the Go API of shared
	exclusiveSandboxes []runningSandbox   // for exclusive scenarios, one at a time
	speed              int                // speed of these sandboxes; 0 means 1
	externalBroker     *mosquitto.Process // nil with embedded brokers
)

func TestMain(m *testing.M) {
	os.Exit(box.Main(m, "scenarios", parallelTests, bringUp, func() error {
		ctx := context.Background()
		return errors.Join(down(ctx), stopBroker(ctx), checkPermissions())
	}))
}

// perBaseSettings make the controller evaluate each base independently, and let it delete any number of Nodes at the
// same time. Many scenarios stop all their bases at the same time. By default, the controller treats this as a
// network failure for half an hour, unless new bases replace the stopped ones. A long scenario tests the default
// settings in its own sandbox.
var perBaseSettings = map[string]string{"MASS_SILENCE_PERCENT": "0", "BASE_DELETIONS_PERCENT": "100"}

// bringUp starts the sandboxes of the catalogue. Scenarios create their own bases.
func bringUp(ctx context.Context, first *box.Box) error {
	shared, binDir, home = first, first.Bin, first.Home
	provider := v1alpha1.Provider(os.Getenv("E2E_PROVIDER"))
	switch provider {
	case "", v1alpha1.ProviderEmbedded, v1alpha1.ProviderKind:
	default:
		return fmt.Errorf("E2E_PROVIDER is %q: use embedded or kind", provider)
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
	instead, err := wrapControlPlane(provider)
	if err != nil {
		return err
	}
	n := 1 + exclusiveCount
	if provider == v1alpha1.ProviderKind {
		n = 1
	}
	shared.Provider, shared.Instead = provider, instead
	all := []runningSandbox{{box: shared}}
	for len(all) < n {
		another := &box.Box{Bin: binDir, Instead: instead, Home: home, Name: envconf.RandomName("show", 10),
			Provider: provider}
		all = append(all, runningSandbox{box: another})
	}
	exclusiveSandboxes = all[1:]
	g, upCtx := errgroup.WithContext(ctx)
	for i := range all {
		p := &all[i]
		g.Go(func() (err error) {
			s := spec()
			s.Controller.Env = perBaseSettings
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
	fmt.Printf("started %d sandboxes in %.1fs\n", len(all), time.Since(start).Seconds())
	return nil
}

// down stops all sandboxes of the catalogue.
func down(ctx context.Context) error {
	g := &errgroup.Group{}
	g.Go(func() error { return shared.Down(ctx) })
	for _, p := range exclusiveSandboxes {
		g.Go(func() error { return p.box.Down(ctx) })
	}
	return g.Wait()
}

// startBroker starts the external broker that E2E_BROKER selects.
func startBroker(ctx context.Context) (err error) {
	switch name := os.Getenv("E2E_BROKER"); name {
	case "":
		return nil
	case "mosquitto":
	default:
		return fmt.Errorf("E2E_BROKER is %q: use mosquitto, or unset it", name)
	}
	folder := filepath.Join(home, ".mosquitto")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fmt.Errorf("creating a directory for mosquitto: %w", err)
	}
	externalBroker, err = mosquitto.Start(ctx, folder)
	return err
}

// stopBroker stops the external broker. It returns an error if the broker has failed, or if the broker still retains
// messages of sandboxes.
func stopBroker(ctx context.Context) error {
	if externalBroker == nil {
		return nil
	}
	defer externalBroker.Stop()
	if err := externalBroker.Check(); err != nil {
		return err
	}
	topics, err := externalBroker.RetainedTopics(ctx)
	if err == nil && len(topics) > 0 {
		err = fmt.Errorf("the broker has retained messages of sandboxes: %q", topics)
	}
	return err
}

// spec returns a configuration with one base, which is the minimum. Scenarios do not use this base.
func spec() v1alpha1.Spec {
	one := 1
	s := v1alpha1.Spec{Bases: []v1alpha1.BaseSet{{Count: &one, BaseName: "unused"}}, Speed: speed}
	if externalBroker != nil {
		s.Broker = v1alpha1.Broker{URL: externalBroker.URL(), Username: mosquitto.User,
			PasswordFile: externalBroker.Passwords[mosquitto.User], CAFile: externalBroker.CAFile}
	}
	return s
}
