package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
)

// TestHold checks that the sandbox and its state directory are removed when the client of Hold disconnects, and that
// down keeps the state directory.
func TestHold(t *testing.T) {
	for name, end := range map[string]func(*fixture, context.CancelFunc) error{
		"client disconnects": func(_ *fixture, disconnect context.CancelFunc) error { disconnect(); return nil },
		"down":               func(b *fixture, _ context.CancelFunc) error { return b.Down(b.t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			b.up(request("good", 1))
			ctx, disconnect := context.WithCancel(t.Context())
			defer disconnect()
			held, over := make(chan struct{}), make(chan error, 1)
			go func() { over <- b.Hold(ctx, func() { close(held) }) }()
			<-held
			if err := end(b, disconnect); err != nil {
				t.Error(err)
			}
			if err := <-b.ended; err != nil {
				t.Errorf("Start returned %v", err)
			}
			if err := <-over; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Hold returned %v", err)
			}
			_, err := os.Stat(string(b.dir))
			if removed := errors.Is(err, fs.ErrNotExist); removed != (name == "client disconnects") {
				t.Errorf("directory removed: %t", removed)
			}
		})
	}
}
