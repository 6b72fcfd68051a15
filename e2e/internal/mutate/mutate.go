package mutate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Mutation is one way to break the controller.
type Mutation struct {
	Name string
	// What is broken, for people.
	What string
	// Rare is why the fuzzer does not find it within a minute. A scenario does.
	Rare string
	// Edits break it. They come one after the other.
	Edits []Edit
}

// Edit puts New in the place of Old, which is in File once. File is a path from the root of the
// repository, with slashes.
type Edit struct{ File, Old, New string }

// Named returns the mutation of that name.
func Named(name string) (Mutation, error) {
	i := slices.IndexFunc(All, func(m Mutation) bool { return m.Name == name })
	if i < 0 {
		return Mutation{}, fmt.Errorf("there is no mutation %q", name)
	}
	return All[i], nil
}

// Apply returns the text of the files that the mutation changes, by their paths from the root of the
// repository, which is at root. It writes nothing.
func (m Mutation) Apply(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range m.Edits {
		text, changed := files[e.File]
		if !changed {
			read, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, fmt.Errorf("mutation %s: %w", m.Name, err)
			}
			text = string(read)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("mutation %s has to follow the code: %s has %d times, and not once:\n%s", m.Name, e.File, n, e.Old)
		}
		files[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return files, nil
}

// Build builds the controller with the mutation. The repository is at root, and the program is
// written to file.
func (m Mutation) Build(ctx context.Context, root, file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("finding the folder of the controller: %w", err)
	}
	return m.build(ctx, root, "-o", file, "./controller/cmd/module-controller")
}

// Compile compiles the packages that the mutation changes, and writes nothing.
func (m Mutation) Compile(ctx context.Context, root string) error {
	arguments := []string{"-o", os.DevNull}
	for _, e := range m.Edits {
		if changed := "./" + path.Dir(e.File); !slices.Contains(arguments, changed) {
			arguments = append(arguments, changed)
		}
	}
	return m.build(ctx, root, arguments...)
}

// build is go build with the mutation.
func (m Mutation) build(ctx context.Context, root string, arguments ...string) (err error) {
	fail := func(err error) error { return fmt.Errorf("building the controller with mutation %s: %w", m.Name, err) }
	if root, err = filepath.Abs(root); err != nil {
		return fail(err)
	}
	files, err := m.Apply(root)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // a folder for temporary files
	overlay, err := writeOverlay(folder, root, files)
	if err != nil {
		return fail(err)
	}
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-overlay", overlay}, arguments...)...)
	build.Dir = root
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("%w\n%s", err, out))
	}
	return nil
}

// writeOverlay writes files to a folder, and beside them what go build -overlay reads. It returns
// the path of that.
func writeOverlay(folder, root string, files map[string]string) (string, error) {
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for name, text := range files {
		file := filepath.Join(folder, fmt.Sprintf("%d.go", len(overlay.Replace)))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, filepath.FromSlash(name))] = file
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(folder, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}
