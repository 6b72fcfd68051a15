package ark

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var epoch = time.UnixMilli(1732096700000)

func spec(name, version string) Spec {
	return Spec{Name: name, Version: version, Priority: 100, WebContextPath: name}
}

// change is a StateChange without its time.
type change struct {
	ID       string
	From, To State
	Reason   Reason
	Message  string
}

// runOperations runs operations on a new container and returns all state changes.
func runOperations(t *testing.T, o Options, operations ...func(*Container) error) ([]change, *Container) {
	t.Helper()
	var got []change
	o.Observe = func(c StateChange) {
		if !c.Time.Equal(epoch) {
			t.Errorf("time of the change of %s:%s = %s, want %s", c.Name, c.Version, c.Time, epoch)
		}
		got = append(got, change{ID(c.Name, c.Version), c.From, c.To, c.Reason, c.Message})
	}
	c := NewContainer(o)
	for i, operation := range operations {
		if err := operation(c); err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
	return got, c
}

func register(version string) func(*Container) error {
	return func(c *Container) error { return c.Register(spec("biz1", version), Hot, epoch) }
}
func started(version string) func(*Container) error {
	return func(c *Container) error { return c.Started(ID("biz1", version), epoch) }
}
func startFails(version string) func(*Container) error {
	return func(c *Container) error { return c.StartFailed(ID("biz1", version), "the trace", epoch) }
}
func stopping(version string) func(*Container) error {
	return func(c *Container) error { return c.Stopping(ID("biz1", version), epoch) }
}
func stopped(version string) func(*Container) error {
	return func(c *Container) error { return c.Stopped(ID("biz1", version), epoch) }
}
func stopFails(version string) func(*Container) error {
	return func(c *Container) error { return c.StopFailed(ID("biz1", version), epoch) }
}
func switchTo(version string) func(*Container) error {
	return func(c *Container) error { return c.Switch(ID("biz1", version), epoch) }
}

// TestStateChanges checks the state changes that protocol 5.2 defines.
func TestStateChanges(t *testing.T) {
	registered := func(id string) change { return change{id, Unresolved, Resolved, Created, ""} }
	first := []change{registered("biz1:1"), {"biz1:1", Resolved, Activated, Started, ""}}
	second := append(first[:2:2], registered("biz1:2"))
	tests := []struct {
		name       string
		opts       Options
		operations []func(*Container) error
		want       []change
		states     map[string]State
	}{
		{
			name:       "start, no active version of this name",
			operations: []func(*Container) error{register("1"), started("1")},
			want:       first, states: map[string]State{"biz1:1": Activated},
		}, {
			name:       "start, other active version, default flags",
			operations: []func(*Container) error{register("1"), started("1"), register("2"), started("2")},
			want: append(second[:3:3],
				change{"biz1:2", Resolved, Deactivated, Started, "start but is deactivated"}),
			states: map[string]State{"biz1:1": Activated, "biz1:2": Deactivated},
		}, {
			name: "start, activate.new.module", opts: Options{Activation: ActivateNewModule},
			operations: []func(*Container) error{register("1"), started("1"), register("2"), started("2")},
			want: append(second[:3:3],
				change{"biz1:1", Activated, Deactivated, Switched, "switch to new biz biz1:2"},
				change{"biz1:2", Resolved, Activated, Started, "switch from old biz: biz1:1"}),
			states: map[string]State{"biz1:1": Deactivated, "biz1:2": Activated},
		}, {
			name: "start, multi-version flag", opts: Options{Activation: ActivateMulti},
			operations: []func(*Container) error{register("1"), started("1"), register("2"), started("2")},
			want:       append(second[:3:3], change{"biz1:2", Resolved, Activated, Started, ""}),
			states:     map[string]State{"biz1:1": Activated, "biz1:2": Activated},
		}, {
			name:       "start fails, auto-uninstall",
			operations: []func(*Container) error{register("1"), startFails("1")},
			want: []change{registered("biz1:1"), {"biz1:1", Resolved, Broken, InstallFailed, "the trace"},
				{"biz1:1", Broken, Stopped, Terminated, ""}},
			states: map[string]State{},
		}, {
			name: "start fails, KeepFailed", opts: Options{KeepFailed: true},
			operations: []func(*Container) error{register("1"), startFails("1")},
			want:       []change{registered("biz1:1"), {"biz1:1", Resolved, Broken, InstallFailed, "the trace"}},
			states:     map[string]State{"biz1:1": Broken},
		}, {
			name: "switch",
			operations: []func(*Container) error{register("1"), started("1"), register("2"), started("2"),
				switchTo("2")},
			want: append(second[:3:3], change{"biz1:2", Resolved, Deactivated, Started, "start but is deactivated"},
				change{"biz1:1", Activated, Deactivated, Switched, "switch to new version biz1:2"},
				change{"biz1:2", Deactivated, Activated, Switched, "switch from old version: biz1:1"}),
			states: map[string]State{"biz1:1": Deactivated, "biz1:2": Activated},
		}, {
			name:       "switch to the active version changes nothing",
			operations: []func(*Container) error{register("1"), started("1"), switchTo("1")},
			want:       first, states: map[string]State{"biz1:1": Activated},
		}, {
			name: "switch without an active version",
			operations: []func(*Container) error{register("1"), started("1"), register("2"), started("2"),
				stopping("1"), stopped("1"), switchTo("2")},
			want: append(second[:3:3], change{"biz1:2", Resolved, Deactivated, Started, "start but is deactivated"},
				change{"biz1:1", Activated, Deactivated, Killing, ""},
				change{"biz1:1", Deactivated, Stopped, Terminated, ""},
				change{"biz1:2", Deactivated, Activated, Switched, ""}),
			states: map[string]State{"biz1:2": Activated},
		}, {
			name:       "uninstall",
			operations: []func(*Container) error{register("1"), started("1"), stopping("1"), stopped("1")},
			want: append(first[:2:2], change{"biz1:1", Activated, Deactivated, Killing, ""},
				change{"biz1:1", Deactivated, Stopped, Terminated, ""}),
			states: map[string]State{},
		}, {
			name: "uninstall a broken biz", opts: Options{KeepFailed: true},
			operations: []func(*Container) error{register("1"), startFails("1"), stopping("1"), stopped("1")},
			want: []change{registered("biz1:1"), {"biz1:1", Resolved, Broken, InstallFailed, "the trace"},
				{"biz1:1", Broken, Stopped, Terminated, ""}},
			states: map[string]State{},
		}, {
			name:       "stop handler throws",
			operations: []func(*Container) error{register("1"), started("1"), stopping("1"), stopFails("1")},
			want: append(first[:2:2], change{"biz1:1", Activated, Deactivated, Killing, ""},
				change{"biz1:1", Deactivated, Broken, UninstallFailed, ""},
				change{"biz1:1", Broken, Unresolved, UninstallFailed, ""}),
			states: map[string]State{},
		}, {
			name: "stop handler throws, KeepUnstoppable", opts: Options{KeepUnstoppable: true},
			operations: []func(*Container) error{register("1"), started("1"), stopping("1"), stopFails("1")},
			want: append(first[:2:2], change{"biz1:1", Activated, Deactivated, Killing, ""},
				change{"biz1:1", Deactivated, Broken, UninstallFailed, ""}),
			states: map[string]State{"biz1:1": Broken},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, c := runOperations(t, tt.opts, tt.operations...)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
			states := map[string]State{}
			for _, b := range c.List() {
				states[b.ID()] = b.State
			}
			if d := cmp.Diff(tt.states, states); d != "" {
				t.Errorf("states (-want +got):\n%s", d)
			}
		})
	}
}

