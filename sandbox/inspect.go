package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const statusTimeout = 5 * time.Second

// Inspect returns the status of a sandbox. If bases is true, the status includes the status of each base. If the
// daemon of the sandbox is not running, the status is derived from the run records. If the sandbox does not exist,
// the error wraps ErrNotUp.
func Inspect(ctx context.Context, home, name string, bases bool) (*Status, error) {
	dir := state.Home(home).Dir(name)
	if err := dir.CheckOwner(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if path := dir.SocketPath(); path != "" {
		client := control.NewClient(path)
		defer client.Close()
		if status, err := client.Status(ctx, bases); err == nil {
			return status, nil
		}
	}
	if !dir.InUse() {
		return nil, fmt.Errorf("sandbox %q is %w; create it with: koupsandbox up --name %s", name, ErrNotUp, name)
	}
	return statusFromRecords(dir)
}

func statusFromRecords(dir state.Dir) (*Status, error) {
	status := &Status{Name: dir.Name(), Phase: control.Dead, Kubeconfig: dir.Kubeconfig(), Logs: dir.Logs(),
		Problems: []string{
			fmt.Sprintf("its daemon is not running; remove the sandbox with: koupsandbox down --name %s, "+
				"or start it again with: koupsandbox up --name %[1]s",
				dir.Name())}}
	records, err := supervise.Records(dir.Run())
	for _, r := range records {
		c := control.Component{Name: r.Name, State: supervise.Exited, PID: r.PID, StartedAt: r.StartedAt,
			Reason: "not running", Log: dir.Log(r.Name)}
		if r.Running {
			c.State, c.Reason = supervise.Running, "still running, but its daemon is not"
		}
		status.Components = append(status.Components, c)
	}
	if err != nil {
		return status, fmt.Errorf("reading the run records of sandbox %q: %w", dir.Name(), err)
	}
	return status, nil
}

// List returns the status of every sandbox that is running or whose daemon has exited unexpectedly, sorted by name.
func List(ctx context.Context, home string) ([]*Status, error) {
	names, err := state.Home(home).Names()
	if err != nil {
		return nil, err
	}
	list := []*Status{}
	for _, name := range names {
		if !state.Home(home).Dir(name).InUse() {
			continue // only the logs of a failed up
		}
		status, err := Inspect(ctx, home, name, false)
		if err != nil {
			return nil, err
		}
		list = append(list, status)
	}
	return list, nil
}
