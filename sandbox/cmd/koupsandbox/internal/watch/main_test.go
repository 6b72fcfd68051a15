package watch

import (
	"os"
	"testing"
	"time"
)

// The screen shows the time of day where it is: here, and in the golden files, UTC.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}
