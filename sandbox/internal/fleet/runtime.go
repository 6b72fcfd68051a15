package fleet

import (
	"context"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// Runtime runs bases. Its methods may be called concurrently.
type Runtime interface {
	// Adapt changes options for a base in this process into options for a base of this runtime, with a port for module
	// traffic. If such a base cannot run, it returns an error and changes nothing.
	Adapt(o *fakebase.Options, webPort int) error
	// Concurrency returns how many slots may be opened concurrently.
	Concurrency() int
	// Open opens a slot for the base with a host name. It blocks until the slot can run the base.
	Open(ctx context.Context, hostName string) (Slot, error)
}

// Slot is where one base runs.
type Slot interface {
	// IP returns the unique address that the base reports. It may change while the base is down. Empty means that the
	// fleet assigns an unrouted address. IP does not block.
	IP() string
	// New creates the base but does not start it. It is called once.
	New(ctx context.Context, o fakebase.Options) (Base, error)
	// ClusterAddr returns the host:port at which Pods of the cluster reach the base's listener for module traffic, or
	// an empty string if they cannot, or cannot yet. It does not block.
	ClusterAddr() string
	// ArkletAddr returns the host:port at which this machine reaches the arklet HTTP listener that the base has at
	// addr. It does not block.
	ArkletAddr(addr string) string
	// Sync blocks until all events of the base so far have been delivered.
	Sync(ctx context.Context) error
	// Close closes the slot and blocks until it is closed. The base must have ended, or must not have been created.
	Close() error
}

// Base is a simulated base in this process or another one. fakebase.Base documents the methods.
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
