package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/hack/internal/license"
)

// program is the name of what is released.
const program = "koupsandbox"

// semantic is a version that Homebrew and krew can read.
var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// release is one release, and what all its platforms have in common.
type release struct {
	version, commit string
	time            time.Time
	url             string // of the folder that the files will be in
	root            string // of the repository
	out             string // where the files go
	work            string // where programs are built, a folder for each platform
	cache           string // of modules
	built           []platform
	archives        []archive
}

// platform is a system and an architecture, as Go names them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// archive is one that has been written.
type archive struct {
	platform
	name, sum string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	var r release
	flags.StringVar(&r.version, "version", "", "`VERSION`, such as v1.2.3")
	flags.StringVar(&r.url, "url", "https://github.com/koupleless/koupsandbox/releases/download/VERSION", "`URL` of the folder that the files will be in")
	flags.StringVar(&r.root, "root", ".", "`FOLDER` of the repository")
	flags.StringVar(&r.out, "out", "dist/release", "`FOLDER` that the files go to; it is made anew")
	flags.StringVar(&r.work, "work", "dist/build", "`FOLDER` in which the programs are built")
	platforms := flags.String("platforms", "linux-amd64 linux-arm64 darwin-amd64 darwin-arm64", "`LIST` of systems")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !semantic.MatchString(r.version) {
		return fmt.Errorf("%q is no version that Homebrew and krew can read: give one such as VERSION=v1.2.3", r.version)
	}
	r.url = strings.ReplaceAll(r.url, "VERSION", r.version)
	if err := r.prepare(ctx); err != nil {
		return err
	}
	for _, name := range strings.Fields(*platforms) {
		p := platform{}
		p.os, p.arch, _ = strings.Cut(name, "-")
		fmt.Fprintf(os.Stderr, "== %s\n", p)
		if err := r.pack(ctx, p); err != nil {
			return fmt.Errorf("packing %s: %w", p, err)
		}
	}
	return errors.Join(r.describe(), r.checksums())
}

// prepare finds out what is released, and makes the folders.
func (r *release) prepare(ctx context.Context) (err error) {
	for _, folder := range []*string{&r.root, &r.out, &r.work} {
		if *folder, err = filepath.Abs(*folder); err != nil {
			return err
		}
	}
	if r.cache, err = license.Cache(ctx); err != nil {
		return err
	}
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", r.root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	r.commit, err = git("rev-parse", "HEAD")
	if err == nil && seconds == "" {
		seconds, err = git("log", "-1", "--format=%ct")
	}
	if err != nil {
		return fmt.Errorf("asking git for the commit, whose time and name the release bears: %w", err)
	}
	if changed, err := git("status", "--porcelain"); err != nil || changed != "" {
		r.commit += "-dirty"
		fmt.Fprintln(os.Stderr, "release: there are changes that are in no commit, so nobody can build the same again")
	}
	since, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is not a number of seconds: %w", err)
	}
	r.time = time.Unix(since, 0).UTC()
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	return os.MkdirAll(r.out, 0o755)
}

// goVersion is that of the Go which builds the release.
func goVersion() string {
	info, _ := debug.ReadBuildInfo()
	return info.GoVersion
}
