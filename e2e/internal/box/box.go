// Package box drives a sandbox through its command line, as its user does.
package box

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// The names of binaries.
const (
	Program          = "koupsandbox"
	ControllerBinary = sandbox.ControllerBinary
)

// FindBinaries returns the directory of the binaries: $E2E_BIN, or bin in the repository at the path root.
func FindBinaries(root string) (string, error) {
	bin := os.Getenv("E2E_BIN")
	if bin == "" {
		var err error
		bin, err = filepath.Abs(filepath.Join(root, "bin"))
		if err != nil {
			return "", fmt.Errorf("finding the repository: %w", err)
		}
	}
	for _, name := range []string{Program, ControllerBinary, sandbox.ControlPlaneBinary} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return "", fmt.Errorf("the binary %s is not in %s; build it with: make build", name, bin)
		}
	}
	return bin, nil
}

// Box is a sandbox. Its methods may be called concurrently.
type Box struct {
	// Bin is the directory of the binaries.
	Bin string
	// Instead is a directory of binaries that replace those in Bin. Default: none.
	Instead string
	// Home is the directory of all sandboxes.
	Home string
	// Name of the sandbox.
	Name string
	// Provider of its Kubernetes API. Default: embedded.
	Provider v1alpha1.Provider
}

// Result is the output of a command and its exit status.
type Result struct {
	Out, Err string
	Status   int
}

// Command returns a command that runs koupsandbox, without the KOUPSANDBOX variables of the caller and without
// GITHUB_ACTIONS.
func (b *Box) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(b.Bin, Program), args...)
	cmd.Env = slices.DeleteFunc(cmd.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "KOUPSANDBOX_") || strings.HasPrefix(v, "GITHUB_ACTIONS=")
	})
	cmd.Env = append(cmd.Env, "KOUPSANDBOX_HOME="+b.Home, "KOUPSANDBOX_NAME="+b.Name)
	if b.Instead != "" {
		cmd.Env = append(cmd.Env, "KOUPSANDBOX_BIN="+b.Instead)
	}
	return cmd
}

// Run runs koupsandbox. It returns an error only if koupsandbox cannot be started; Result has its exit status.
func (b *Box) Run(ctx context.Context, args ...string) (Result, error) {
	cmd := b.Command(ctx, args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	runErr := cmd.Run()
	r := Result{Out: out.String(), Err: err.String(), Status: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if runErr != nil && !errors.As(runErr, &exit) {
		return r, fmt.Errorf("running koupsandbox %s: %w", strings.Join(args, " "), runErr)
	}
	return r, nil
}

// Must runs koupsandbox, and returns an error with the output if the exit status is not 0.
func (b *Box) Must(ctx context.Context, args ...string) error {
	r, err := b.Run(ctx, args...)
	if err == nil && r.Status != 0 {
		err = fmt.Errorf("koupsandbox %s exited with status %d:\n%s%s", strings.Join(args, " "), r.Status, r.Out, r.Err)
	}
	return err
}

// Up brings the sandbox up, and blocks until it is.
func (b *Box) Up(ctx context.Context, spec v1alpha1.Spec) error {
	file, err := b.WriteConfig(spec)
	if err != nil {
		return err
	}
	return b.Must(ctx, "up", "--config", file)
}

// WriteConfig writes a configuration file for the sandbox and returns its path.
func (b *Box) WriteConfig(spec v1alpha1.Spec) (string, error) {
	spec.Provider = cmp.Or(b.Provider, v1alpha1.ProviderEmbedded)
	config := v1alpha1.Sandbox{Metadata: v1alpha1.Metadata{Name: b.Name}, Spec: spec}
	config.APIVersion, config.Kind = v1alpha1.APIVersion, v1alpha1.Kind
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("writing the settings of sandbox %s: %w", b.Name, err)
	}
	file := filepath.Join(b.Home, b.Name+".yaml")
	return file, os.WriteFile(file, text, 0o600)
}

// downTime bounds Down.
const downTime = time.Minute

// Down takes the sandbox down if it is up, even if ctx has ended.
func (b *Box) Down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTime)
	defer cancel()
	return b.Must(ctx, "down")
}

// Folder returns the directory of the sandbox.
func (b *Box) Folder() string { return filepath.Join(b.Home, b.Name) }

// Log returns the path of a component's log.
func (b *Box) Log(component string) string {
	return filepath.Join(b.Folder(), "logs", component+".log")
}

// Open returns the Go API of a running sandbox. The caller closes it.
func (b *Box) Open(ctx context.Context) (*sandbox.Sandbox, error) {
	return sandbox.Open(ctx, b.Home, b.Name)
}

// REST returns the configuration of clients without client-side limits.
func (b *Box) REST() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.Folder(), "kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of sandbox %s: %w", b.Name, err)
	}
	config.QPS = -1
	return config, nil
}
