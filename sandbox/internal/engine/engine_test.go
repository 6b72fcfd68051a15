package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine/enginetest"
)

func TestFind(t *testing.T) {
	for name, tc := range map[string]struct {
		installed, script string
		want              *engine.Engine
		err               error
		names             string // text that the error must contain
		name              string // engine name passed to Find
	}{
		"docker": {installed: "docker",
			script: `echo '{"ServerVersion":"27.5.1","CgroupVersion":"2","Architecture":"aarch64","MemTotal":8000000000,"DockerRootDir":"/d"}'`,
			want: &engine.Engine{Command: "docker", Version: "27.5.1", Architecture: "arm64", Memory: 8e9,
				Root: "/d"}},
		"docker without root": {installed: "docker",
			script: `echo '{"ServerVersion":"27.5.1","CgroupVersion":"2","Architecture":"amd64",
			"MemoryLimit":true,"PidsLimit":true,"CPUShares":true,"SecurityOptions":["name=seccomp,profile=builtin","name=rootless"]}'`,
			want: &engine.Engine{Command: "docker", Version: "27.5.1", Architecture: "amd64", Rootless: true,
				Controllers: true}},
		"podman": {installed: "podman",
			script: `echo '{"host":{"cgroupVersion":"v1","arch":"amd64","memTotal":1,"cgroupControllers":["cpu","memory"],
			"security":{"rootless":true}},"store":{"graphRoot":"/g"},"version":{"Version":"5.4.0"}}'`,
			want: &engine.Engine{Command: "podman", Version: "5.4.0", Architecture: "amd64", CgroupV1: true, Memory: 1,
				Root: "/g", Rootless: true}},
		"neither installed": {err: engine.ErrNotInstalled, names: "docker podman"},
		"another engine installed": {installed: "docker", script: `echo '{"ServerVersion":"27.5.1"}'`,
			name: "podman",
			err:  engine.ErrNotInstalled, names: "podman"},
		"unknown engine": {installed: "docker", script: `echo '{"ServerVersion":"27.5.1"}'`, name: "nerdctl",
			err: engine.ErrNoEngine, names: `"nerdctl" docker podman`},
		"not running": {installed: "docker",
			script: `echo "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?" >&2; exit 1`,
			err:    engine.ErrNotRunning, names: "docker podman"},
		"not running, but the client prints output": {installed: "docker",
			script: `echo '{"ServerErrors":["Cannot connect to the Docker daemon at unix:///var/run/docker.sock."]}'; exit 1`,
			err:    engine.ErrNotRunning, names: "docker podman"},
		"not running, and the error follows the output of the client": {installed: "docker",
			script: `echo '{"ServerErrors":null}'; echo "Cannot connect to the Docker daemon" >&2; exit 1`,
			err:    engine.ErrNotRunning, names: "docker podman"},
		"not allowed": {installed: "docker",
			script: `echo "permission denied while trying to connect to the Docker daemon socket" >&2; exit 1`,
			err:    engine.ErrNotAllowed, names: "docker podman"},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.Fake(t, tc.installed, tc.script)
			got, err := engine.Find(t.Context(), tc.name)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !errors.Is(err, tc.err) || err != nil && !errors.Is(err, engine.ErrNoEngine) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			check.ContainsWords(t, fmt.Sprint(err), tc.names)
		})
	}
}

// TestRun checks that the error of a failed command contains the command line and the last lines of the output.
func TestRun(t *testing.T) {
	enginetest.Fake(t, "docker",
		`case "$1" in fail) echo first >&2; echo last >&2; exit 3;; *) echo " $* "; cat;; esac`)
	e := &engine.Engine{Command: engine.Docker}
	if got, err := e.Run(t.Context(), "a", "b"); err != nil || got != "a b" {
		t.Errorf("output %q, error %v", got, err)
	}
	if _, err := e.Run(t.Context(), "fail", "x"); err == nil || err.Error() != "docker fail x: exit status 3: last" {
		t.Errorf("error %v", err)
	}
	_, err := engine.Output(t.Context(), exec.CommandContext(t.Context(), "docker", "fail"), 5)
	if err == nil || err.Error() != "docker fail: exit status 3\nfirst\nlast" {
		t.Errorf("error with two lines: %v", err)
	}
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("enough"))
	if _, err := e.Run(ended, "a"); err == nil || err.Error() != "docker a: enough" {
		t.Errorf("error after the end of the context: %v", err)
	}
}

func TestLoad(t *testing.T) {
	e := &engine.Engine{Command: engine.Docker}
	got := filepath.Join(t.TempDir(), "got")
	enginetest.Fake(t, "docker", `[ "$*" = "load --quiet" ] && cat > `+got)
	err := e.Load(t.Context(), func(w io.Writer) error { _, err := io.WriteString(w, "archive"); return err })
	if text, _ := os.ReadFile(got); err != nil || string(text) != "archive" {
		t.Errorf("loaded %q, error %v", text, err)
	}
	broken := errors.New("broken layer")
	if err := e.Load(t.Context(), func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("Load with a failing write: %v", err)
	}
	enginetest.Fake(t, "docker", "echo no space left >&2; exit 1")
	endless := func(w io.Writer) error {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return err
			}
		}
	}
	if err := e.Load(t.Context(), endless); err == nil ||
		err.Error() != "docker load --quiet: exit status 1: no space left" {
		t.Errorf("Load with a failing engine: %v", err)
	}
}
