package fleet

import (
	"context"
	"fmt"

	"github.com/koupleless/koupsandbox/fakebase"
)

// processes runs bases in this process.
type processes struct{}

var _ Runtime = processes{}

func (processes) Adapt(*fakebase.Options, int) error { return nil }

// Concurrency returns 1, so that the bases of a set get their addresses in order.
func (processes) Concurrency() int { return 1 }

func (processes) Open(context.Context, string) (Slot, error) { return localSlot{}, nil }

// localSlot is the slot of a base that runs in this process.
type localSlot struct{}

func (localSlot) IP() string                    { return "" }
func (localSlot) ClusterAddr() string           { return "" }
func (localSlot) ArkletAddr(addr string) string { return addr }
func (localSlot) Sync(context.Context) error    { return nil }
func (localSlot) Close() error                  { return nil }

func (localSlot) New(_ context.Context, o fakebase.Options) (Base, error) {
	b, err := fakebase.New(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return b, nil
}
