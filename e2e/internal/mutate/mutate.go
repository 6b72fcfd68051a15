// Package mutate builds the controller with a deliberate defect, to test whether a scenario or the fuzzer detects it. A
// mutation replaces text of the controller's sources for one build, by go build -overlay. The sources are not changed.
package mutate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Mutation is a defect that is added to the controller to test the tests.
type Mutation struct {
	Name string
	// What describes the defect.
	What string
	// Rare is the reason why the fuzzer cannot find the defect within 120 schedules; empty if it can. A scenario
	// finds a rare defect instead.
	Rare string
	// Edits are applied in order.
	Edits []Edit
}

// Edit replaces Old with New in File. Old must occur exactly once. File is relative to the root of the repository.
type Edit struct{ File, Old, New string }

// Named returns the mutation with the given name.
func Named(name string) (Mutation, error) {
	i := slices.IndexFunc(All, func(m Mutation) bool { return m.Name == name })
	if i < 0 {
		return Mutation{}, fmt.Errorf("unknown mutation %q", name)
	}
	return All[i], nil
}

// Build builds the controller with the mutation. root is the path of the repository, and file is the path of the
// binary to create.
func (m Mutation) Build(ctx context.Context, root, file string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	file, err = filepath.Abs(file)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.writeOverlay(root, dir)
	if err != nil {
		return fmt.Errorf("mutation %s: %w", m.Name, err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-overlay", overlay, "-o", file,
		"./controller/cmd/module-controller")
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the controller with mutation %s: %w\n%s", m.Name, err, out)
	}
	return nil
}

// writeOverlay writes the changed source files and an overlay file for go build to dir, and returns the path of the
// overlay file.
func (m Mutation) writeOverlay(root, dir string) (string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, e := range m.Edits {
		original := filepath.Join(root, e.File)
		changed, again := overlay.Replace[original]
		if !again {
			changed = filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay.Replace)))
			overlay.Replace[original] = changed
		}
		from := original
		if again {
			from = changed
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), e.Old); n != 1 {
			return "", fmt.Errorf("%s contains this text %d times, want once; update the mutation:\n%s", e.File, n,
				e.Old)
		}
		if err := os.WriteFile(changed, []byte(strings.Replace(string(text), e.Old, e.New, 1)), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}
