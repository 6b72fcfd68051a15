package box

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
)

// New returns a sandbox with a home of its own, which Remove deletes, and a name that begins with kind.
func New(kind string) (*Box, error) {
	root := "."
	for depth := 0; depth < 5; depth++ {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		root = filepath.Join(root, "..")
	}
	programs, err := FindPrograms(root)
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "koup-e2e-") // the path of a socket must be short
	if err != nil {
		return nil, fmt.Errorf("making a home for sandboxes: %w", err)
	}
	return &Box{Bin: programs, Home: home, Name: envconf.RandomName(kind, len(kind)+6)}, nil
}

// Remove takes the sandbox down and deletes its home.
func (b *Box) Remove(ctx context.Context) error {
	return errors.Join(b.Down(ctx), os.RemoveAll(b.Home))
}

// Env is the environment of the tests of a package. Main runs it.
var Env = env.NewWithConfig(envconf.New().WithFailFast())

// Main runs the tests of a package that share one sandbox, and returns their exit status. The function setUp brings
// the sandbox up; Main removes it, even if setUp fails. At most parallel tests run in parallel; 0 is Go's default.
// The run fails if a function of after, called while the sandbox is still up, returns an error.
func Main(m *testing.M, kind string, parallel int, setUp func(context.Context, *Box) error, after ...func() error) (code int) {
	flag.Parse()
	if parallel > 0 {
		if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
			panic(err) // package testing has this flag
		}
	}
	var b *Box
	Env.Setup(func(ctx context.Context, _ *envconf.Config) (context.Context, error) {
		var err error
		if b, err = New(kind); err == nil {
			err = setUp(ctx, b)
		}
		return ctx, err
	})
	var failed error // e2e-framework only logs the errors of Finish
	Env.Finish(func(ctx context.Context, _ *envconf.Config) (context.Context, error) {
		if b == nil {
			return ctx, nil
		}
		for _, check := range after {
			failed = errors.Join(failed, check())
		}
		failed = errors.Join(failed, b.Remove(ctx))
		return ctx, nil
	})
	code = Env.Run(m)
	if failed != nil {
		fmt.Fprintf(os.Stderr, "e2e/%s: %v\n", kind, failed)
		return 1
	}
	return code
}

// Client returns a client of the sandbox's Kubernetes API, without client-side limits.
func (b *Box) Client() (kubernetes.Interface, error) {
	config, err := b.REST()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// Heartbeats returns the URL at which the sandbox's controller receives heartbeats over HTTP.
func (b *Box) Heartbeats() (string, error) {
	addr, err := Logged(b.Log(ControllerProgram), `msg="receiving heartbeats over HTTP" addr=`)
	if err != nil {
		return "", err
	}
	token, err := os.ReadFile(filepath.Join(b.Folder(), "heartbeat.token"))
	if err != nil {
		return "", fmt.Errorf("reading the token of heartbeats: %w", err)
	}
	return "http://" + addr + "/" + string(token), nil
}

// Logged returns the word after the last occurrence of a text in a log file.
func Logged(file, text string) (word string, err error) {
	log, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("looking for %q: %w", text, err)
	}
	for line := range strings.Lines(string(log)) {
		if _, after, found := strings.Cut(line, text); found && strings.HasSuffix(after, "\n") {
			word, _, _ = strings.Cut(strings.TrimSpace(after), " ")
		}
	}
	if word == "" {
		return "", fmt.Errorf("%s does not have %q", file, text)
	}
	return word, nil
}
