package watch

import (
	"os"
	"testing"
	"time"
)

// TestMain sets the local time zone to UTC, because the output contains local times and the tests expect UTC.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}
