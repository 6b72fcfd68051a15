package box

import (
	"bytes"
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

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// repository returns the path of the repository, relative to the working directory.
func repository() string {
	root := "."
	for _, err := os.Stat("go.mod"); err != nil && len(root) < 20; _, err = os.Stat(filepath.Join(root, "go.mod")) {
		root = filepath.Join(root, "..")
	}
	return root
}

// New returns a sandbox that is not running. It has a new home directory, which Remove deletes, and a unique name
// that begins with kind.
func New(kind string) (*Box, error) {
	bin, err := FindBinaries(repository())
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "koup-e2e-") // the path of a socket must be short
	if err != nil {
		return nil, fmt.Errorf("creating a state directory: %w", err)
	}
	return &Box{Bin: bin, Home: home, Name: envconf.RandomName(kind, len(kind)+6)}, nil
}

// Remove stops the sandbox and deletes its home directory. It returns an error if a log contains a data race;
// binaries must be built with the race detector to report data races.
func (b *Box) Remove(ctx context.Context) error {
	return errors.Join(b.races(), b.Down(ctx), os.RemoveAll(b.Home))
}

// races returns an error if a log of the sandbox reports a data race.
func (b *Box) races() error {
	logs, err := filepath.Glob(b.Log("*"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return fmt.Errorf("reading a log to check for data races: %w", err)
		}
		if _, report, found := bytes.Cut(text, []byte("WARNING: DATA RACE")); found {
			return fmt.Errorf("%s has a data race:\n%s", filepath.Base(log), report[:min(len(report), 4<<10)])
		}
	}
	return nil
}

// SaveLogs copies the logs of the sandbox to e2e/artifacts/NAME, and prints the path of this directory.
func (b *Box) SaveLogs(name string) {
	folder, err := check.Artifacts(filepath.Join(repository(), "e2e"), name)
	if err == nil {
		err = os.CopyFS(folder, os.DirFS(filepath.Dir(b.Log(""))))
	}
	fmt.Fprintf(os.Stderr, "logs of sandbox %s: %s (error: %v)\n", b.Name, folder, err)
}

// Env is the test environment in which Main runs the tests of a package.
var Env = env.NewWithConfig(envconf.New().WithFailFast())

// Main runs the tests of a package that share one sandbox, and returns the exit status. setUp starts the sandbox. At
// most parallel tests run concurrently; 0 means Go's default. If a test fails, Main saves the logs of the sandbox.
// Main then calls the functions in checks, and finally removes the sandbox. If one of the functions returns an error,
// the exit status is 1.
func Main(m *testing.M, kind string, parallel int, setUp func(context.Context, *Box) error,
	checks ...func() error) (code int) {
	flag.Parse()
	if parallel > 0 {
		if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
			panic(err) // package testing has this flag
		}
	}
	b, err := New(kind)
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e/%s: %v\n", kind, err)
		return 1
	}
	Env.Setup(func(ctx context.Context, _ *envconf.Config) (context.Context, error) { return ctx, setUp(ctx, b) })
	code = Env.Run(m)
	if code != 0 {
		b.SaveLogs(kind)
	}
	for _, check := range checks {
		err = errors.Join(err, check())
	}
	if err := errors.Join(err, b.Remove(context.Background())); err != nil {
		fmt.Fprintf(os.Stderr, "e2e/%s: %v\n", kind, err)
		return 1
	}
	return code
}

// Client returns a client of the sandbox's Kubernetes API, without client-side rate limits.
func (b *Box) Client() (kubernetes.Interface, error) {
	config, err := b.REST()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// Heartbeats returns the URL to which bases send heartbeats to the sandbox's controller over HTTP.
func (b *Box) Heartbeats() (string, error) {
	addr, err := FindLogWord(b.Log(ControllerBinary), `msg="receiving heartbeats over HTTP" addr=`)
	if err != nil {
		return "", err
	}
	token, err := os.ReadFile(filepath.Join(b.Dir(), "heartbeat.token"))
	if err != nil {
		return "", fmt.Errorf("reading the heartbeat token: %w", err)
	}
	return "http://" + addr + "/" + string(token), nil
}

// FindLogWord returns the word that follows the last occurrence of text in a log file. It returns an error if the file
// does not contain text.
func FindLogWord(file, text string) (word string, err error) {
	log, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("searching for %q: %w", text, err)
	}
	for line := range strings.Lines(string(log)) {
		if _, after, found := strings.Cut(line, text); found && strings.HasSuffix(after, "\n") {
			word, _, _ = strings.Cut(strings.TrimSpace(after), " ")
		}
	}
	if word == "" {
		return "", fmt.Errorf("%s does not contain %q", file, text)
	}
	return word, nil
}
