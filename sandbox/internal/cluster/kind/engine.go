package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
	"sigs.k8s.io/kind/pkg/cluster"
)

// The engines, by their commands.
const (
	docker = "docker"
	podman = "podman"
)

const (
	// engineTime bounds one question to the engine: one that hangs is none.
	engineTime = 5 * time.Second
	// minMemory is what a node needs with a control plane in it: about 900 MB, and as much again for what it caches.
	minMemory = 2 << 30
	// minDisk is what a node writes in its first minutes, with room for logs.
	minDisk = 1 << 30
)

// ErrNoEngine is returned, wrapped, when no container engine can be used on this machine.
var ErrNoEngine = errors.New("no container engine")

// Engine is a container engine that answers.
type Engine struct {
	// Command is docker or podman.
	Command string
	// Version, such as "27.5.1".
	Version string
	// Architecture of its containers, as Go names it.
	Architecture string
	// CgroupV1 is true where the machine has the cgroups of before 2016.
	CgroupV1 bool
	// Memory of its machine, in bytes.
	Memory int64
	// Rootless is true where it runs without root's rights.
	Rootless bool
	// Controllers tells whether it may limit CPU, memory and processes; where Rootless, the system must have given it that.
	Controllers bool
	// Root is the folder of its data, which may be on another machine.
	Root string
}

// FindEngine returns the engine of a name, docker or podman, or, without one, the first of the two that answers. ErrNoEngine, wrapped,
// says that none can be used, and why.
func FindEngine(ctx context.Context, name string) (*Engine, error) {
	var reasons []string
	for _, known := range []struct {
		name string
		ask  func(context.Context) (*Engine, error)
	}{{docker, askDocker}, {podman, askPodman}} {
		if name != "" && name != known.name {
			continue
		}
		e, err := known.ask(ctx)
		if err == nil {
			return e, nil
		}
		reasons = append(reasons, err.Error())
	}
	if len(reasons) == 0 {
		return nil, fmt.Errorf("%w: %q is neither docker nor podman", ErrNoEngine, name)
	}
	return nil, fmt.Errorf("%w: %s", ErrNoEngine, strings.Join(reasons, "; "))
}

func askDocker(ctx context.Context) (*Engine, error) {
	var info struct {
		ServerVersion, CgroupVersion, Architecture, DockerRootDir string
		MemTotal                                                  int64
		MemoryLimit, PidsLimit, CPUShares                         bool
		SecurityOptions, ServerErrors                             []string
	}
	if err := ask(ctx, &info, docker); err != nil {
		return nil, err
	}
	if info.ServerVersion == "" {
		return nil, refusal(docker, strings.Join(info.ServerErrors, "; "))
	}
	return &Engine{Command: docker, Version: info.ServerVersion, Architecture: goArchitecture(info.Architecture),
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
	if err := ask(ctx, &info, podman); err != nil {
		return nil, err
	}
	has := func(controller string) bool { return slices.Contains(info.Host.CgroupControllers, controller) }
	return &Engine{Command: podman, Version: info.Version.Version, Architecture: goArchitecture(info.Host.Arch),
		CgroupV1: info.Host.CgroupVersion == "v1", Memory: info.Host.MemTotal, Root: info.Store.GraphRoot,
		Rootless: info.Host.Security.Rootless, Controllers: has("cpu") && has("memory") && has("pids")}, nil
}

// ask reads what the engine says of itself. The error is one clause, without a line break.
func ask(ctx context.Context, info any, command string) error {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	text, err := run(ctx, nil, command, "info", "--format", "{{json .}}")
	var missing *exec.Error
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("%s is not installed", command)
	case ctx.Err() != nil:
		return fmt.Errorf("%s does not answer within %s", command, engineTime)
	case err != nil && !json.Valid([]byte(text)): // docker describes its client even when its server is gone
		return refusal(command, err.Error())
	}
	if err := json.Unmarshal([]byte(text), info); err != nil {
		return fmt.Errorf("%s says of itself what cannot be read: %w", command, err)
	}
	return nil
}

// refusal puts into a clause why an engine does not serve.
func refusal(command, why string) error {
	switch lower := strings.ToLower(why); {
	case strings.Contains(lower, "permission denied"):
		return fmt.Errorf("%s runs, but you may not use it (add yourself to its group, or use its rootless mode)", command)
	case strings.Contains(lower, "cannot connect"), strings.Contains(lower, "failed to connect"):
		return fmt.Errorf("%s is installed, but does not run", command)
	case strings.TrimSpace(why) == "":
		return fmt.Errorf("%s does not answer", command)
	default:
		return fmt.Errorf("%s cannot be used: %s", command, lastLine(why))
	}
}

// goArchitecture translates what uname says.
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

// suffices says in one sentence what the engine lacks for a cluster.
func (e *Engine) suffices(ctx context.Context) error {
	if e.Memory > 0 && e.Memory < minMemory {
		return fmt.Errorf("%s has %.1f GB of memory and a cluster of kind needs %.1f: give it more, or use --provider embedded",
			e.Command, float64(e.Memory)/1e9, float64(minMemory)/1e9)
	}
	switch { // as kind itself refuses, but before anything was begun
	case e.Rootless && e.CgroupV1:
		return fmt.Errorf("%s runs without root and this machine has cgroups v1, where a cluster of kind cannot: run %s as root, or use --provider embedded",
			e.Command, e.Command)
	case e.Rootless && !e.Controllers:
		return fmt.Errorf("%s runs without root and may not limit CPU, memory and processes: let systemd give it that with Delegate=yes "+
			"(https://kind.sigs.k8s.io/docs/user/rootless/), or use --provider embedded", e.Command)
	case e.Root == "":
		return nil
	}
	// A folder of another machine, such as Docker Desktop's, is not ours to look at.
	if usage, err := disk.UsageWithContext(ctx, e.Root); err == nil && usage.Free < minDisk {
		return fmt.Errorf("the disk of %s (%s) has %.1f GB free and a cluster of kind needs %.1f: remove images that nobody uses (%s image prune)",
			e.Command, e.Root, float64(usage.Free)/1e9, float64(minDisk)/1e9, e.Command)
	}
	return nil
}

const (
	// inotifyLimit is where Linux says how many watchers of files a user may have at once.
	inotifyLimit = "/proc/sys/fs/inotify/max_user_instances"
	// minInotify is enough for some clusters: the programs of one take about 30, and those of all clusters are the same user's.
	minInotify = 512
)

// scarceInotify says, after a creation has failed, that the machine has few watchers of files: the commonest reason why a further
// cluster does not start, which none of its logs names plainly. A limit that cannot be read is none.
func scarceInotify(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil //nolint:nilerr // another system, or one that does not tell
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || limit >= minInotify {
		return nil //nolint:nilerr // as above
	}
	return fmt.Errorf("fs.inotify.max_user_instances is %d, which a few clusters use up: if others run here, raise it with: sysctl -w fs.inotify.max_user_instances=%d",
		limit, minInotify)
}

// option is how kind is told of the engine.
func (e *Engine) option() cluster.ProviderOption {
	if e.Command == podman {
		return cluster.ProviderWithPodman()
	}
	return cluster.ProviderWithDocker()
}

// run runs the engine's command and returns what it prints.
func (e *Engine) run(ctx context.Context, args ...string) (string, error) {
	return run(ctx, nil, e.Command, args...)
}

// Run runs the engine's command, with an input that may be nil, and returns what it prints, without the white space around it. An
// error holds the line that was run and the last line of what it said.
func (e *Engine) Run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	return run(ctx, stdin, e.Command, args...)
}
