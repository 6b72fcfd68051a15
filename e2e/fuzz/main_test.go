package fuzz

import (
	"flag"
	"os"
	"testing"
)

// Two controllers are fuzzed at the same time: most of the time their sandboxes wait.
const (
	atOnce    = "2"
	sandboxes = 3
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
