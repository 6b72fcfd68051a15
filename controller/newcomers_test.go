package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

func TestNewcomersAreBounded(t *testing.T) {
	var n newcomers
	now := time.Unix(1_000_000, 0)
	told := func(version string) []arklet.Module { return []arklet.Module{{Name: "m", Version: version}} }
	n.note("base", told("1"), now)
	for i := range 3 * maxNewcomers {
		n.note(fmt.Sprint(i), told("1"), now.Add(time.Second))
	}
	if len(n.asked) != maxNewcomers {
		t.Errorf("%d are kept, want %d", len(n.asked), maxNewcomers)
	}
	n.note("base", told("2"), now.Add(time.Minute)) // it starts once more
	if diff := cmp.Diff(told("2"), n.take("base")); diff != "" {
		t.Errorf("the base was told (-want +got):\n%s", diff)
	}
	if again := n.take("base"); again != nil {
		t.Errorf("it is a newcomer still, that was told %v", again)
	}
	n.note("next", told("3"), now.Add(time.Minute))
	n.note("none", told("3"), now.Add(time.Minute))
	if n.take("next") == nil || n.take("none") != nil {
		t.Error("the room of a base that came is not that of the next")
	}
	n.note("fills", told("4"), now)
	n.note("late", told("4"), now.Add(newcomerTime+time.Second))
	if n.take("late") == nil || len(n.asked) != 0 {
		t.Errorf("%d are kept for ever", len(n.asked))
	}
}
