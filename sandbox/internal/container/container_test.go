package container

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

// fakeEngine stands for docker: it notes what it is told, and answers as a script says.
func fakeEngine(t *testing.T, script string) (o Options, told func() []string) {
	t.Helper()
	dir := t.TempDir()
	log, command := filepath.Join(dir, "told"), filepath.Join(dir, "docker")
	text := "#!/bin/sh\necho \"$@\" >> " + log + "\n" + script
	if err := os.WriteFile(command, []byte(text), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	return Options{Engine: &engine.Engine{Command: command}, Network: "kind", Sandbox: "s", Dir: dir}, func() []string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

func TestSweepTouchesOwnContainersOnly(t *testing.T) {
	o, told := fakeEngine(t, `[ "$1" = ps ] && echo "c1
c2"
exit 0`)
	if err := New(o).Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	labels := New(o).labels()
	want := []string{"ps --all --quiet --filter label=" + labels[0] + " --filter label=" + labels[1], "rm --force --volumes c1 c2"}
	if d := cmp.Diff(want, told()); d != "" {
		t.Errorf("the engine was told (-want +got):\n%s", d)
	}
	other := o
	other.Dir = t.TempDir()
	if slices.Equal(labels, New(other).labels()) || !slices.Equal(labels, New(o).labels()) {
		t.Errorf("the labels of sandboxes in two folders: %v, %v", labels, New(other).labels())
	}
}

func TestSweepOfNothing(t *testing.T) {
	o, told := fakeEngine(t, "")
	if err := New(o).Sweep(t.Context()); err != nil || len(told()) != 1 {
		t.Errorf("the engine was told %v: %v", told(), err)
	}
}

func TestContainerThatCannotRun(t *testing.T) {
	o, told := fakeEngine(t, `case $1 in
run) echo "docker: Error response from daemon: network kind not found." >&2; exit 125;;
image) exit 1;;
load) cat > /dev/null;;
esac`)
	o.Program = filepath.Join(o.Dir, "docker")
	if _, err := New(o).Run(t.Context(), "base-1"); err == nil || !strings.Contains(err.Error(), "it is no program for Linux; build it with: make build") {
		t.Errorf("with a script as program: %v", err)
	}
	e := New(o)
	e.image = "made"
	_, err := e.Run(t.Context(), "base-1")
	if err == nil || !strings.Contains(err.Error(), "starting container koup-s-base-1") || !strings.Contains(err.Error(), "network kind not found") {
		t.Errorf("the engine refused: %v", err)
	}
	last := told()[len(told())-1]
	for _, part := range []string{"run --rm --interactive --name koup-s-base-1 --hostname base-1 --network kind --pull never --read-only",
		"--log-driver none", "--label " + e.labels()[0], "--label " + e.labels()[1] + " made"} {
		if !strings.Contains(last, part) {
			t.Errorf("the engine was told %q, without %q", last, part)
		}
	}
}
