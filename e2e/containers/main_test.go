package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/mosquitto"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// patience is how long anything may take on a busy machine.
const patience = 3 * time.Minute

// What all tests use; TestMain sets it.
var (
	programs string                         // folder of the built programs
	home     string                         // folder of all sandboxes of this run
	engine   *testcontainers.DockerProvider // the container engine
	all      *parts
	shared   *box.Box
	up       *sandbox.Sandbox // the Go API of shared
	kube     kubernetes.Interface
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	if os.Getenv("E2E_CONTAINERS") == "" {
		fmt.Println("e2e/containers: all tests are skipped; run them with: make e2e-containers")
		return 0
	}
	err := prepare(ctx)
	defer func() { _ = os.RemoveAll(home) }() // a folder for temporary files
	if err == nil {
		err = bringUp(ctx)
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, tearDown(ctx)); err != nil {
		fmt.Fprintf(os.Stderr, "e2e/containers: %v\n", err)
		return 1
	}
	return code
}

// prepare finds the engine and the programs: those that make build has left in bin, or
// those in $E2E_BIN.
func prepare(ctx context.Context) (err error) {
	if home, err = os.MkdirTemp("", "koup-e2e-"); err != nil { // a short path, because sockets go there
		return fmt.Errorf("making a folder for sandboxes: %w", err)
	}
	if programs, err = box.FindPrograms(filepath.Join("..", "..")); err != nil {
		return err
	}
	if err := withoutReaper(ctx); err != nil {
		return err
	}
	engine, err = testcontainers.NewDockerProvider()
	return err
}

// withoutReaper checks that an engine answers, and turns the reaper off: it is an image of others, which
// the library names by a tag and hands the engine's socket. The tests tidy up themselves. The library
// reads its settings once, so this comes first.
func withoutReaper(ctx context.Context) error {
	c, err := client.New(client.FromEnv)
	if err != nil {
		return fmt.Errorf("reaching a container engine: %w", err)
	}
	defer func() { _ = c.Close() }() // nothing was sent that matters
	if _, err := c.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return fmt.Errorf("no container engine answers: %w", err)
	}
	return os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
}

// bringUp starts network and broker, a sandbox on that broker, and two bases that join it by
// themselves.
func bringUp(ctx context.Context) (err error) {
	start := time.Now()
	all = &parts{}
	if err := all.startBroker(ctx); err != nil {
		return err
	}
	shared = &box.Box{Bin: programs, Home: home, Name: envconf.RandomName("parts", 12)}
	if err := shared.Up(ctx, spec()); err != nil {
		return err
	}
	if up, err = shared.Open(ctx); err != nil {
		return err
	}
	config, err := shared.REST()
	if err != nil {
		return err
	}
	if kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	status, err := up.Status(ctx, false)
	if err != nil {
		return err
	}
	if err := all.startBases(ctx, status.Env); err != nil {
		return err
	}
	fmt.Printf("sandbox %s, broker and bases are up after %.1fs\n", shared.Name, time.Since(start).Seconds())
	return nil
}

// spec has the times of the catalogue's scenarios of silent bases; only the one after which a
// silent base is gone is longer, so that a partition ends before.
func spec() v1alpha1.Spec {
	one := 1
	return v1alpha1.Spec{
		Bases: v1alpha1.Bases{Count: &one, Name: "unused"},
		Broker: v1alpha1.Broker{URL: all.files.URL(), Username: mosquitto.User, PasswordFile: all.files.Passwords[mosquitto.User],
			CAFile: all.files.CAFile},
		Controller: v1alpha1.Controller{Env: map[string]string{
			"BASE_UNREACHABLE_AFTER": "4s", "BASE_DEAD_AFTER": "40s", "HEALTH_INTERVAL": "1s", "LIST_INTERVAL": "2s"}},
	}
}

// tearDown ends everything, and says what is left of it.
func tearDown(ctx context.Context) error {
	var err error
	if shared != nil {
		err = shared.Down(ctx)
	}
	if all != nil {
		err = errors.Join(err, all.end(ctx))
	}
	return err
}

// eventually waits until look finds nothing wrong; otherwise it fails the test with what was wrong
// last.
func eventually(t *testing.T, what string, look func(context.Context) error) {
	t.Helper()
	check.Eventually(t.Context(), t, patience, what, look)
}

func must(t *testing.T, err error) {
	t.Helper()
	check.Must(t, err)
}
