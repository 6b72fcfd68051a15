package vnode

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

const markedEnv = "VNODE_TEST_MARKED_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(markedEnv) != "" { // the child process of TestHasEndedAfterKill
		fmt.Println(startProcess().name)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until it is killed
		return
	}
	os.Exit(m.Run())
}

func TestHasEndedAfterKill(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux marks processes")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), markedEnv+"=1")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	name, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	name = strings.TrimSpace(name)
	if hasEnded(name) {
		t.Errorf("the running process %q has ended", name)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if !hasEnded(name) {
		t.Errorf("the killed process %q has not ended", name)
	}
	_, random, _ := strings.Cut(name, "/")
	for _, unknown := range []string{"", "/" + random, "elsewhere/" + random} {
		if hasEnded(unknown) {
			t.Errorf("the process %q with another PLACE has ended", unknown)
		}
	}
}

// sameID returns two controllers with the same CLIENT_ID on two machines. The first controller serves the base.
func sameID(t *testing.T) (first, second *fixture, logged *bytes.Buffer) {
	t.Helper()
	api, clock, logged := newAPI(), clocktesting.NewFakeClock(noon), &bytes.Buffer{}
	first = newFixtureAt(t, Options{Holder: "me", Clock: clock}, api, false)
	first.heartbeat()
	first.reconcileOnce(t)
	second = newFixtureAt(t, Options{Holder: "me", Clock: clock, Logger: logTo(logged)}, api, false)
	return first, second, logged
}

// countActing advances the clock for two controllers that receive heartbeats. It returns for how many seconds each
// controller was allowed to act.
func countActing(t *testing.T, d time.Duration, first, second *fixture) (seconds [2]int) {
	t.Helper()
	for range d / time.Second {
		advance(t, time.Second, first, second)
		for i, s := range []*fixture{first, second} {
			s.heartbeat()
			s.reconcileOnce(t)
			if s.MayAct() {
				seconds[i]++
			}
		}
		if first.Owns(identity) && second.Owns(identity) {
			t.Fatal("both serve the base")
		}
	}
	return seconds
}

func TestTwoControllersWithSameClientID(t *testing.T) {
	first, second, logged := sameID(t)
	if got := countActing(t, time.Minute, first, second); got != [2]int{60, 0} {
		t.Errorf("the controllers act for %d s of a minute, want only the first one", got)
	}
	if first.holder(t) != "me 1" || !second.ClientIDConflict() || first.ClientIDConflict() {
		t.Errorf("the holder of the Node is %q; conflict of the first: %t, of the second: %t", first.holder(t),
			first.ClientIDConflict(),
			second.ClientIDConflict())
	}
	if n := strings.Count(logged.String(), "CLIENT_ID=me"); n != 1 {
		t.Errorf("%d warnings, want one with the setting:\n%s", n, logged)
	}
	// it stops, and must not delete the Lease of the first one
	if err := second.ownLease.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.ownLease.renew(t.Context()); err != nil {
		t.Errorf("renewing the Lease after the other controller has ended: %v", err)
	}
}

func TestSecondControllerWithSameClientIDTakesOver(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(*fixture) error
		within time.Duration
	}{
		"killed": {func(s *fixture) error { s.cut.Store(true); return nil }, 16 * time.Second},
		"released": {func(s *fixture) error { s.cut.Store(true); return s.ownLease.release(t.Context()) },
			4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			first, second, _ := sameID(t)
			countActing(t, 10*time.Second, first, second)
			if err := c.end(first); err != nil {
				t.Fatal(err)
			}
			countActing(t, c.within, first, second)
			if !second.Owns(identity) || second.ClientIDConflict() {
				t.Errorf("after %s the second controller serves the base: %t, conflict: %t", c.within,
					second.Owns(identity), second.ClientIDConflict())
			}
			if first.MayAct() {
				t.Error("the first controller may act")
			}
		})
	}
}
