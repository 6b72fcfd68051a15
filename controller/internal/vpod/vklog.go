package vpod

import (
	"context"
	"fmt"
	"log/slog"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
)

// Logger carries virtual-kubelet's log to a slog handler. What that library calls information is
// this controller's debug output: it speaks of every Pod. Its own slog adapter expects text only
// and fails on an error value.
func Logger(l *slog.Logger) vklog.Logger { return logger{l} }

type logger struct{ l *slog.Logger }

func (l logger) Debug(a ...any)            { l.write(slog.LevelDebug, fmt.Sprint(a...)) }
func (l logger) Debugf(f string, a ...any) { l.write(slog.LevelDebug, fmt.Sprintf(f, a...)) }
func (l logger) Info(a ...any)             { l.write(slog.LevelDebug, fmt.Sprint(a...)) }
func (l logger) Infof(f string, a ...any)  { l.write(slog.LevelDebug, fmt.Sprintf(f, a...)) }
func (l logger) Warn(a ...any)             { l.write(slog.LevelDebug, fmt.Sprint(a...)) }
func (l logger) Warnf(f string, a ...any)  { l.write(slog.LevelDebug, fmt.Sprintf(f, a...)) }
func (l logger) Error(a ...any)            { l.write(slog.LevelWarn, fmt.Sprint(a...)) }
func (l logger) Errorf(f string, a ...any) { l.write(slog.LevelWarn, fmt.Sprintf(f, a...)) }
func (l logger) Fatal(a ...any)            { l.write(slog.LevelError, fmt.Sprint(a...)) }
func (l logger) Fatalf(f string, a ...any) { l.write(slog.LevelError, fmt.Sprintf(f, a...)) }

func (l logger) write(level slog.Level, message string) {
	if l.l.Enabled(context.Background(), level) {
		l.l.Log(context.Background(), level, message, "component", "virtual-kubelet")
	}
}

func (l logger) WithField(key string, value any) vklog.Logger { return logger{l.l.With(key, value)} }

func (l logger) WithFields(fields vklog.Fields) vklog.Logger {
	args := make([]any, 0, 2*len(fields))
	for key, value := range fields {
		args = append(args, key, value)
	}
	return logger{l.l.With(args...)}
}

func (l logger) WithError(err error) vklog.Logger { return logger{l.l.With("err", err)} }
