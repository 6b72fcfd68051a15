package fleet

import (
	"context"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// Runtime is an environment in which bases run, for example Pods. Its methods may be called concurrently.
type Runtime interface {
	// Adapt changes options that were made for a base in this process, so that the base can run in this runtime.
	// webPort is the port for module traffic. If the base cannot run in this runtime, Adapt returns an error and
	// changes nothing.
	Adapt(o *fakebase.Options, webPort int) error
	// Concurrency returns the maximum number of slots that may be opened concurrently.
	Concurrency() int
	// Open opens a slot for the base with the given host name. It blocks until the slot can run the base.
	Open(ctx context.Context, hostName string) (Slot, error)
}

// Slot is the location in which one base runs, for example a part of a Pod.
type Slot interface {
	// IP returns the unique address that the base reports. The address may change while the base is not running. If
	// IP returns an empty string, the fleet assigns an unrouted address. IP does not block.
	IP() string
	// New creates the base of the slot without starting the base. It is called once.
	New(ctx context.Context, o fakebase.Options) (Base, error)
	// ClusterAddr returns the host:port at which Pods of the cluster reach the base's listener for module traffic. It
	// returns an empty string if Pods cannot reach the listener, or not yet. It does not block.
	ClusterAddr() string
	// ArkletAddr returns the host:port at which this machine reaches the arklet HTTP listener of the base. addr is
	// the address of this listener on the base. ArkletAddr does not block.
	ArkletAddr(addr string) string
	// Sync blocks until all events that the base has emitted so far have been delivered.
	Sync(ctx context.Context) error
	// Close closes the slot and blocks until this is complete. Call it after the base has stopped, or if the base was
	// never created.
	Close() error
}

// Base is a simulated base in this or another process. Its methods are documented in fakebase.Base.
type Base interface {
	Start(ctx context.Context) error
	Status() fakebase.Status
	Identity() string
	Faults() []fault.Status
	Inject(f fault.Fault) (string, error)
	Clear(ids ...string) int
	Restart(identity string) error
	Watch(fn func(fakebase.Event)) (now fakebase.Status, stop func())
	Trace(fn func(fakebase.Trace)) (stop func())
	WebAddr(ctx context.Context) (string, error)
	HTTPAddr() string
}
