package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// programs are those of a sandbox.
var programs = []string{program, "koup-controlplane", "module-controller", "fakebase"}

// pack builds the programs of a platform and writes their archive.
func (r *release) pack(ctx context.Context, p platform) error {
	bin, err := r.build(ctx, p)
	if err != nil {
		return err
	}
	made, err := r.made(bin)
	if err != nil {
		return err
	}
	texts, err := made.texts(ctx)
	if err != nil {
		return err
	}
	top := fmt.Sprintf("%s_%s_%s", program, r.version, p)
	files := []file{{name: "THIRD-PARTY-LICENSES", text: texts}}
	for _, name := range programs {
		files = append(files, file{name: name, path: filepath.Join(bin, name), mode: 0o755})
	}
	for _, name := range []string{"LICENSE", "CHANGELOG.md"} {
		files = append(files, file{name: name, path: filepath.Join(r.root, name)})
	}
	spoken, err := r.spoken(ctx)
	if err != nil {
		return err
	}
	a := archive{platform: p, name: top + ".tar.gz"}
	if a.sum, err = writeArchive(filepath.Join(r.out, a.name), top, r.time, append(files, spoken...)); err != nil {
		return err
	}
	r.archives = append(r.archives, a)
	return r.writeBOM(made, a)
}

// build builds the programs, unless this release has done so, and returns their folder. They are built as
// everybody else builds them.
func (r *release) build(ctx context.Context, p platform) (string, error) {
	bin := filepath.Join(r.work, p.String())
	if slices.Contains(r.built, p) {
		return bin, nil
	}
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "-C", r.root, "build", "BIN="+bin, "VERSION="+r.version, "COMMIT="+r.commit)
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building for %s: %w", p, err)
	}
	r.built = append(r.built, p)
	return bin, nil
}

// spoken are the files that the programs themselves write, as those of this machine say them.
func (r *release) spoken(ctx context.Context) ([]file, error) {
	bin, err := r.build(ctx, platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	var files []file
	for name, args := range map[string][]string{
		"completions/koupsandbox.bash": {"completion", "bash"},
		"completions/_koupsandbox":     {"completion", "zsh"},
		"completions/koupsandbox.fish": {"completion", "fish"},
		"man/man1/koupsandbox.1":       {"man"},
	} {
		text, err := say(ctx, filepath.Join(bin, program), args...)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, text: text})
	}
	for name, about := range map[string]string{
		"koup-controlplane": "the Kubernetes control plane of a sandbox",
		"module-controller": "show the bases of Koupleless to Kubernetes as Nodes, and their modules as Pods",
		"fakebase":          "simulate Koupleless bases",
	} {
		help, err := say(ctx, filepath.Join(bin, name), "--help")
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "man/man1/" + name + ".1", text: page(name, about, string(help))})
	}
	return files, nil
}

// say runs a program, and returns what it prints.
func say(ctx context.Context, path string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"HOME=/"} // the texts name no folder of this machine
	var problem bytes.Buffer
	cmd.Stderr = &problem
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, problem.String())
	}
	return text, nil
}
