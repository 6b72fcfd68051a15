package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
)

// A sandbox that is held goes, with its folder, when its holder goes; one that somebody takes down leaves
// the folder to him.
func TestHold(t *testing.T) {
	for name, end := range map[string]func(*bench, context.CancelFunc) error{
		"the holder goes":  func(_ *bench, letGo context.CancelFunc) error { letGo(); return nil },
		"it is taken down": func(b *bench, _ context.CancelFunc) error { return b.Down(b.t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.up(request("good", 1))
			ctx, letGo := context.WithCancel(t.Context())
			defer letGo()
			held, over := make(chan struct{}), make(chan error, 1)
			go func() { over <- b.Hold(ctx, func() { close(held) }) }()
			<-held
			if err := end(b, letGo); err != nil {
				t.Error(err)
			}
			if err := <-b.ended; err != nil {
				t.Errorf("the daemon ended with %v", err)
			}
			if err := <-over; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("the hold ended with %v", err)
			}
			_, err := os.Stat(string(b.dir))
			if gone := errors.Is(err, fs.ErrNotExist); gone != (name == "the holder goes") {
				t.Errorf("the folder is gone: %t", gone)
			}
		})
	}
}
