package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const (
	// patience is how long anything may take on a busy machine.
	patience = 2 * time.Minute
	// bases of the shared sandbox.
	bases = 3
	// nodes of its cluster: what works with two works with one.
	nodes = 2
)

// What all tests use; TestMain sets it.
var (
	programs string // folder of the built programs
	home     string // folder of all sandboxes of this run
	engine   string // the container engine's command
	shared   *box.Box
	up       *sandbox.Sandbox // the Go API of shared
	client   kubernetes.Interface
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	if os.Getenv("E2E_KIND") == "" {
		fmt.Println("e2e/kind: all tests are skipped; run them with: make e2e-kind")
		return 0
	}
	if err := findEngine(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "e2e/kind: %v\n", err)
		return 1
	}
	err := prepare()
	defer func() { _ = os.RemoveAll(home) }() // a folder for temporary files
	if err == nil {
		err = bringUp(ctx)
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if shared != nil {
		err = errors.Join(err, shared.Down(ctx), nothingIsLeft(ctx))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e/kind: %v\n", err)
		return 1
	}
	return code
}

// findEngine takes the container engine of $KOUPSANDBOX_ENGINE; without it, the first that answers.
func findEngine(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	engines := []string{"docker", "podman"}
	if name := os.Getenv("KOUPSANDBOX_ENGINE"); name != "" {
		engines = []string{name}
	}
	for _, command := range engines {
		if exec.CommandContext(ctx, command, "ps").Run() == nil {
			engine = command
			return nil
		}
	}
	return fmt.Errorf("no container engine answers (%s): start one", strings.Join(engines, ", "))
}

// prepare finds the programs: those that make build has left in bin, or those in $E2E_BIN.
func prepare() (err error) {
	if home, err = os.MkdirTemp("", "koup-e2e-"); err != nil { // a short path, because sockets go there
		return fmt.Errorf("making a folder for sandboxes: %w", err)
	}
	programs, err = box.FindPrograms(filepath.Join("..", ".."))
	return err
}

// newBox names a sandbox that no other run uses.
func newBox(kind string) *box.Box {
	return &box.Box{Bin: programs, Home: home, Name: envconf.RandomName(kind, 10), Provider: v1alpha1.ProviderKind}
}

// spec has the controller in the cluster, which is the default, and each base in a Pod of its own.
func spec() v1alpha1.Spec {
	count := bases
	return v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &count, Runtime: v1alpha1.RuntimeCluster, PerPod: 1}, Kind: v1alpha1.KindCluster{Engine: v1alpha1.Engine(engine), Nodes: nodes}}
}

func bringUp(ctx context.Context) error {
	shared = newBox("kind")
	start := time.Now()
	if err := shared.Up(ctx, spec()); err != nil {
		return err
	}
	fmt.Printf("sandbox %s is up after %.1fs\n", shared.Name, time.Since(start).Seconds())
	return open(ctx)
}

// open connects to the shared sandbox.
func open(ctx context.Context) (err error) {
	if up, err = shared.Open(ctx); err != nil {
		return err
	}
	config, err := shared.REST()
	if err != nil {
		return err
	}
	client, err = kubernetes.NewForConfig(config)
	return err
}

// eventually waits until check finds nothing wrong; otherwise it fails the test with what was wrong
// last.
func eventually(t *testing.T, what string, look func(context.Context) error) {
	t.Helper()
	check.Eventually(t.Context(), t, patience, what, look)
}

// listContainers lists the names of the containers of a sandbox's cluster, running or not.
func listContainers(ctx context.Context, name string) ([]string, error) {
	out, err := exec.CommandContext(ctx, engine, "ps", "--all", "--filter", "label=io.x-k8s.kind.cluster=koup-"+name,
		"--format", "{{.Names}}").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w: %s", err, out)
	}
	return strings.Fields(string(out)), nil
}

func containers(t *testing.T, name string) []string {
	t.Helper()
	list, err := listContainers(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// nothingIsLeft of the shared sandbox after its down: no container, no file.
func nothingIsLeft(ctx context.Context) error {
	left, err := listContainers(ctx, shared.Name)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("down has left the containers %v", left)
	}
	if _, statErr := os.Stat(shared.Folder()); statErr == nil {
		err = errors.Join(err, fmt.Errorf("down has left the folder %s", shared.Folder()))
	}
	return err
}
