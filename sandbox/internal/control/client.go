package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// ErrUnreachable is returned, wrapped, if no daemon responds on the socket.
var ErrUnreachable = errors.New("the daemon of the sandbox is unreachable")

// Client calls the daemon of one sandbox. Its methods may be called concurrently. Their errors are an *Error that the
// daemon reported, the cause of ctx, or an error that wraps ErrUnreachable.
type Client struct {
	transport http.Transport
	rpc       rpc.Client
}

// NewClient returns a client for the daemon that listens on a Unix socket. The client only connects to processes of
// the current user or of root.
func NewClient(socket string) *Client {
	var d net.Dialer
	c := &Client{transport: http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "unix", socket)
			if err != nil {
				return nil, err
			}
			if uid, err := peerUID(conn); err != nil || !trusted(uid, os.Geteuid()) {
				return nil, errors.Join(
					fmt.Errorf(
						"the process that listens on %s runs as user %d; the daemon must run as your user or root: "+
							"end that process, or choose another --home", socket, uid), err, conn.Close())
			}
			return conn, nil
		},
	}}
	c.rpc = rpc.Client{Transport: &c.transport, Unreachable: ErrUnreachable}
	return c
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Status returns the status of the sandbox. If bases is true, the status includes the status of each base and its
// Node.
func (c *Client) Status(ctx context.Context, bases bool) (*Status, error) {
	return MethodStatus.Call(ctx, &c.rpc, StatusRequest{bases})
}

// Up creates the sandbox, or reconciles a running sandbox, and blocks until the sandbox is ready. It calls sink for
// each progress event. If ctx ends during the first up, the daemon stops the sandbox.
func (c *Client) Up(ctx context.Context, r UpRequest, sink func(progress.Event)) (result *UpResult, err error) {
	err = MethodUp.Call(ctx, &c.rpc, r, func(s UpStep) {
		if s.Event != nil {
			sink(*s.Event)
		}
		result = s.Result
	})
	if err == nil && result == nil {
		err = fmt.Errorf("the daemon exited before the sandbox was up: %w", ErrUnreachable)
	}
	return result, err
}

// Down stops the sandbox and blocks until it has stopped. The daemon exits after its response.
func (c *Client) Down(ctx context.Context) error {
	_, err := MethodDown.Call(ctx, &c.rpc, rpc.Empty{})
	return err
}

// Hold ties the lifetime of the sandbox to the caller. It calls held once this is in effect, and blocks until the
// sandbox shuts down. If ctx ends or the calling process exits first, the daemon stops the sandbox and removes its
// state directory.
func (c *Client) Hold(ctx context.Context, held func()) error {
	return MethodHold.Call(ctx, &c.rpc, rpc.Empty{}, func(rpc.Empty) { held() })
}

// Bases lists the bases of a group with their Nodes. If group is empty, it lists all bases.
func (c *Client) Bases(ctx context.Context, group string) ([]Base, error) {
	return MethodBases.Call(ctx, &c.rpc, GroupRequest{group})
}

// AddBases adds bases. It blocks until the bases have connected, and returns them. It does not wait for their Nodes.
func (c *Client) AddBases(ctx context.Context, r AddRequest) ([]Base, error) {
	return MethodAddBases.Call(ctx, &c.rpc, r)
}

// RemoveBases stops and removes bases, and returns the removed bases.
func (c *Client) RemoveBases(ctx context.Context, r RemoveRequest) ([]Base, error) {
	return MethodRemoveBases.Call(ctx, &c.rpc, r)
}

// RestartBase restarts the process of a base, which is selected by identity, host name or address. It blocks until
// the new process has connected, and returns the base.
func (c *Client) RestartBase(ctx context.Context, base string, r RestartRequest) (*Base, error) {
	r.Base = base
	return MethodRestartBase.Call(ctx, &c.rpc, r)
}

// Act performs an action on a component.
func (c *Client) Act(ctx context.Context, r ActRequest) error {
	_, err := MethodAct.Call(ctx, &c.rpc, r)
	return err
}

// Repair reverts the actions that a group has performed on components.
func (c *Client) Repair(ctx context.Context, r RepairRequest) error {
	_, err := MethodRepair.Call(ctx, &c.rpc, r)
	return err
}

// SetFault sets a fault and returns the fault ID.
func (c *Client) SetFault(ctx context.Context, i fault.Injection) (id string, err error) {
	return MethodSetFault.Call(ctx, &c.rpc, i)
}

// ClearFaults clears the selected faults. It returns an error if an ID is unknown.
func (c *Client) ClearFaults(ctx context.Context, r FaultSelector) error {
	_, err := MethodClearFaults.Call(ctx, &c.rpc, r)
	return err
}

// Faults returns the faults of a group and the controllers' write counts. If group is empty, it returns all faults.
func (c *Client) Faults(ctx context.Context, group string) (Faults, error) {
	return MethodFaults.Call(ctx, &c.rpc, GroupRequest{group})
}

// SetController changes the configuration of the module controllers, restarts the controllers that are affected, and
// blocks until all controllers are ready. It returns a request that reverts the change.
func (c *Client) SetController(ctx context.Context, r ControllerRequest) (before ControllerRequest, err error) {
	return MethodSetController.Call(ctx, &c.rpc, r)
}

// Watch calls sink for every event, in order. It first reports the current state, then Synced, then changes. It
// blocks until ctx ends and returns the cause of ctx, or until the daemon exits and returns nil. If sink is so slow
// that events would be lost, Watch returns an *Error.
func (c *Client) Watch(ctx context.Context, r WatchRequest, sink func(events.Event)) error {
	return MethodWatch.Call(ctx, &c.rpc, r, sink)
}

// StartTraffic starts a request stream. Its name must be unique within the group. The stream runs until StopTraffic
// is called or the group is deleted.
func (c *Client) StartTraffic(ctx context.Context, group string, s traffic.Spec) error {
	_, err := MethodStartTraffic.Call(ctx, &c.rpc, StartTrafficRequest{group, s})
	return err
}

// Traffic lists the request streams of a group, including stopped streams.
func (c *Client) Traffic(ctx context.Context, group string) ([]traffic.Summary, error) {
	return MethodTraffic.Call(ctx, &c.rpc, GroupRequest{group})
}

// StopTraffic stops a request stream, blocks until its in-flight requests have completed, and returns the result.
func (c *Client) StopTraffic(ctx context.Context, group, name string) (*traffic.StreamResult, error) {
	return MethodStopTraffic.Call(ctx, &c.rpc, StreamRequest{group, name})
}

// TrafficRecords calls sink for every completed request of a stream.
func (c *Client) TrafficRecords(ctx context.Context, group, name string, sink func(traffic.Record)) error {
	return MethodTrafficRecords.Call(ctx, &c.rpc, StreamRequest{group, name}, sink)
}
