package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

const (
	// namePrefix begins the name of every container; the sandbox's name and the base's follow.
	namePrefix = "koup-"
	// The labels say whose a container is: the name of the sandbox, and a digest of its
	// folder, since two users may have sandboxes of one name.
	sandboxLabel = "koupsandbox.io/sandbox"
	folderLabel  = "koupsandbox.io/folder"
	// removeTime bounds the removal of containers that did not end by themselves.
	removeTime = 10 * time.Second
)

// Options of an Engine.
type Options struct {
	// Engine that has the network. Required.
	Engine *engine.Engine
	// Network in which the containers are. Required.
	Network string
	// Sandbox is the name of the sandbox, and Dir its folder, which exists: the layer of
	// the image lies there. Required.
	Sandbox, Dir string
	// Program is fakebase, for Linux and without libraries. Required by Run.
	Program string
	// Log gets what the bases have to say. It is written to concurrently. Default: nothing is kept.
	Log io.Writer
}

// Engine runs containers for the bases of one sandbox. Its methods may be called
// concurrently.
type Engine struct {
	o Options

	mu    sync.Mutex
	image string // its name, when the engine has it
}

// New returns an engine that has done nothing.
func New(o Options) *Engine { return &Engine{o: o} }

// Sweep removes all containers of the sandbox, and no others.
func (e *Engine) Sweep(ctx context.Context) error {
	args := []string{"ps", "--all", "--quiet"}
	for _, label := range e.labels() {
		args = append(args, "--filter", "label="+label)
	}
	ids, err := e.o.Engine.Run(ctx, args...)
	if err != nil {
		return fmt.Errorf("looking for containers of bases: %w", err)
	}
	return e.remove(ctx, strings.Fields(ids)...)
}

func (e *Engine) remove(ctx context.Context, containers ...string) error {
	if len(containers) == 0 {
		return nil
	}
	if _, err := e.o.Engine.Run(ctx, append([]string{"rm", "--force", "--volumes"}, containers...)...); err != nil {
		return fmt.Errorf("removing containers of bases: %w", err)
	}
	return nil
}

func (e *Engine) labels() []string {
	dir, err := filepath.Abs(e.o.Dir)
	if err != nil {
		dir = e.o.Dir // the working folder is gone, so it was absolute
	}
	sum := sha256.Sum256([]byte(dir))
	return []string{sandboxLabel + "=" + e.o.Sandbox, folderLabel + "=" + hex.EncodeToString(sum[:8])}
}

// Container is a running container whose base can be described to it.
type Container struct {
	*stdio.Process
	e    *Engine
	name string
	ip   string
}

// Run starts a container for the base of a host name and blocks until its program answers. The
// first gives the engine the image of bases, unless it has it. Whoever starts a container must
// Close it.
func (e *Engine) Run(ctx context.Context, hostName string) (*Container, error) {
	image, err := e.ready(ctx)
	if err != nil {
		return nil, err
	}
	name := namePrefix + e.o.Sandbox + "-" + hostName
	cmd := exec.Command(e.o.Engine.Command, append(e.arguments(name, hostName), image)...)
	cmd.Stderr = e.o.Log
	process, err := stdio.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("starting container %s: %w", name, err)
	}
	c := &Container{Process: process, e: e, name: name}
	if c.ip, err = remote.Address(ctx, process); err != nil {
		return nil, errors.Join(fmt.Errorf("starting container %s: %w", name, err), c.end(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// arguments run a container that has no rights, and that leaves nothing.
func (e *Engine) arguments(name, hostName string) []string {
	args := []string{"run", "--rm", "--interactive", "--name", name, "--hostname", hostName, "--network", e.o.Network, "--pull", "never",
		"--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--log-driver", "none"} // it would keep all that passes the streams
	for _, label := range e.labels() {
		args = append(args, "--label", label)
	}
	return args
}

// IP is its address in the network.
func (c *Container) IP() string { return c.ip }

// Close ends the container and blocks until it is gone. One that does not end by
// itself, as one that is paused, is removed.
func (c *Container) Close() error { return c.end(context.Background()) }

func (c *Container) end(ctx context.Context) error {
	if err := c.Process.Close(); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	return c.e.remove(ctx, c.name)
}
