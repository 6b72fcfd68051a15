package kubelet

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

var noon = time.Date(2024, 7, 18, 12, 0, 0, 0, time.UTC)

// text returns the log of a module in the format of kubectl logs.
func (l *EventLog) text(identity, biz string) string {
	entries, _ := l.entriesAfter(moduleKey{identity, biz}, 0, podEntries{})
	sortByTime(entries)
	return render(entries, biz, false)
}

func wantText(t *testing.T, l *EventLog, identity, biz string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(want, "\n"), strings.TrimSuffix(l.text(identity, biz), "\n")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestCommandEntries(t *testing.T) {
	l := NewEventLog()
	r := arklet.Request{Command: arklet.CommandInstallBiz,
		Module: arklet.Module{Name: "biz1", Version: "1.0.0", URL: "file:///m/biz1.jar"}}
	l.Add("a", "biz1", CommandSent(noon, r))
	l.Add("a", "biz1", CommandAnswered(noon.Add(time.Second), r,
		arklet.Answer{Code: "FAILED", Message: "install biz not success!", DataCode: "REPEAT_BIZ",
			DataMessage: "Biz: biz1:1.0.0 has been installed or registered."}))
	l.Add("a", "biz1", CommandAnswered(noon.Add(2*time.Second), r,
		arklet.Answer{Code: "SUCCESS", DataCode: "SUCCESS", DataMessage: "Install Biz: biz1:1.0.0 success"}))
	l.Add("a", "biz1", CommandUnanswered(noon.Add(3*time.Second),
		arklet.Request{Command: arklet.CommandSwitchBiz, Module: arklet.Module{Version: "2"}},
		errors.New("connection reset")))
	l.Add("b", "biz1", CommandSent(noon, r))
	wantText(t, l, "a", "biz1",
		"2024-07-18 12:00:00.000 biz1:1.0.0 installBiz sent: file:///m/biz1.jar",
		"2024-07-18 12:00:01.000 biz1:1.0.0 installBiz answered: FAILED install biz not success! REPEAT_BIZ Biz: "+
			"biz1:1.0.0 has been installed or registered.",
		"2024-07-18 12:00:02.000 biz1:1.0.0 installBiz answered: SUCCESS Install Biz: biz1:1.0.0 success",
		"2024-07-18 12:00:03.000 biz1:2 switchBiz not answered: connection reset",
	)
}

func TestAddModuleStates(t *testing.T) {
	record := func(after time.Duration, state arklet.State, reason, message string) arklet.Record {
		return arklet.Record{At: noon.Add(after), State: state, Reason: reason, Message: message}
	}
	resolved := record(-2*time.Second, arklet.StateResolved, "CREATED", "")
	started := record(-time.Second, arklet.StateActivated, "STARTED", "")
	switched := record(time.Minute, arklet.StateDeactivated, "SWITCHED", "switch to new biz biz1:2")
	biz := func(version string, state arklet.State, history bool, records ...arklet.Record) arklet.Biz {
		b := arklet.Biz{Name: "biz1", Version: version, State: state}
		if len(records) > 0 {
			b.Latest = records[len(records)-1]
		}
		if history {
			b.Records = records
		}
		return b
	}
	for name, c := range map[string]struct {
		lists [][]arklet.Biz // module lists, one per minute
		want  []string
	}{
		"full histories, as over HTTP": {
			[][]arklet.Biz{{biz("1", "activated", true, resolved, started)},
				{biz("1", "activated", true, resolved, started)},
				{biz("1", "deactivated", true, resolved, started, switched)}, {}},
			[]string{
				"2024-07-18 11:59:58.000 biz1:1 is resolved: CREATED",
				"2024-07-18 11:59:59.000 biz1:1 is activated: STARTED",
				"2024-07-18 12:01:00.000 biz1:1 is deactivated: SWITCHED switch to new biz biz1:2",
				"2024-07-18 12:03:00.000 biz1:1 is no longer installed",
			},
		},
		"the last record only, as over MQTT": {
			[][]arklet.Biz{{biz("1", "resolved", false, resolved)},
				{biz("1", "activated", false, started), biz("2", "resolved", false, resolved)},
				{biz("2", "resolved", false, resolved)}},
			[]string{
				"2024-07-18 11:59:58.000 biz1:1 is resolved: CREATED",
				"2024-07-18 11:59:58.000 biz1:2 is resolved: CREATED",
				"2024-07-18 11:59:59.000 biz1:1 is activated: STARTED",
				"2024-07-18 12:02:00.000 biz1:1 is no longer installed",
			},
		},
		"no records, as in generation B": {
			[][]arklet.Biz{{biz("1", "resolved", false)}, {biz("1", "resolved", false)},
				{biz("1", "activated", false)}},
			[]string{"2024-07-18 12:00:00.000 biz1:1 is resolved", "2024-07-18 12:02:00.000 biz1:1 is activated"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewEventLog()
			for i, list := range c.lists {
				l.AddModuleStates("a", []string{"biz1"},
					append(list, arklet.Biz{Name: "biz2", Version: "1", State: arklet.StateBroken}),
					noon.Add(time.Duration(i)*time.Minute))
			}
			wantText(t, l, "a", "biz1", c.want...)
			wantText(t, l, "a", "biz2", "")
		})
	}
}

func TestEventLogLimits(t *testing.T) {
	t.Run("entries of a module", func(t *testing.T) {
		l := NewEventLog()
		for i := range maxEntries + 50 {
			l.Add("a", "biz1", LogEntry{At: noon.Add(time.Duration(i) * time.Second), Event: fmt.Sprint(i)})
		}
		lines := strings.Split(strings.TrimSuffix(l.text("a", "biz1"), "\n"), "\n")
		if len(lines) != maxEntries || !strings.HasSuffix(lines[0], " 50") ||
			!strings.HasSuffix(lines[maxEntries-1], " 249") {
			t.Errorf("%d lines from %q to %q", len(lines), lines[0], lines[len(lines)-1])
		}
	})
	t.Run("all together", func(t *testing.T) {
		const limit = 64 << 10
		l := NewEventLog()
		l.limit = limit
		for i := range 1000 {
			l.Add("a", "kept", LogEntry{At: noon, Event: "x"})
			l.Add(fmt.Sprint(i), "biz1", LogEntry{At: noon, Event: "x", Detail: strings.Repeat("d", 1000)})
			l.AddModuleStates(fmt.Sprint(i), []string{"biz1", "biz2"},
				[]arklet.Biz{{Name: "biz1", Version: "1"}, {Name: "biz2", Version: "2"}}, noon)
		}
		size := 0
		for key, h := range l.histories {
			size += historyCost + len(key.identity) + len(key.biz) + versionCost*len(h.listedVersions)
			for _, e := range h.entries {
				size += sizeOf(e.LogEntry)
			}
		}
		if size != l.size || size > limit || len(l.histories) != l.byUse.Len() {
			t.Errorf("%d bytes counted, %d bytes used, limit %d; %d modules, %d in byUse", l.size, size, limit,
				len(l.histories), l.byUse.Len())
		}
		if l.text("0", "biz1") != "" || l.text("999", "biz1") == "" ||
			strings.Count(l.text("a", "kept"), "\n") != maxEntries {
			t.Error("the removed modules are not the modules with the oldest events")
		}
	})
	t.Run("a detail", func(t *testing.T) {
		l := NewEventLog()
		l.Add("a", "biz1", LogEntry{At: noon, Detail: strings.Repeat("é", maxDetail)})
		entries, _ := l.entriesAfter(moduleKey{"a", "biz1"}, 0, podEntries{})
		if got := entries[0].Detail; got != strings.Repeat("é", maxDetail/2)+" …" {
			t.Errorf("a detail of %d bytes ends with %q", len(got), got[len(got)-8:])
		}
	})
}