func TestRejectedOperations(t *testing.T) {
	tests := []struct {
		name       string
		operations []func(*Container) error
		last       func(*Container) error
		want       error
	}{
		{"register twice", []func(*Container) error{register("1")}, register("1"), ErrRegistered},
		{"start unknown", nil, started("1"), ErrNotFound},
		{"start twice", []func(*Container) error{register("1"), started("1")}, started("1"), ErrState},
		{"fail an active biz", []func(*Container) error{register("1"), started("1")}, startFails("1"), ErrState},
		{"fail unknown", nil, startFails("1"), ErrNotFound},
		{"stop unknown", nil, stopping("1"), ErrNotFound},
		{"stop while starting", []func(*Container) error{register("1")}, stopping("1"), ErrState},
		{"remove an active biz", []func(*Container) error{register("1"), started("1")}, stopped("1"), ErrState},
		{"remove unknown", nil, stopped("1"), ErrNotFound},
		{"break an active biz", []func(*Container) error{register("1"), started("1")}, stopFails("1"), ErrState},
		{"break unknown", nil, stopFails("1"), ErrNotFound},
		{"switch unknown", nil, switchTo("1"), ErrNotFound},
		{"switch while starting", []func(*Container) error{register("1")}, switchTo("1"), ErrState},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, c := runOperations(t, Options{}, tt.operations...)
			before := c.List()
			if err := tt.last(c); !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			if d := cmp.Diff(before, c.List(), cmpopts.IgnoreUnexported(Biz{})); d != "" {
				t.Errorf("container after a rejected operation (-before +after):\n%s", d)
			}
		})
	}
}

func TestListIsOrderedByPriority(t *testing.T) {
	c := NewContainer(Options{})
	for _, s := range []Spec{{Name: "b", Version: "1", Priority: 100}, {Name: "c", Version: "1", Priority: 1},
		{Name: "a", Version: "1", Priority: 100}} {
		if err := c.Register(s, Hot, epoch); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, b := range c.List() {
		got = append(got, b.ID())
	}
	if d := cmp.Diff([]string{"c:1", "b:1", "a:1"}, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func TestCopiesDoNotShareNewRecords(t *testing.T) {
	_, c := runOperations(t, Options{}, register("1"), started("1"))
	before, _ := c.Get("biz1:1")
	if err := c.Stopping("biz1:1", epoch); err != nil {
		t.Fatal(err)
	}
	want := []Record{{epoch, Resolved, Created, ""}, {epoch, Activated, Started, ""}}
	if d := cmp.Diff(want, append(before.Records, Record{})[:2]); d != "" {
		t.Errorf("records of the earlier copy (-want +got):\n%s", d)
	}
	after, _ := c.Get("biz1:1")
	if after.Records[2] != (Record{epoch, Deactivated, Killing, ""}) {
		t.Errorf("records after a change of the copy = %+v", after.Records)
	}
}

func TestServing(t *testing.T) {
	_, c := runOperations(t, Options{Activation: ActivateMulti}, register("1"), started("1"), register("2"),
		started("2"))
	if b, ok := c.Serving("biz1"); !ok || b.Version != "2" {
		t.Errorf("Serving() = %q, %v; want version 2, which was activated last", b.Version, ok)
	}
	if err := c.Stopping("biz1:2", epoch); err != nil {
		t.Fatal(err)
	}
	if b, ok := c.Serving("biz1"); !ok || b.Version != "1" {
		t.Errorf("Serving() after version 2 stops = %q, %v; want version 1", b.Version, ok)
	}
	if _, ok := c.Serving("other"); ok {
		t.Error("Serving() returned a biz for an unknown path")
	}
}
