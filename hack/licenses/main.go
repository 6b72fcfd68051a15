// Command licenses writes modules.txt: every module that our programs are made of, on any system that
// they are released for, with its license. It fails on a license that is not known or not allowed. Run it
// with make generate; make verify finds a list that is out of date.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"github.com/koupleless/koupsandbox/hack/internal/license"
)

//go:generate go run -trimpath .

// root is the repository, seen from this folder, in which go generate runs.
const root = "../.."

// programs are the packages of the programs, by the Go module that they are in.
var programs = map[string][]string{
	"sandbox/controlplane": {"."},
	".":                    {"./sandbox/cmd/koupsandbox", "./controller/cmd/module-controller", "./fakebase/cmd/fakebase"},
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	linked := map[module.Version]bool{}
	for folder, packages := range programs {
		for _, platform := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"} {
			if err := list(ctx, folder, platform, packages, linked); err != nil {
				return err
			}
		}
	}
	cache, err := license.Cache(ctx)
	if err != nil {
		return err
	}
	var lines []string // without versions: the list changes when a module comes or goes, or its license does
	var refused []error
	for m := range linked {
		l, err := license.Of(cache, m)
		refused = append(refused, err)
		lines = append(lines, fmt.Sprintf("%s %s\n", m.Path, l.Expression()))
	}
	if err := errors.Join(refused...); err != nil {
		return err
	}
	slices.Sort(lines)
	return os.WriteFile("modules.txt", []byte(strings.Join(slices.Compact(lines), "")), 0o600)
}

// list adds the modules of packages as they are compiled for a platform.
func list(ctx context.Context, folder, platform string, packages []string, into map[module.Version]bool) error {
	goos, goarch, _ := strings.Cut(platform, "/")
	const format = "{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}} {{.Version}}{{else}}{{.Path}} {{.Version}}{{end}}{{end}}{{end}}"
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-f", format}, packages...)...)
	cmd.Dir, cmd.Stderr = filepath.Join(root, folder), os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("listing what %s is made of: %w", folder, err)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 2 {
			into[module.Version{Path: fields[0], Version: fields[1]}] = true
		}
	}
	return nil
}
