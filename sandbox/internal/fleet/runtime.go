package fleet

import (
	"context"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// Runtime is what bases run in. Its methods may be called concurrently.
type Runtime interface {
	// Adapt changes the options of a base in this process to those of a base that runs there, with a
	// port for module traffic. It changes nothing and returns an error if such a base cannot run there.
	Adapt(o *fakebase.Options, webPort int) error
	// Concurrency is how many are opened at a time.
	Concurrency() int
	// Open makes a place for the base of a host name, and blocks until it can take one.
	Open(ctx context.Context, hostName string) (Slot, error)
}

// Slot is where one base runs.
type Slot interface {
	// IP is the address that the base reports, which no other base has. It may change while the base
	// is down. Empty means that the fleet assigns an address that is not routed. It does not block.
	IP() string
	// New makes the base, which does nothing before its Start. It is called once.
	New(ctx context.Context, o fakebase.Options) (Base, error)
	// ClusterAddr is host:port of the base's listener for module traffic as Pods of the cluster reach it; empty =
	// they do not, or not yet. It does not block.
	ClusterAddr() string
	// ArkletAddr returns host:port at which this machine reaches the arklet HTTP listener that the base has
	// at addr. It does not block.
	ArkletAddr(addr string) string
	// Sync blocks until everything that the base has done so far has been told.
	Sync(ctx context.Context) error
	// Close ends the place, and blocks until it is gone. The base has ended, or was never made.
	Close() error
}

// Base is a simulated base, of this process or another. Its methods are those of
// fakebase.Base, which says what they do.
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
