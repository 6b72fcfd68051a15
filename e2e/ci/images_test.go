package ci

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"
)

var (
	// named is where a file names an image: in YAML, in a Dockerfile, for a command of an engine.
	named    = regexp.MustCompile(`(?m)^\s*(?:- )?(?:image|container): *["']?([^\s"'#}]+)|\bFROM ([a-z][\w./:@-]*)|\b(?:docker|podman|crane|skopeo) pull (?:-\S+ )*([a-z][\w./:@-]*)`)
	byDigest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	// ours are images that this repository builds, with the tags that its user chooses.
	ours = regexp.MustCompile(`^(?:module-controller|koupsandbox|(?:localhost/)?koupsandbox/[a-z-]+):[\w.-]+$|^scratch$`)
	// jars are what Pods of modules have for an image; a template may stand for one.
	jars = regexp.MustCompile(`^https?://|^\$\{\{`)
)

// mayName leaves of a text the lines that may name an image: to look for more in all others takes long.
func mayName(text []byte) string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "image:") || strings.Contains(line, "container:") || strings.Contains(line, "FROM ") || strings.Contains(line, " pull ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// Images of others are named by their digests: a tag may be another one tomorrow.
func TestImagesArePinned(t *testing.T) {
	looked, images := 0, 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist", "node_modules", "artifacts", "testdata"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".yml", ".yaml", ".sh", ".md", ".go", ""}, filepath.Ext(path)) || strings.HasSuffix(path, "images_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		looked++
		for _, m := range named.FindAllStringSubmatch(mayName(text), -1) {
			image := m[1] + m[2] + m[3]
			if jars.MatchString(image) {
				continue
			}
			images++
			if !byDigest.MatchString(image) && !ours.MatchString(image) {
				t.Errorf("%s names the image %s: name it by its digest, or build it", path, image)
			}
		}
		return nil
	})
	must(t, err)
	if images < 2 || looked < 500 {
		t.Errorf("only %d images in %d files were looked at", images, looked)
	}
	if !byDigest.MatchString(defaults.Image) {
		t.Errorf("nodes of kind are made of %s, which is no digest", defaults.Image)
	}
}
