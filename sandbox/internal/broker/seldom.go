package broker

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
)

// dropped is logged of a message that a client does not get since too many wait for it already.
const dropped = "message dropped: the client reads too slowly"

// seldom passes on once a second at most what is logged for each message that a client which is behind does not get, thousands a
// second, and all else as it comes. Statistics count what is dropped.
type seldom struct {
	slog.Handler
	often map[string]*rate.Sometimes // by what is logged
}

// newSeldom limits mochi's texts and ours.
func newSeldom(h slog.Handler) seldom {
	s := seldom{h, map[string]*rate.Sometimes{}}
	for _, text := range []string{"client store quota reached", "packet ids exhausted", dropped} {
		s.often[text] = &rate.Sometimes{Interval: time.Second}
	}
	return s
}

// Handle passes a record on, or not.
func (s seldom) Handle(ctx context.Context, r slog.Record) (err error) {
	limit, is := s.often[r.Message]
	if !is {
		return s.Handler.Handle(ctx, r)
	}
	limit.Do(func() { err = s.Handler.Handle(ctx, r) })
	return err
}

// WithAttrs is that of slog.Handler.
func (s seldom) WithAttrs(a []slog.Attr) slog.Handler { return seldom{s.Handler.WithAttrs(a), s.often} }

// WithGroup is that of slog.Handler.
func (s seldom) WithGroup(name string) slog.Handler {
	return seldom{s.Handler.WithGroup(name), s.often}
}
