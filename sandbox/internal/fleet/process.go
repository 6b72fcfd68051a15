package fleet

import (
	"context"
	"fmt"
	"sync"

	"github.com/koupleless/koupsandbox/fakebase"
)

// processes runs bases in this process, each with an address that nothing routes.
type processes struct {
	mu      sync.Mutex
	numbers numbers
}

var _ Runtime = (*processes)(nil)

func (p *processes) Adapt(*fakebase.Options) {}
func (p *processes) Max() int                { return 0 }
func (p *processes) AtOnce() int             { return 1 } // so that a set's addresses are in the order of its bases

func (p *processes) Open(context.Context, string) (Place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	number, err := p.numbers.take()
	if err != nil {
		return nil, err
	}
	return &here{p, number}, nil
}

// here is the place of a base in this process.
type here struct {
	p      *processes
	number int
}

func (h *here) IP() string                 { return address(h.number).String() }
func (h *here) Sync(context.Context) error { return nil }

func (h *here) New(_ context.Context, o fakebase.Options) (Base, error) {
	b, err := fakebase.New(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return b, nil
}

func (h *here) Close() error {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	h.p.numbers.release(h.number)
	return nil
}
