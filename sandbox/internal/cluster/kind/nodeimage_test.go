package kind

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine/enginetest"
)

// TestChooseImageUsesFullNamesForPodman checks that chooseImage returns full image names for podman, because kind
// would look for short names on docker.io.
func TestChooseImageUsesFullNamesForPodman(t *testing.T) {
	enginetest.Fake(t, "podman", `case "$1 $2" in
"image ls") echo v1.37.2;;
"image inspect") case "$5" in `+BuiltImage+`:v1.37.2|elsewhere:1) echo amd64;; *) exit 1;; esac;;
"image exists") [ "$3" = localhost/`+BuiltImage+`:v1.37.2 ];;
esac`)
	for given, want := range map[string]string{"": "localhost/" + BuiltImage + ":v1.37.2",
		"elsewhere:1": "elsewhere:1"} {
		p := &Provider{o: Options{Image: given, Notify: func(string) {}},
			engine: &engine.Engine{Command: engine.Podman, Architecture: "amd64"}}
		if err := p.chooseImage(t.Context()); err != nil || p.image != want {
			t.Errorf("image %q: %q, error %v; want %q", given, p.image, err, want)
		}
	}
}

func TestLocalImage(t *testing.T) {
	const docker = `case "$1" in
info) echo '{"ServerVersion":"27.5.1","CgroupVersion":"2","Architecture":"x86_64","MemTotal":%d}';;
image) case "$*" in *%s*) echo amd64;; *) exit 1;; esac;;
esac`
	for name, tc := range map[string]struct{ script, want string }{
		"an image": {fmt.Sprintf(docker, 8000000000, "kindest"), shortName(defaults.Image) + " <nil>"},
		"no image": {fmt.Sprintf(docker, 8000000000, "other"), "docker " + shortName(defaults.Image)},
		"too little memory": {fmt.Sprintf(docker, 1000000000, "kindest"),
			"docker 1.0 GB 2.1 --provider embedded"},
		"no engine": {"exit 1", "docker info --format {{json .}}: exit status 1; podman"},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.Fake(t, "docker", tc.script)
			image, err := LocalImage(t.Context(), "")
			check.ContainsWords(t, fmt.Sprint(image, " ", err), tc.want)
		})
	}
}

func TestChooseImage(t *testing.T) {
	def, _, _ := strings.Cut(defaults.Image, "@")
	// have returns the script of an engine with some images. It can pull only images whose names contain "reachable".
	have := func(images map[string]string, tags ...string) string {
		s := `case "$1 $2" in` + "\n" + `"image ls") ` + fmt.Sprintf("echo %q", strings.Join(tags, "\n")) + ";;\n"
		s += `"image inspect") case "$5" in` + "\n"
		for image, architecture := range images {
			s += fmt.Sprintf("%q) echo %s;;\n", image, architecture)
		}
		s += `*) echo "no such image" >&2; exit 1;; esac;;` + "\n"
		return s + `"pull --quiet") case "$3" in *reachable*) exit 0;; *) echo "no route to host" >&2; exit 1;; esac;;` +
			"\nesac\n"
	}
	for name, tc := range map[string]struct {
		options Options
		script  string
		image   string
		notes   []string
		err     string
	}{
		"default image is present": {Options{}, have(map[string]string{defaults.Image: "amd64"}), defaults.Image, nil,
			""},
		"only built images are present": {Options{},
			have(map[string]string{BuiltImage + ":v1.37.2": "amd64"}, "v1.9.0", "v1.37.2", "latest"),
			BuiltImage + ":v1.37.2", []string{"koupsandbox/node:v1.37.2"}, ""},
		"no image, registry unavailable": {Options{}, have(nil), "", []string{def},
			"docker pull --quiet " + defaults.Image + ": exit status 1: no route to host\n"},
		"configured image is pulled": {Options{Image: "reachable:1"}, have(nil), "reachable:1", []string{"reachable:1"},
			""},
		"configured image for another architecture": {Options{Image: "a:1"}, have(map[string]string{"a:1": "arm64"}),
			"",
			nil,
			"arm64"},
		"configured version": {Options{Version: "1.37.2"}, have(map[string]string{"kindest/node:v1.37.2": "amd64"}),
			"kindest/node:v1.37.2", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.Fake(t, "docker", tc.script)
			var notes []string
			tc.options.Notify = func(text string) { notes = append(notes, text) }
			p := &Provider{o: tc.options, engine: &engine.Engine{Command: "docker", Architecture: "amd64"}}
			err := p.chooseImage(t.Context())
			if got := fmt.Sprint(err); tc.err == "" && err != nil || tc.err != "" && !strings.Contains(got, tc.err) {
				t.Errorf("error %v\n want %s", err, tc.err)
			}
			if p.image != tc.image {
				t.Errorf("image %q, want %q", p.image, tc.image)
			}
			if !slices.EqualFunc(tc.notes, notes,
				func(name, note string) bool { return strings.Contains(note, name) }) {
				t.Errorf("notes %q do not contain %q", notes, tc.notes)
			}
		})
	}
}
