package kind

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine/enginetest"
)

func TestSaveAndLoad(t *testing.T) {
	enginetest.Fake(t, "docker", `case "$1 $2" in
info*) echo '{"ServerVersion":"27.5.1","Architecture":"x86_64"}';;
"image ls") echo v1.37.2;;
"image inspect") case "$5" in `+BuiltImage+`:v1.37.2) echo amd64;; *) exit 1;; esac;;
"save --output") echo "$4" >"$3";;
"load --input") printf 'Loaded image: '; cat "$3";;
esac
`)
	path := filepath.Join(t.TempDir(), "image.tar")
	image, err := SaveImage(t.Context(), "", path)
	if err != nil || image != BuiltImage+":v1.37.2" {
		t.Fatalf("SaveImage returned %q, %v", image, err)
	}
	images, err := LoadImages(t.Context(), "", path)
	check.Must(t, err)
	if diff := cmp.Diff([]string{BuiltImage + ":v1.37.2"}, images); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%d additional files (%v)", len(left)-1, err)
	}
}

// TestLoadImagesSavedByPodman checks that docker can load a file written by podman. Podman adds the prefix localhost/
// to the image names in the file. Docker would interpret this prefix as a registry.
func TestLoadImagesSavedByPodman(t *testing.T) {
	tagged := filepath.Join(t.TempDir(), "tagged")
	enginetest.Fake(t, "docker", `case "$1" in
info) echo '{"ServerVersion":"27.5.1","Architecture":"x86_64"}';;
load) echo "Loaded image: localhost/`+BuiltImage+`:v1.37.2";;
tag) echo "$2 $3" >`+tagged+`;;
esac
`)
	path := filepath.Join(t.TempDir(), "image.tar")
	check.Must(t, os.WriteFile(path, nil, 0o600))
	images, err := LoadImages(t.Context(), "", path)
	check.Must(t, err)
	if diff := cmp.Diff([]string{BuiltImage + ":v1.37.2"}, images); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(tagged)
	if want := "localhost/" + BuiltImage + ":v1.37.2 " + BuiltImage + ":v1.37.2\n"; string(text) != want {
		t.Errorf("tagged %q (%v), want %q", text, err, want)
	}
}

func TestSaveAndLoadFail(t *testing.T) {
	enginetest.Fake(t, "docker",
		`case "$1" in info) echo '{"ServerVersion":"27.5.1","Architecture":"x86_64"}';; *) exit 1;; esac`)
	path := filepath.Join(t.TempDir(), "image.tar")
	if _, err := SaveImage(t.Context(), "", path); err == nil ||
		!strings.HasPrefix(err.Error(), "no image to save: docker has no kind node image") {
		t.Errorf("SaveImage returned %v", err)
	}
	if _, err := LoadImages(t.Context(), "", path); err == nil ||
		!strings.HasPrefix(err.Error(), "file "+path+" does not exist") {
		t.Errorf("LoadImages returned %v", err)
	}
}
