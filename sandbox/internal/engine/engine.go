package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Command names of the supported container engines.
const (
	Docker = "docker"
	Podman = "podman"
)

// infoTimeout is the timeout for querying the properties of an engine.
const infoTimeout = 5 * time.Second

// ErrNoEngine is returned, wrapped, if no container engine is usable on this machine.
var ErrNoEngine = errors.New("no container engine is usable")

// The reasons why an engine is unusable. Each error that wraps one of them also wraps ErrNoEngine.
var (
	ErrNotInstalled = errors.New("is not installed")
	ErrNotRunning   = errors.New("is installed, but not running")
	ErrNotAllowed   = errors.New(
		"is running, but you have no permission to use it (join its group, or use rootless mode)")
)

// Engine is a container engine. The methods use only the field Command, and may be called concurrently.
type Engine struct {
	// Command is the name of the engine's command: docker or podman.
	Command string
	// Version is the version of the engine, such as "27.5.1".
	Version string
	// Architecture is the architecture of the containers, as a GOARCH value.
	Architecture string
	// CgroupV1 reports whether the machine uses cgroups v1.
	CgroupV1 bool
	// Memory is the memory of the machine on which the engine runs, in bytes.
	Memory int64
	// Rootless reports whether the engine runs without root privileges.
	Rootless bool
	// Controllers reports whether the engine can limit CPU, memory and processes. A rootless engine can do so
	// only if the system delegates these cgroup controllers.
	Controllers bool
	// Root is the data directory of the engine, which may be on another machine; empty if unknown.
	Root string
}

// Find returns the engine called name, which is Docker or Podman. If name is empty, it returns the first of the two
// engines that responds within a few seconds. If no engine is usable, the error wraps ErrNoEngine and contains the
// reason for each engine.
func Find(ctx context.Context, name string) (*Engine, error) {
	var reasons []error
	for _, known := range []struct {
		name string
		ask  func(context.Context) (*Engine, error)
	}{{Docker, askDocker}, {Podman, askPodman}} {
		if name != "" && name != known.name {
			continue
		}
		e, err := known.ask(ctx)
		if err == nil {
			return e, nil
		}
		reasons = append(reasons, err)
	}
	switch len(reasons) {
	case 0:
		return nil, fmt.Errorf("%w: unsupported engine %q; use docker or podman", ErrNoEngine, name)
	case 1:
		return nil, fmt.Errorf("%w: %w", ErrNoEngine, reasons[0])
	}
	return nil, fmt.Errorf("%w: %w; %w", ErrNoEngine, reasons[0], reasons[1])
}

func askDocker(ctx context.Context) (*Engine, error) {
	var info struct {
		ServerVersion, CgroupVersion, Architecture, DockerRootDir string
		MemTotal                                                  int64
		MemoryLimit, PidsLimit, CPUShares                         bool
		SecurityOptions, ServerErrors                             []string
	}
	if err := ask(ctx, &info, Docker); err != nil {
		return nil, err
	}
	if info.ServerVersion == "" {
		return nil, refusal(Docker, strings.Join(info.ServerErrors, "; "))
	}
	return &Engine{Command: Docker, Version: info.ServerVersion, Architecture: goArchitecture(info.Architecture),
		CgroupV1: info.CgroupVersion == "1", Memory: info.MemTotal, Root: info.DockerRootDir,
		Rootless:    slices.Contains(info.SecurityOptions, "name=rootless"),
		Controllers: info.MemoryLimit && info.PidsLimit && info.CPUShares}, nil
}

func askPodman(ctx context.Context) (*Engine, error) {
	var info struct {
		Host struct {
			CgroupVersion, Arch string
			CgroupControllers   []string
			MemTotal            int64
			Security            struct{ Rootless bool }
		}
		Store   struct{ GraphRoot string }
		Version struct{ Version string }
	}
	if err := ask(ctx, &info, Podman); err != nil {
		return nil, err
	}
	has := func(controller string) bool { return slices.Contains(info.Host.CgroupControllers, controller) }
	return &Engine{Command: Podman, Version: info.Version.Version, Architecture: goArchitecture(info.Host.Arch),
		CgroupV1: info.Host.CgroupVersion == "v1", Memory: info.Host.MemTotal, Root: info.Store.GraphRoot,
		Rootless: info.Host.Security.Rootless, Controllers: has("cpu") && has("memory") && has("pids")}, nil
}

// ask queries the properties of an engine with the command info, and decodes the output into info. The error is one
// clause without a line break.
func ask(ctx context.Context, info any, command string) error {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	text, err := (&Engine{Command: command}).Run(ctx, "info", "--format", "{{json .}}")
	var missing *exec.Error
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("%s %w", command, ErrNotInstalled)
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not respond within %s", command, infoTimeout)
	case err != nil:
		// If its server is down, docker prints the reason in ServerErrors, or to stderr.
		var client struct{ ServerErrors []string }
		_ = json.Unmarshal([]byte(text), &client)
		return refusal(command, strings.Join(append(client.ServerErrors, err.Error()), "; "))
	}
	if err := json.Unmarshal([]byte(text), info); err != nil {
		return fmt.Errorf("decoding the output of %s info: %w", command, err)
	}
	return nil
}

// refusal returns an error that states why an engine is unusable, as a clause. why is the error message of the
// engine.
func refusal(command, why string) error {
	switch lower := strings.ToLower(why); {
	case strings.Contains(lower, "permission denied"):
		return fmt.Errorf("%s %w", command, ErrNotAllowed)
	case strings.Contains(lower, "cannot connect"), strings.Contains(lower, "failed to connect"):
		return fmt.Errorf("%s %w", command, ErrNotRunning)
	case strings.TrimSpace(why) == "":
		return fmt.Errorf("%s does not respond", command)
	default:
		return fmt.Errorf("%s is unusable: %s", command, lastLines(why, 1))
	}
}

// goArchitecture converts a machine name, as printed by uname, to a GOARCH value.
func goArchitecture(name string) string {
	switch name {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	default:
		return name
	}
}
