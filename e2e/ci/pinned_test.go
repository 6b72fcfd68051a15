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
	// imageReference matches the name of an image in YAML, in a Dockerfile, or in a command of a container engine.
	imageReference = regexp.MustCompile(
		`(?m)^\s*(?:- )?(?:image|container): *["']?([^\s"'#}]+)|\bFROM ([a-z][\w./:@-]*)|\b(?:docker|podman|crane|skopeo) pull (?:-\S+ )*([a-z][\w./:@-]*)`)
	byDigest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	// unpinnedImage matches images that need no digest because this repository builds them. It also matches the URLs of
	// module jars and template expressions.
	unpinnedImage = regexp.MustCompile(
		`^(?:module-controller|koupsandbox|(?:localhost/)?koupsandbox/[a-z-]+):[\w.-]+$|^scratch$|^https?://|^\$\{\{`)
	// uses matches the reference to a GitHub action and the comment after the reference.
	uses   = regexp.MustCompile(`(?m)^\s*(?:- )?uses: *(\S+)(.*)$`)
	pinned = regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
)

// TestImagesAndActionsArePinned checks that all files pin external images by digest, and external actions by commit
// with the release in a comment. Tags are not sufficient, because they can be moved.
func TestImagesAndActionsArePinned(t *testing.T) {
	images, actions := 0, map[string]string{}
	must(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist", "docs", "node_modules", "artifacts", "testdata"},
				entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".yml", ".yaml", ".sh", ".go", ""}, filepath.Ext(path)) ||
			strings.HasSuffix(path, "pinned_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "image:") && !strings.Contains(line, "container:") &&
				!strings.Contains(line, "FROM ") && !strings.Contains(line, " pull ") {
				continue // the regular expression is slow
			}
			for _, m := range imageReference.FindAllStringSubmatch(line, -1) {
				images++
				if image := m[1] + m[2] + m[3]; !byDigest.MatchString(image) && !unpinnedImage.MatchString(image) {
					t.Errorf("%s: image %s has no digest; add the digest, or build the image", path, image)
				}
			}
		}
		if !strings.HasSuffix(path, ".yml") {
			return nil
		}
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			used := m[1] + strings.TrimRight(m[2], "\r")
			if m[1] == "./" || strings.HasPrefix(m[1], "koupleless/koupsandbox@") {
				continue
			}
			name, _, _ := strings.Cut(used, "@")
			if other := actions[name]; !pinned.MatchString(used) || other != "" && other != used {
				t.Errorf("%s: action %s must have a commit, the release in a comment, and the same version as in "+
					"other files (%s)",
					path, used, other)
			}
			actions[name] = used
		}
		return nil
	}))
	if images < 2 || len(actions) < 5 {
		t.Errorf("found %d images and %d actions, want at least 2 and 5", images, len(actions))
	}
	if !byDigest.MatchString(defaults.Image) {
		t.Errorf("the default node image of kind, %s, has no digest", defaults.Image)
	}
}
