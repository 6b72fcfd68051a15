package kind

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kind/pkg/apis/config/defaults"
)

// A fake engine is a shell script of the engine's name, in a PATH of its own.
func fakeEngine(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{"sh", "cat", "sleep"} { // what the scripts need; no real engine may answer
		for _, bin := range []string{"/bin", "/usr/bin"} {
			if _, err := os.Stat(filepath.Join(bin, tool)); err == nil {
				if err := os.Symlink(filepath.Join(bin, tool), filepath.Join(dir, tool)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
	if name != "" {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

func TestFindEngine(t *testing.T) {
	const none = "no container engine: "
	for name, tc := range map[string]struct {
		engine, script string
		want           *Engine
		err            string
		name           string // that was asked for
	}{
		"docker": {engine: "docker",
			script: `echo '{"ServerVersion":"27.5.1","CgroupVersion":"2","Architecture":"aarch64","MemTotal":8000000000,"DockerRootDir":"/d"}'`,
			want:   &Engine{Command: "docker", Version: "27.5.1", Architecture: "arm64", Memory: 8e9, Root: "/d"}},
		"docker without root": {engine: "docker", script: `echo '{"ServerVersion":"27.5.1","CgroupVersion":"2","Architecture":"amd64",
			"MemoryLimit":true,"PidsLimit":true,"CPUShares":true,"SecurityOptions":["name=seccomp,profile=builtin","name=rootless"]}'`,
			want: &Engine{Command: "docker", Version: "27.5.1", Architecture: "amd64", Rootless: true, Controllers: true}},
		"podman": {engine: "podman", script: `echo '{"host":{"cgroupVersion":"v1","arch":"amd64","memTotal":1,"cgroupControllers":["cpu","memory"],
			"security":{"rootless":true}},"store":{"graphRoot":"/g"},"version":{"Version":"5.4.0"}}'`,
			want: &Engine{Command: "podman", Version: "5.4.0", Architecture: "amd64", CgroupV1: true, Memory: 1, Root: "/g", Rootless: true}},
		"neither": {err: none + "docker is not installed; podman is not installed"},
		"not the one that was asked for": {engine: "docker", script: `echo '{"ServerVersion":"27.5.1"}'`, name: "podman",
			err: none + "podman is not installed"},
		"one that we do not know": {engine: "docker", script: `echo '{"ServerVersion":"27.5.1"}'`, name: "nerdctl",
			err: none + `"nerdctl" is neither docker nor podman`},
		"not running": {engine: "docker", script: `echo "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?" >&2; exit 1`,
			err: none + "docker is installed, but does not run; podman is not installed"},
		"not running, but its client says something": {engine: "docker",
			script: `echo '{"ServerErrors":["Cannot connect to the Docker daemon at unix:///var/run/docker.sock."]}'; exit 1`,
			err:    none + "docker is installed, but does not run; podman is not installed"},
		"not allowed": {engine: "docker", script: `echo "permission denied while trying to connect to the Docker daemon socket" >&2; exit 1`,
			err: none + "docker runs, but you may not use it (add yourself to its group, or use its rootless mode); podman is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			fakeEngine(t, tc.engine, tc.script)
			got, err := FindEngine(t.Context(), tc.name)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tc.err == "" && err != nil || tc.err != "" && (!errors.Is(err, ErrNoEngine) || err.Error() != tc.err) {
				t.Errorf("error %v\n want %s", err, tc.err)
			}
		})
	}
}

func TestEngineThatDoesNotSuffice(t *testing.T) {
	small := &Engine{Command: "docker", Memory: 1e9}
	if err := small.suffices(t.Context()); err == nil || !strings.Contains(err.Error(), "docker has 1.0 GB of memory and a cluster of kind needs 2.1") {
		t.Errorf("error %v", err)
	}
	// The proc file system has no room at all.
	full := &Engine{Command: "docker", Memory: 8e9, Root: "/proc"}
	if err := full.suffices(t.Context()); err == nil || !strings.Contains(err.Error(), "the disk of docker (/proc) has 0.0 GB free") {
		t.Errorf("error %v", err)
	}
	elsewhere := &Engine{Command: "docker", Memory: 8e9, Root: filepath.Join(t.TempDir(), "of", "another", "machine")}
	if err := elsewhere.suffices(t.Context()); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestEngineWithoutRoot(t *testing.T) {
	for want, e := range map[string]*Engine{
		"podman runs without root and this machine has cgroups v1, where a cluster of kind cannot: run podman as root, or use --provider embedded": {
			Command: podman, Rootless: true, CgroupV1: true, Controllers: true},
		"podman runs without root and may not limit CPU, memory and processes: let systemd give it that with Delegate=yes " +
			"(https://kind.sigs.k8s.io/docs/user/rootless/), or use --provider embedded": {Command: podman, Rootless: true},
		"<nil>": {Command: podman, Rootless: true, Controllers: true},
	} {
		if got := fmt.Sprint(e.suffices(t.Context())); got != want {
			t.Errorf("%+v: %s\nwant %s", e, got, want)
		}
	}
}

// Podman finds its images by a short name too, and kind does not: it takes one without a host for an image of docker.io.
func TestChooseNamesImagesOfPodmanInFull(t *testing.T) {
	fakeEngine(t, "podman", `case "$1 $2" in
"image ls") echo v1.36.3;;
"image inspect") case "$5" in `+OwnImage+`:v1.36.3|elsewhere:1) echo amd64;; *) exit 1;; esac;;
"image exists") [ "$3" = localhost/`+OwnImage+`:v1.36.3 ];;
esac`)
	for given, want := range map[string]string{"": "localhost/" + OwnImage + ":v1.36.3", "elsewhere:1": "elsewhere:1"} {
		p := &Provider{o: Options{Image: given}, engine: &Engine{Command: podman, Architecture: "amd64"}, note: func(string) {}}
		if err := p.choose(t.Context()); err != nil || p.image != want {
			t.Errorf("of image %q: %q, error %v; want %q", given, p.image, err, want)
		}
	}
}

func TestAtHand(t *testing.T) {
	const docker = `case "$1" in
info) echo '{"ServerVersion":"27.5.1","CgroupVersion":"2","Architecture":"x86_64","MemTotal":%d}';;
image) case "$*" in *%s*) echo amd64;; *) exit 1;; esac;;
esac`
	for name, tc := range map[string]struct{ script, want string }{
		"an image": {fmt.Sprintf(docker, 8000000000, "kindest"), short(defaults.Image) + " <nil>"},
		"no image": {fmt.Sprintf(docker, 8000000000, "other"), " docker has no node image; with --provider kind it gets " + short(defaults.Image)},
		"too little memory": {fmt.Sprintf(docker, 1000000000, "kindest"),
			" docker has 1.0 GB of memory and a cluster of kind needs 2.1: give it more, or use --provider embedded"},
		"no engine": {"exit 1", " no container engine: docker cannot be used: docker info --format {{json .}}: exit status 1; podman is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			fakeEngine(t, "docker", tc.script)
			image, err := AtHand(t.Context(), "")
			if got := fmt.Sprint(image, " ", err); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
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

func TestChoose(t *testing.T) {
	def, _, _ := strings.Cut(defaults.Image, "@")
	// An engine with some images; it notes what it pulls, which only works for those called reachable.
	engine := func(images map[string]string, tags ...string) string {
		s := `case "$1 $2" in` + "\n" + `"image ls") ` + fmt.Sprintf("echo %q", strings.Join(tags, "\n")) + ";;\n"
		s += `"image inspect") case "$5" in` + "\n"
		for image, architecture := range images {
			s += fmt.Sprintf("%q) echo %s;;\n", image, architecture)
		}
		s += `*) echo "no such image" >&2; exit 1;; esac;;` + "\n"
		return s + `"pull --quiet") case "$3" in *reachable*) exit 0;; *) echo "no route to host" >&2; exit 1;; esac;;` + "\nesac\n"
	}
	for name, tc := range map[string]struct {
		options Options
		script  string
		image   string
		notes   []string
		err     string
	}{
		"kind's own is at hand": {Options{}, engine(map[string]string{defaults.Image: "amd64"}), defaults.Image, nil, ""},
		"only ours is, the newest of some": {Options{}, engine(map[string]string{OwnImage + ":v1.36.3": "amd64"}, "v1.9.0", "v1.36.3", "latest"),
			OwnImage + ":v1.36.3", []string{"the nodes are made of koupsandbox/node:v1.36.3, which is at hand; " + def + " is not"}, ""},
		"nothing is, and nothing can be had": {Options{}, engine(nil), "", []string{"downloading the node image " + def},
			"the node image cannot be had: docker pull --quiet " + defaults.Image + ": exit status 1: no route to host\n" +
				"name one that is at hand with --image, or build one without a registry: make node-image"},
		"the user's, downloaded": {Options{Image: "reachable:1"}, engine(nil), "reachable:1", []string{"downloading the node image reachable:1"}, ""},
		"the user's, for another architecture": {Options{Image: "a:1"}, engine(map[string]string{"a:1": "arm64"}), "", nil,
			"the node image a:1 is for arm64 and docker runs amd64: name another with --image"},
		"a version": {Options{Version: "1.36.3"}, engine(map[string]string{"kindest/node:v1.36.3": "amd64"}), "kindest/node:v1.36.3", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fakeEngine(t, "docker", tc.script)
			var notes []string
			p := &Provider{o: tc.options, engine: &Engine{Command: "docker", Architecture: "amd64"},
				note: func(text string) { notes = append(notes, text) }}
			err := p.choose(t.Context())
			if got := fmt.Sprint(err); tc.err == "" && err != nil || tc.err != "" && got != tc.err {
				t.Errorf("error %v\n want %s", err, tc.err)
			}
			if p.image != tc.image {
				t.Errorf("image %q, want %q", p.image, tc.image)
			}
			if diff := cmp.Diff(tc.notes, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}
