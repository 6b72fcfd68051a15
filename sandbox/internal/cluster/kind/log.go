package kind

import (
	"fmt"
	"log/slog"

	"sigs.k8s.io/kind/pkg/log"
)

// logger is the kind logger. It logs warnings and errors as warnings, and all other messages as debug messages.
type logger struct{ log *slog.Logger }

var _ log.Logger = logger{}

func (l logger) Warn(message string)               { l.log.Warn("kind", "message", message) }
func (l logger) Warnf(format string, args ...any)  { l.Warn(fmt.Sprintf(format, args...)) }
func (l logger) Error(message string)              { l.log.Warn("kind", "error", message) }
func (l logger) Errorf(format string, args ...any) { l.Error(fmt.Sprintf(format, args...)) }
func (l logger) Info(message string)               { l.log.Debug("kind", "message", message) }
func (l logger) Infof(format string, args ...any)  { l.Info(fmt.Sprintf(format, args...)) }
func (l logger) Enabled() bool                     { return true }
func (l logger) V(level log.Level) log.InfoLogger {
	if level < 2 {
		return l
	}
	return log.NoopInfoLogger{}
}
