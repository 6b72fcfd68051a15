package nodeimage

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

func TestContainerdConfig(t *testing.T) {
	got, err := containerdConfig([]byte("a = 1\n  sandbox_image = \"old\"\n"), "pause:3")
	want := `a = 1
  sandbox_image = "pause:3"

[plugins."io.containerd.grpc.v1.cri".cni]
  conf_template = "/etc/cni/koupsandbox.conflist"
`
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("(-want +got):\n%s\nerror %v", diff, err)
	}
	if _, err := containerdConfig([]byte("a = 1\n"), "pause:3"); err == nil {
		t.Error("a configuration without a pause image was accepted")
	}
}

func TestContainerSpec(t *testing.T) {
	text, err := containerSpec(
		[]byte(`{"process":{"cwd":"/","rlimits":[{"type":"RLIMIT_NOFILE"}]},"root":{"path":"rootfs"}}`))
	check.Must(t, err)
	var got, want any
	check.Must(t, json.Unmarshal(text, &got))
	if err := json.Unmarshal([]byte(`{"process":{"cwd":"/"},"root":{"path":"rootfs"},
		"hooks":{"createContainer":[{"path":"/kind/bin/mount-product-files.sh"}]}}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPartIsBuiltOnceAndReplacesOlderVersion(t *testing.T) {
	var told []string
	b := &builder{Options: Options{Cache: t.TempDir(),
		Progress: func(what string, _ time.Duration) { told = append(told, what) }}}
	write := func(path string) error { return os.WriteFile(path, []byte(path), 0o600) }
	for _, name := range []string{"fs-1.tar", "other-1.tar", "fs-1.tar", "fs-2.tar"} {
		path, err := b.part("part "+name, name, write)
		check.Must(t, err)
		if text, err := os.ReadFile(path); err != nil || string(text) != path+".partial" {
			t.Errorf("%s holds %q (%v)", path, text, err)
		}
	}
	if diff := cmp.Diff([]string{"part fs-1.tar", "part other-1.tar", "part fs-2.tar"}, told); diff != "" {
		t.Errorf("what was made (-want +got):\n%s", diff)
	}
	left, err := filepath.Glob(filepath.Join(b.Cache, "*"))
	check.Must(t, err)
	if diff := cmp.Diff([]string{b.cached("fs-2.tar"), b.cached("other-1.tar")}, left); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// TestFiles checks that every file in the directory files is copied to the node or used by the build, and that no
// file is missing.
func TestFiles(t *testing.T) {
	entries, err := files.ReadDir("files")
	check.Must(t, err)
	known := map[string]bool{"customize.sh": true}
	for name := range ours {
		known[name] = true
	}
	for _, e := range entries {
		if !known[e.Name()] {
			t.Errorf("files/%s is not used", e.Name())
		}
		delete(known, e.Name())
	}
	for name := range known {
		t.Errorf("files/%s is missing", name)
	}
}

// TestRuncWithoutSysResource checks that the runc wrapper forwards all arguments, and that it removes
// CAP_SYS_RESOURCE from the file that the runc command reads.
func TestRuncWithoutSysResource(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("there is no bash to run the script with: %v", err)
	}
	dir := t.TempDir()
	text, err := fs.ReadFile(files, "files/runc-without-sys-resource")
	check.Must(t, err)
	const runc = "/usr/sbin/runc"
	script := filepath.Join(dir, "wrapper")
	text = []byte(strings.ReplaceAll(string(text), runc, filepath.Join(dir, "runc")))
	check.Must(t, os.WriteFile(script, text, 0o755))
	check.Must(t, os.WriteFile(filepath.Join(dir, "runc"), []byte("#!/bin/sh\necho \"$*\"\n"), 0o755))
	const before, after = `["CAP_CHOWN","CAP_SYS_RESOURCE","CAP_KILL"]["CAP_SYS_RESOURCE","CAP_KILL"]["CAP_KILL","CAP_SYS_RESOURCE"]`,
		`["CAP_CHOWN","CAP_KILL"]["CAP_KILL"]["CAP_KILL"]`
	bundle, process := filepath.Join(dir, "bundle"), filepath.Join(dir, "process.json")
	config := filepath.Join(bundle, "config.json")
	for _, tc := range []struct {
		args            []string
		config, process string
	}{
		{[]string{"--root", "/r", "create", "--bundle", bundle, "id"}, after, before},
		{[]string{"--root", "/r", "run", "--bundle=" + bundle, "id"}, after, before},
		{[]string{"exec", "--process", process, "id"}, before, after},
		{[]string{"delete", "--force", "id"}, before, before},
	} {
		check.Must(t, os.MkdirAll(bundle, 0o755))
		for _, path := range []string{config, process} {
			check.Must(t, os.WriteFile(path, []byte(before), 0o600))
		}
		out, err := exec.Command(bash, append([]string{script}, tc.args...)...).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != strings.Join(tc.args, " ") {
			t.Errorf("runc got %q (%v), want %q", out, err, tc.args)
		}
		for path, want := range map[string]string{config: tc.config, process: tc.process} {
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("%v: %s holds %s (%v), want %s", tc.args, filepath.Base(path), got, err, want)
			}
		}
	}
}
