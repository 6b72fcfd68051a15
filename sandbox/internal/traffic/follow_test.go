package traffic

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// An API server that is away is asked again soon; what it answers counts.
func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused, other := fmt.Errorf("dial: %w", syscall.ECONNREFUSED), errors.New("forbidden")
		for name, last := range map[string]error{"an answer": nil, "another error": other} {
			began, asked := time.Now(), 0
			_, err := patiently(t.Context(), func() (int, error) {
				if asked++; asked <= 20 {
					return 0, refused
				}
				return 0, last
			})
			if !errors.Is(err, last) || time.Since(began) != 20*again {
				t.Errorf("%s: %v after %s, asked %d times", name, err, time.Since(began), asked)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := patiently(ctx, func() (int, error) { return 0, refused }); !errors.Is(err, refused) || ctx.Err() == nil {
			t.Errorf("it gave up before its time: %v", err)
		}
	})
}
