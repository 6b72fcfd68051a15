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

// Names of the binaries in Box.Bin.
const (
	Binary           = "koupsandbox"
	ControllerBinary = sandbox.ControllerBinary
)

// FindBinaries returns the directory of the binaries: $E2E_BIN if set, otherwise the directory bin in the repository
// at root.
func FindBinaries(root string) (string, error) {
	bin := os.Getenv("E2E_BIN")
	if bin == "" {
		var err error
		bin, err = filepath.Abs(filepath.Join(root, "bin"))
		if err != nil {
			return "", fmt.Errorf("finding the repository: %w", err)
		}
	}
	for _, name := range []string{Binary, ControllerBinary, sandbox.ControlPlaneBinary} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return "", fmt.Errorf("binary %s is not in %s; build it with: make build", name, bin)
		}
	}
	return bin, nil
}

// Box is a sandbox. Its methods may be called concurrently.
type Box struct {
	// Bin is the directory of the binaries.
	Bin string
	// Instead is an optional directory with binaries that replace binaries of the same name in Bin.
	Instead string
	// Home is the directory that contains the state of all sandboxes.
	Home string
	// Name is the name of the sandbox.
	Name string
	// Provider is the provider of the Kubernetes cluster. Default: embedded.
	Provider v1alpha1.Provider
}

// Result contains the output and the exit status of a command.
type Result struct {
	Out, Err string
	Status   int
}

// Command returns a command that runs koupsandbox. Its environment contains neither the KOUPSANDBOX variables of the
// caller nor GITHUB_ACTIONS.
func (b *Box) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(b.Bin, Binary), args...)
	cmd.Env = slices.DeleteFunc(cmd.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "KOUPSANDBOX_") || strings.HasPrefix(v, "GITHUB_ACTIONS=")
	})
	cmd.Env = append(cmd.Env, "KOUPSANDBOX_HOME="+b.Home, "KOUPSANDBOX_NAME="+b.Name)
	if b.Instead != "" {
		cmd.Env = append(cmd.Env, "KOUPSANDBOX_BIN="+b.Instead)
	}
	return cmd
}

// Run runs koupsandbox and blocks until it has exited. A nonzero exit status is not an error; it is returned in
// Result.
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

// Must runs koupsandbox. It returns an error that contains the output if the exit status is not 0.
func (b *Box) Must(ctx context.Context, args ...string) error {
	r, err := b.Run(ctx, args...)
	if err == nil && r.Status != 0 {
		err = fmt.Errorf("koupsandbox %s: exit status %d:\n%s%s", strings.Join(args, " "), r.Status, r.Out, r.Err)
	}
	return err
}

// Up runs koupsandbox up and blocks until the sandbox is ready.
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
		return "", fmt.Errorf("encoding the configuration of sandbox %s: %w", b.Name, err)
	}
	file := filepath.Join(b.Home, b.Name+".yaml")
	return file, os.WriteFile(file, text, 0o600)
}

// downTime is the timeout of Down.
const downTime = time.Minute

// Down removes the sandbox if it exists. It also works after ctx is cancelled.
func (b *Box) Down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTime)
	defer cancel()
	return b.Must(ctx, "down")
}

// Dir returns the directory of the sandbox.
func (b *Box) Dir() string { return filepath.Join(b.Home, b.Name) }

// Log returns the path of the log file of a component.
func (b *Box) Log(component string) string {
	return filepath.Join(b.Dir(), "logs", component+".log")
}

// Open returns the Go API of the running sandbox. The caller must close the result.
func (b *Box) Open(ctx context.Context) (*sandbox.Sandbox, error) {
	return sandbox.Open(ctx, b.Home, b.Name)
}

// REST returns the client configuration for the sandbox's Kubernetes API, without client-side rate limits.
func (b *Box) REST() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.Dir(), "kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of sandbox %s: %w", b.Name, err)
	}
	config.QPS = -1
	return config, nil
}
