package kind

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

func TestCheckEngineMemoryAndDisk(t *testing.T) {
	small := &engine.Engine{Command: "docker", Memory: 1e9}
	if err := checkEngine(t.Context(), small); err == nil || !strings.Contains(err.Error(), "1.0 GB") ||
		!strings.Contains(err.Error(), "2.1") {
		t.Errorf("error %v", err)
	}
	// The proc file system has no free space.
	full := &engine.Engine{Command: "docker", Memory: 8e9, Root: "/proc"}
	if err := checkEngine(t.Context(), full); err == nil || !strings.Contains(err.Error(), "(/proc)") ||
		!strings.Contains(err.Error(), "0.0 GB") {
		t.Errorf("error %v", err)
	}
	elsewhere := &engine.Engine{Command: "docker", Memory: 8e9,
		Root: filepath.Join(t.TempDir(), "of", "another", "machine")}
	if err := checkEngine(t.Context(), elsewhere); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestCheckRootlessEngine(t *testing.T) {
	for want, e := range map[string]*engine.Engine{
		"cgroups v1":   {Command: engine.Podman, Rootless: true, CgroupV1: true, Controllers: true},
		"Delegate=yes": {Command: engine.Podman, Rootless: true},
		"<nil>":        {Command: engine.Podman, Rootless: true, Controllers: true},
	} {
		if got := fmt.Sprint(checkEngine(t.Context(), e)); !strings.Contains(got, want) {
			t.Errorf("%+v: %s\nwant %s", e, got, want)
		}
	}
}

func TestCheckInotify(t *testing.T) {
	for text, want := range map[string]string{
		"128\n": "sysctl -w fs.inotify.max_user_instances=512",
		"512\n": "<nil>", "many": "<nil>",
	} {
		path := filepath.Join(t.TempDir(), "limit")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(checkInotify(path)); !strings.HasSuffix(got, want) {
			t.Errorf("limit %q: %s, want %s", text, got, want)
		}
	}
	if err := checkInotify(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("missing file: %v", err)
	}
}
