package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/koupleless/koupsandbox/"

// layers lists the layers of the Go module, lowest first. A package belongs to the layer that lists the package
// itself or its nearest listed parent directory. A package may import packages of its own layer and of lower layers.
var layers = []struct {
	name     string
	packages []string
}{
	{"leaves, which import no other package of this module", []string{
		"controller/api", "controller/labels", "controller/redact", "examples", "fakebase/fault",
		"sandbox/internal/check", "sandbox/internal/engine", "sandbox/internal/explain",
		"sandbox/internal/heartbeat", "sandbox/internal/image", "sandbox/internal/language",
		"sandbox/internal/layers", "sandbox/internal/plain", "sandbox/internal/strictyaml", "sandbox/internal/valve",
		"sandbox/internal/version", "scenarios",
	}},
	{"controller and fakebase, which do not depend on a sandbox", []string{"controller", "fakebase"}},
	{"the configuration types and the events", []string{"sandbox/api", "sandbox/events"}},
	{"tools of a sandbox", []string{
		"sandbox/fault", "sandbox/internal/lint", "sandbox/internal/nodeimage", "sandbox/internal/nodes",
		"sandbox/internal/progress", "sandbox/internal/revision", "sandbox/internal/state",
		"sandbox/internal/supervise", "sandbox/why",
	}},
	{"parts of a sandbox", []string{
		"sandbox/internal/apifault", "sandbox/internal/broker", "sandbox/internal/mqttfault",
		"sandbox/internal/cluster", "sandbox/internal/fleet", "sandbox/internal/pods",
		"sandbox/internal/runner", "sandbox/internal/traffic",
	}},
	{"the control API", []string{"sandbox/internal/control"}},
	{"the daemon", []string{"sandbox/internal/daemon"}},
	{"Up, Down, Open", []string{"sandbox"}},
	{"scenarios", []string{"sandbox/scenario"}},
	{"fuzzer, board and benchmarks",
		[]string{"sandbox/bench", "sandbox/board", "sandbox/fuzz"}},
	{"command line", []string{"sandbox/cmd"}},
	{"end-to-end tests", []string{"e2e"}},
}

const leaves = 0

type pkg struct {
	ImportPath string
	Imports    []string
	Module     struct {
		Path, Version string
		Replace       struct{ Version string }
	}
}

// list returns the packages that go list prints for the given arguments, without test packages.
func list(t *testing.T, dir string, args ...string) []pkg {
	t.Helper()
	args = append([]string{"list", "-json=ImportPath,Imports,Module"}, args...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// layerOf returns the index in layers of the layer to which a package belongs, or -1 if no layer contains the
// package.
func layerOf(name string) int {
	for ; name != "."; name = path.Dir(name) {
		if i := slices.IndexFunc(layers, func(l struct {
			name     string
			packages []string
		}) bool {
			return slices.Contains(l.packages, name)
		}); i >= 0 {
			return i
		}
	}
	return -1
}

func TestImportsPointDown(t *testing.T) {
	imports := 0
	for _, p := range list(t, ".", module+"...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		from := layerOf(name)
		if from < 0 {
			t.Errorf("%s belongs to no layer; add it to the table and to ARCHITECTURE.md", name)
			continue
		}
		for _, i := range p.Imports {
			to, ours := strings.CutPrefix(i, module)
			if !ours {
				continue
			}
			imports++
			switch up := layerOf(to) > from; {
			case up:
				t.Errorf("%s (%s) imports %s, which is in a higher layer (%s)", name, layers[from].name, to,
					layers[layerOf(to)].name)
			case from == leaves && !strings.HasPrefix(to, name+"/") && !strings.HasPrefix(name, to+"/"):
				t.Errorf("%s is a leaf, but imports %s", name, to)
			case joined(name, to):
				t.Errorf("%s imports %s: controller and fakebase are independent implementations of one protocol", name,
					to)
			}
		}
	}
	if imports < 100 {
		t.Errorf("only %d imports were checked", imports)
	}
}

// joined reports whether a package of the controller imports a package of the simulated base, or the other way round.
func joined(from, to string) bool {
	below := func(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }
	return below(from, "controller") && below(to, "fakebase") || below(from, "fakebase") && below(to, "controller")
}

// TestSharedVersions checks that the control plane and the other binaries select the same versions of the Go modules
// that both use. Otherwise, the first build compiles hundreds of packages twice.
func TestSharedVersions(t *testing.T) {
	versions := map[string]string{}
	shared := map[string]bool{}
	for _, p := range list(t, ".", "-deps", module+"sandbox/cmd/...", module+"controller/cmd/...") {
		versions[p.ImportPath] = p.Module.Version
	}
	for _, p := range list(t, "../../controlplane", "-deps", ".") {
		version, both := versions[p.ImportPath]
		m := p.Module
		if m.Replace.Version != "" {
			m.Version = m.Replace.Version
		}
		if !both || m.Path == "" { // the standard library has no module
			continue
		}
		if version != m.Version && !shared[m.Path] {
			t.Errorf("%s is %s in go.mod, but %s in sandbox/controlplane/go.mod; select the newer version in both",
				m.Path, version, m.Version)
		}
		shared[m.Path] = true
	}
	if len(shared) < 40 {
		t.Errorf("only %d shared modules were checked", len(shared))
	}
}
