package fakebase

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// traces collects the traces of a base as text lines.
type traces struct {
	mu    sync.Mutex
	lines []string
}

func (c *traces) add(t Trace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := t.Fault; f != nil {
		c.lines = append(c.lines, fmt.Sprintf("%s %s %s %s", f.ID, f.Kind, f.State, f.Code))
		return
	}
	m := t.Command
	message, _, _ := strings.Cut(m.Message, ",") // the rest has times
	c.lines = append(c.lines, fmt.Sprintf("%s %s %s:%s %q %q", m.Identity, m.Name, m.Biz, m.Version, m.Code, message))
}

func (c *traces) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines
}

func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newConnectedBase(t, Options{
			Catalogue: &Catalogue{Fetch: FetchNever, InstallTime: Delay{Min: Duration(3 * time.Second)}}})
		var elapsed time.Duration
		var c traces
		stop := b.Trace(func(t Trace) {
			c.add(t)
			if t.Command != nil && t.Command.Name == cmdInstall && elapsed == 0 {
				elapsed = t.Command.Elapsed
			}
		})
		w.send(topic+"installBiz", install1)
		w.next("base/bizOperation")
		id := inject(t, b, fault.Fault{Kind: fault.KindError, Code: fault.CodeDiskFull,
			Match: fault.Match{Commands: []string{cmdInstall}}})
		w.send(topic+"installBiz", install2)
		w.next("base/bizOperation")
		b.Clear(id)
		inject(t, b, fault.Fault{Kind: fault.KindHang, For: Duration(time.Minute),
			Match: fault.Match{Commands: []string{cmdQueryAll}}})
		w.send(topic+"queryAllBiz", "{}")
		sleep(2 * time.Minute)
		w.send(topic+"uninstallBiz", `{"bizName":"biz9","bizVersion":"1"}`)
		w.next("base/bizOperation")
		stop()
		w.send(topic+"queryAllBiz", "{}")
		w.next("base/simpleBiz")
		want := []string{
			`b1 installBiz biz1:1.0.0 "" "Install Biz: biz1:1.0.0 success"`,
			"fault-1 error set User.DiskFull",
			"fault-1 error fired User.DiskFull",
			`b1 installBiz biz1:2.0.0 "User.DiskFull" "java.io.IOException: No space left on device"`,
			"fault-1 error cleared User.DiskFull",
			"fault-2 hang set ",
			"fault-2 hang fired ",
			"fault-2 hang cleared ",
			`b1 uninstallBiz biz9:1 "Arklet.NoMatchedBiz" "Uninstall biz: biz9:1 not found."`,
		}
		if d := cmp.Diff(want, c.all()); d != "" {
			t.Errorf("traces (-want +got):\n%s", d)
		}
		if elapsed != 3*time.Second {
			t.Errorf("elapsed time of the install = %s, want 3s", elapsed)
		}
	})
}
