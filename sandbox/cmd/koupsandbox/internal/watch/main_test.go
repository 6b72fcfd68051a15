package watch

import (
	"os"
	"testing"
	"time"
)

// The output has local times. The tests expect UTC.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}
