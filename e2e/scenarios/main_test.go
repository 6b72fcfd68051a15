package scenarios

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/mosquitto"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// atOnce is how many scenarios run at the same time: most of the time they wait.
const atOnce = "4"

// What all tests use; prepare sets it.
var (
	testenv  types.Environment
	programs string // folder of the built programs
	home     string // folder of all sandboxes of this run
	shared   *box.Box
	up       *sandbox.Sandbox   // the Go API of shared
	theirs   *mosquitto.Process // the user's broker; nil = the sandbox has its own
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	err := prepare()
	defer func() { _ = os.RemoveAll(home) }() // a folder for temporary files
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e/scenarios: %v\n", err)
		return 1
	}
	testenv = env.NewWithConfig(envconf.New().WithFailFast())
	testenv.Setup(func(ctx context.Context, _ *envconf.Config) (context.Context, error) { return ctx, bringUp(ctx) })
	var endErr error // the framework itself only logs it
	testenv.Finish(func(ctx context.Context, _ *envconf.Config) (context.Context, error) {
		endErr = errors.Join(shared.Down(ctx), endBroker(ctx))
		return ctx, nil
	})
	code := testenv.Run(m)
	if endErr != nil {
		fmt.Fprintf(os.Stderr, "e2e/scenarios: %v\n", endErr)
		return 1
	}
	return code
}

// prepare finds the programs: those that make build has left in bin, or those in $E2E_BIN.
func prepare() (err error) {
	if home, err = os.MkdirTemp("", "koup-e2e-"); err != nil { // a short path, because sockets go there
		return fmt.Errorf("making a folder for sandboxes: %w", err)
	}
	programs, err = box.FindPrograms(filepath.Join("..", ".."))
	return err
}

// bringUp starts the sandbox of the catalogue. Scenarios bring bases of their own.
func bringUp(ctx context.Context) error {
	provider := v1alpha1.Provider(os.Getenv("E2E_PROVIDER"))
	switch provider {
	case "", v1alpha1.ProviderEmbedded, v1alpha1.ProviderKind:
	default:
		return fmt.Errorf("E2E_PROVIDER is %q: say embedded or kind", provider)
	}
	shared = &box.Box{Bin: programs, Home: home, Name: envconf.RandomName("show", 10), Provider: provider}
	if err := startBroker(ctx); err != nil {
		return err
	}
	start := time.Now()
	err := shared.Up(ctx, spec())
	if err == nil {
		fmt.Printf("sandbox %s is up after %.1fs\n", shared.Name, time.Since(start).Seconds())
		up, err = shared.Open(ctx)
	}
	if err != nil {
		return errors.Join(err, shared.Down(ctx), endBroker(ctx))
	}
	return nil
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
	if err := theirs.Alive(); err != nil {
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
	s := v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &one, Name: "unused"}}
	if theirs != nil {
		s.Broker = v1alpha1.Broker{URL: theirs.URL(), Username: mosquitto.User, PasswordFile: theirs.Passwords[mosquitto.User], CAFile: theirs.CAFile}
	}
	return s
}
