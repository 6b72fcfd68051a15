package kind

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

func TestEngineThatDoesNotSuffice(t *testing.T) {
	small := &engine.Engine{Command: "docker", Memory: 1e9}
	if err := suffices(t.Context(), small); err == nil || !strings.Contains(err.Error(), "docker has 1.0 GB of memory and a cluster of kind needs 2.1") {
		t.Errorf("error %v", err)
	}
	// The proc file system has no room at all.
	full := &engine.Engine{Command: "docker", Memory: 8e9, Root: "/proc"}
	if err := suffices(t.Context(), full); err == nil || !strings.Contains(err.Error(), "the disk of docker (/proc) has 0.0 GB free") {
		t.Errorf("error %v", err)
	}
	elsewhere := &engine.Engine{Command: "docker", Memory: 8e9, Root: filepath.Join(t.TempDir(), "of", "another", "machine")}
	if err := suffices(t.Context(), elsewhere); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestEngineWithoutRoot(t *testing.T) {
	for want, e := range map[string]*engine.Engine{
		"podman runs without root and this machine has cgroups v1, where a cluster of kind cannot: run podman as root, or use --provider embedded": {
			Command: engine.Podman, Rootless: true, CgroupV1: true, Controllers: true},
		"podman runs without root and may not limit CPU, memory and processes: let systemd give it that with Delegate=yes " +
			"(https://kind.sigs.k8s.io/docs/user/rootless/), or use --provider embedded": {Command: engine.Podman, Rootless: true},
		"<nil>": {Command: engine.Podman, Rootless: true, Controllers: true},
	} {
		if got := fmt.Sprint(suffices(t.Context(), e)); got != want {
			t.Errorf("%+v: %s\nwant %s", e, got, want)
		}
	}
}

func TestScarceInotify(t *testing.T) {
	for text, want := range map[string]string{
		"128\n": "fs.inotify.max_user_instances is 128, which a few clusters use up: if others run here, raise it with: sysctl -w fs.inotify.max_user_instances=512",
		"512\n": "<nil>", "many": "<nil>",
	} {
		path := filepath.Join(t.TempDir(), "limit")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(scarceInotify(path)); got != want {
			t.Errorf("limit %q: %s, want %s", text, got, want)
		}
	}
	if err := scarceInotify(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("no limit: %v", err)
	}
}
