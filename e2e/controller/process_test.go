package controller

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/mochi"
	"github.com/koupleless/koupsandbox/fakebase"
)

// area is an environment of the shared cluster that has its own broker. Tests start controllers and bases in an area.
type area struct {
	env  string
	port string // port of the broker on 127.0.0.1
}

func newArea(t *testing.T) area {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	end, err := mochi.Serve(listener)
	must(t, err)
	t.Cleanup(func() { must(t, end()) })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	return area{env: uniqueName(), port: port}
}

// base starts a base in the area.
func (a area) base(t *testing.T, o fakebase.Options) *base {
	t.Helper()
	return overMQTTAt(t, a.env, &fakebase.MQTTOptions{Broker: "tcp://127.0.0.1:" + a.port}, o)
}

// process is a module controller process that a test has started.
type process struct {
	id, log string
	cmd     *exec.Cmd
	done    chan struct{}
}

// controllerCommand returns a command that runs the controller with only the given environment variables, and with
// the permissions of deploy.Objects.
func controllerCommand(env map[string]string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(binDir, box.ControllerBinary))
	cmd.Env = []string{
		"KUBECONFIG=" + filepath.Join(shared.Dir(), "module-controller.kubeconfig"),
		"METRICS_ADDR=", "HEALTH_ADDR=127.0.0.1:0",
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value) // the last value of a variable is used
	}
	return cmd
}

// controller starts a module controller in the area, and waits until it is ready.
func (a area) controller(t *testing.T, id string, env map[string]string) *process {
	t.Helper()
	all := map[string]string{
		"ENV": a.env, "CLIENT_ID": id, "ENABLE_MQTT_TUNNEL": "true", "MQTT_BROKER": "127.0.0.1", "MQTT_PORT": a.port,
	}
	for name, value := range env {
		all[name] = value
	}
	log, err := os.Create(filepath.Join(t.TempDir(), id+".log"))
	must(t, err)
	p := &process{id: id, log: log.Name(), cmd: controllerCommand(all), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	must(t, p.cmd.Start())
	must(t, log.Close())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // tests kill the process
	}()
	t.Cleanup(func() {
		p.kill(t)
		if t.Failed() {
			t.Logf("last lines of the log of controller %s:\n%s", id, tail(p.log, 30))
		}
	})
	eventually(t, "controller "+id+" is ready", p.ready)
	return p
}

func (p *process) ready(ctx context.Context) error {
	addr, err := box.FindLogWord(p.log, "msg=serving what=health addr=")
	if err != nil {
		return err
	}
	return getOK(ctx, "http://"+addr+"/tunnelz")
}

// kill kills the process and blocks until it has exited.
func (p *process) kill(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
		return
	default:
	}
	p.signal(t, syscall.SIGKILL)
	<-p.done
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	must(t, p.cmd.Process.Signal(s))
}

// runInvalid runs a controller with an invalid setting. It returns the exit status and the last line of the output.
func runInvalid(t *testing.T, env map[string]string) (status int, lastLine string) {
	t.Helper()
	cmd := controllerCommand(env)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	kill := sync.OnceFunc(func() { _ = cmd.Process.Kill() }) // the process may have ended
	timer := time.AfterFunc(timeout, kill)
	defer timer.Stop()
	_ = cmd.Wait() // the exit status has the result
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return cmd.ProcessState.ExitCode(), lines[len(lines)-1]
}
