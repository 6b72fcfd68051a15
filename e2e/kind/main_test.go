package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const (
	// bases is the number of bases of the shared sandbox.
	bases = 3
	// nodes is the number of nodes of the shared sandbox's cluster.
	nodes = 2
)

// The shared sandbox, its Go API, a client of its Kubernetes API, and the command of the container engine.
var (
	shared *box.Box
	up     *sandbox.Sandbox
	client kubernetes.Interface
	engine string

	must       = check.Must
	eventually = check.Soon
)

func TestMain(m *testing.M) {
	if os.Getenv("E2E_KIND") == "" {
		fmt.Println("e2e/kind: all tests are skipped; run them with: make e2e-kind")
		return
	}
	code := box.Main(m, "kind", 0, bringUp)
	if left, err := listContainers(context.Background(), shared.Name); err != nil || len(left) > 0 {
		fmt.Fprintf(os.Stderr, "e2e/kind: containers after down: %v (error: %v)\n", left, err)
		code = 1
	}
	os.Exit(code)
}

// findEngine returns the container engine in $KOUPSANDBOX_ENGINE. If the variable is not set, findEngine returns the
// first of docker and podman that responds.
func findEngine(ctx context.Context) (string, error) {
	engines := []string{"docker", "podman"}
	if name := os.Getenv("KOUPSANDBOX_ENGINE"); name != "" {
		engines = []string{name}
	}
	for _, command := range engines {
		if exec.CommandContext(ctx, command, "ps").Run() == nil {
			return command, nil
		}
	}
	return "", fmt.Errorf("no container engine responds (%s); start one of them", strings.Join(engines, ", "))
}

// newBox returns a sandbox that only the calling test uses. The sandbox is not running.
func newBox(kind string) *box.Box {
	return &box.Box{Bin: shared.Bin, Home: shared.Home, Name: envconf.RandomName(kind, 10),
		Provider: v1alpha1.ProviderKind}
}

// spec returns a configuration in which the controller runs in the cluster, which is the default, and each base runs
// in its own Pod.
func spec() v1alpha1.Spec {
	count := bases
	return v1alpha1.Spec{Bases: []v1alpha1.BaseSet{{Count: &count}},
		Fleet: v1alpha1.Fleet{Runtime: v1alpha1.RuntimeCluster, PerPod: 1},
		Kind:  v1alpha1.KindCluster{Engine: v1alpha1.Engine(engine), Nodes: nodes}}
}

func bringUp(ctx context.Context, b *box.Box) (err error) {
	shared, b.Provider = b, v1alpha1.ProviderKind
	engine, err = findEngine(ctx)
	if err != nil {
		return err
	}
	if err := b.Up(ctx, spec()); err != nil {
		return err
	}
	return open(ctx)
}

// open connects to the shared sandbox, and sets up and client.
func open(ctx context.Context) error {
	var errs [2]error
	up, errs[0] = shared.Open(ctx)
	client, errs[1] = shared.Client()
	return errors.Join(errs[:]...)
}

// listContainers returns the names of all containers of a sandbox's cluster.
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
	must(t, err)
	return list
}
