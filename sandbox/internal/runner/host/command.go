package host

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Command runs a custom module controller that is configured in spec.controller.command.
type Command struct{ Sandbox }

var _ Program = (*Command)(nil)

// Settings implements Program.
func (c *Command) Settings(i Instance) (any, error) {
	i.Metrics, i.Health, i.Heartbeats = "", "", net.JoinHostPort(Loopback, "0")
	return c.render(i)
}

// Process implements Program. It also writes the configured files.
func (c *Command) Process(i Instance) (supervise.Spec, error) {
	p, err := c.render(i)
	if err != nil {
		return supervise.Spec{}, err
	}
	if err := c.writeFiles(i, p.Files); err != nil {
		return supervise.Spec{}, fmt.Errorf("writing the files of %s: %w", i.Name, err)
	}
	spec := supervise.Spec{
		Name: i.Name, Path: p.Path, Args: p.Args, Env: envList(p.Env), Dir: p.Dir, LogFile: c.Dir.Log(i.Name),
		ReadyLog: p.ReadyLog, Group: true, StopTimeout: stopTimeout,
	}
	if p.ReadyURL != "" {
		spec.Ready = httpReady(p.ReadyURL)
	}
	return spec, nil
}

func (c *Command) writeFiles(i Instance, files map[string]string) error {
	if len(files) == 0 {
		return nil
	}
	dir := c.filesDir(i)
	if err := os.RemoveAll(dir); err != nil { // the directory has only files of the sandbox
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := state.WriteFile(filepath.Join(dir, name), []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Command) filesDir(i Instance) string { return filepath.Join(string(c.Dir), "files", i.Name) }

// render returns the process configuration of an instance, with the placeholders replaced by its values.
func (c *Command) render(i Instance) (*v1alpha1.ControllerProcess, error) {
	host, _, _ := net.SplitHostPort(c.Broker.Addr())       // valid: the address of a listener
	brokerPort, _ := strconv.Atoi(portOf(c.Broker.Addr())) // valid, as above
	heartbeats, _ := strconv.Atoi(portOf(i.Heartbeats))
	login := c.Broker.Controller()
	return i.Config.Process(v1alpha1.ControllerValues{
		Kubeconfig: cmp.Or(i.Kubeconfig, c.Kubeconfig),
		BrokerHost: host, BrokerPort: brokerPort, BrokerUser: login.User, BrokerPassword: login.Password,
		BrokerCA:       c.Broker.CAFile(),
		HTTPTunnelPort: heartbeats, Gateway: "http://" + c.Gateway,
		Env: c.Env, ClientID: i.ClientID, ClientPrefix: c.ClientPrefix,
		MetricsAddr: i.Metrics, HealthAddr: i.Health,
		Name: i.Name, Index: i.Index, Replicas: *i.Config.Replicas, Files: c.filesDir(i), Speed: max(c.Speed, 1),
	})
}
