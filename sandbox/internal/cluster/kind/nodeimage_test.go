package kind

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kind/pkg/apis/config/defaults"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine/enginetest"
)

// Podman finds its images by a short name too, and kind does not: it takes one without a host for
// an image of docker.io.
func TestChooseNamesImagesOfPodmanInFull(t *testing.T) {
	enginetest.Fake(t, "podman", `case "$1 $2" in
"image ls") echo v1.36.3;;
"image inspect") case "$5" in `+OwnImage+`:v1.36.3|elsewhere:1) echo amd64;; *) exit 1;; esac;;
"image exists") [ "$3" = localhost/`+OwnImage+`:v1.36.3 ];;
esac`)
	for given, want := range map[string]string{"": "localhost/" + OwnImage + ":v1.36.3", "elsewhere:1": "elsewhere:1"} {
		p := &Provider{o: Options{Image: given, Note: func(string) {}}, engine: &engine.Engine{Command: engine.Podman, Architecture: "amd64"}}
		if err := p.chooseImage(t.Context()); err != nil || p.image != want {
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
			enginetest.Fake(t, "docker", tc.script)
			image, err := AtHand(t.Context(), "")
			if got := fmt.Sprint(image, " ", err); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	def, _, _ := strings.Cut(defaults.Image, "@")
	// An engine with some images; it notes what it pulls, which only works for those called
	// reachable.
	have := func(images map[string]string, tags ...string) string {
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
		"kind's own is at hand": {Options{}, have(map[string]string{defaults.Image: "amd64"}), defaults.Image, nil, ""},
		"only ours is, the newest of some": {Options{}, have(map[string]string{OwnImage + ":v1.36.3": "amd64"}, "v1.9.0", "v1.36.3", "latest"),
			OwnImage + ":v1.36.3", []string{"the nodes are made of koupsandbox/node:v1.36.3, which is at hand; " + def + " is not"}, ""},
		"nothing is, and nothing can be had": {Options{}, have(nil), "", []string{"downloading the node image " + def},
			"the node image cannot be had: docker pull --quiet " + defaults.Image + ": exit status 1: no route to host\n" +
				"name one that is at hand with --image, or build one without a registry: make node-image"},
		"the user's, downloaded": {Options{Image: "reachable:1"}, have(nil), "reachable:1", []string{"downloading the node image reachable:1"}, ""},
		"the user's, for another architecture": {Options{Image: "a:1"}, have(map[string]string{"a:1": "arm64"}), "", nil,
			"the node image a:1 is for arm64 and docker runs amd64: name another with --image"},
		"a version": {Options{Version: "1.36.3"}, have(map[string]string{"kindest/node:v1.36.3": "amd64"}), "kindest/node:v1.36.3", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.Fake(t, "docker", tc.script)
			var notes []string
			tc.options.Note = func(text string) { notes = append(notes, text) }
			p := &Provider{o: tc.options, engine: &engine.Engine{Command: "docker", Architecture: "amd64"}}
			err := p.chooseImage(t.Context())
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
