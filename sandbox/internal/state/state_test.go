package state_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

func TestFilesArePrivate(t *testing.T) {
	home := state.Home(t.TempDir())
	dir := home.Dir("a")
	check.Must(t, os.Mkdir(string(dir), 0o755))
	check.Must(t, dir.Create())
	check.Must(t, state.WriteFile(dir.Config(), []byte("x")))
	got := map[string]os.FileMode{}
	for _, path := range []string{string(dir), dir.Logs(), dir.Run(), dir.Config()} {
		info, err := os.Stat(path)
		check.Must(t, err)
		got[filepath.Base(path)] = info.Mode().Perm()
	}
	if diff := cmp.Diff(map[string]os.FileMode{"a": 0o700, "logs": 0o700, "run": 0o700, "sandbox.yaml": 0o600},
		got); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
}

// TestLocation checks that the location of a state directory does not change when the directory is moved, and that
// two directories with the same name have different locations.
func TestLocation(t *testing.T) {
	locations := map[string]bool{}
	for _, dir := range []state.Dir{state.Home(t.TempDir()).Dir("a"), state.Home(t.TempDir()).Dir("a")} {
		check.Must(t, dir.Create())
		location, err := dir.Location()
		check.Must(t, err)
		host, err := os.Hostname()
		if err != nil || !strings.HasSuffix(location, "@"+host+":"+string(dir)) {
			t.Errorf("the location of %s is %s (%v)", dir, location, err)
		}
		moved := state.Dir(filepath.Join(t.TempDir(), "b"))
		check.Must(t, os.Rename(string(dir), string(moved)))
		if now, err := moved.Location(); err != nil || now != location {
			t.Errorf("its location is %s after it was moved (%v), before it was %s", now, err, location)
		}
		locations[location] = true
	}
	if len(locations) != 2 {
		t.Errorf("two directories have one location: %v", locations)
	}
}

// TestCheckOwner checks that directories of another user are rejected, even with the ownership marker, and that all
// directories in the home directory of another user are rejected.
func TestCheckOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root can give a folder away: make test-root")
	}
	home := state.Home(t.TempDir())
	dir := home.Dir("a")
	check.Must(t, dir.Create())
	for _, folder := range []string{string(dir), string(home)} {
		check.Must(t, os.Chown(folder, 54321, 54321))
		want := "the directory " + folder + " belongs to user 54321"
		_, owned := dir.Owned()
		for name, err := range map[string]error{"CheckOwner": dir.CheckOwner(), "Owned": owned, "Create": dir.Create(),
			"Remove": dir.Remove(false)} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		if dir.InUse() {
			t.Error("the directory is in use")
		}
		check.Must(t, os.Chown(string(dir), 0, 0))
	}
	if names, err := home.Names(); err == nil {
		t.Errorf("names in the home of another user are %v", names)
	}
	if err := state.Home(t.TempDir()).Dir("none").CheckOwner(); err != nil {
		t.Errorf("a missing directory: %v", err)
	}
}

func TestRemove(t *testing.T) {
	for _, keepLogs := range []bool{false, true} {
		home := state.Home(t.TempDir())
		dir := home.Dir("a")
		check.Must(t, dir.Create())
		for _, path := range []string{dir.Config(), dir.Log("etcd")} {
			check.Must(t, state.WriteFile(path, []byte("x")))
		}
		if !dir.InUse() {
			t.Error("a directory with a configuration is not in use")
		}
		check.Must(t, dir.Remove(keepLogs))
		_, err := os.Stat(dir.Log("etcd"))
		if dir.InUse() || dir.Exists() != keepLogs || (err == nil) != keepLogs {
			t.Errorf("keepLogs %t: used %t, exists %t, log: %v", keepLogs, dir.InUse(), dir.Exists(), err)
		}
		if err := dir.Remove(false); err != nil {
			t.Errorf("removing it again: %v", err)
		}
	}
}

// TestOwned checks for which directories Owned returns true, false or an error, and whether Remove deletes the
// directory.
func TestOwned(t *testing.T) {
	const (
		owned   = "owned"
		nobody  = "nobody's"
		foreign = "foreign"
	)
	// put creates files. An empty text creates a directory.
	put := func(files map[string]string) func(*testing.T, state.Dir) {
		return func(t *testing.T, dir state.Dir) {
			t.Helper()
			err := os.MkdirAll(string(dir), 0o700)
			for name, text := range files {
				path := filepath.Join(string(dir), name)
				if text == "" {
					err = errors.Join(err, os.MkdirAll(path, 0o700))
				} else {
					err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
				}
			}
			check.Must(t, err)
		}
	}
	for _, tc := range []struct {
		name  string
		put   func(*testing.T, state.Dir)
		want  string
		stays bool // whether Remove keeps the directory
	}{
		{"none", func(*testing.T, state.Dir) {}, nobody, false},
		{"empty directory, or Create was interrupted before the marker", put(nil), nobody, true},
		{"created by Create", func(t *testing.T, dir state.Dir) {
			t.Helper()
			check.Must(t, dir.Create())
		}, owned, false},
		{"interrupted before the configuration", put(map[string]string{".made-by-koupsandbox": " "}), owned, false},
		{"interrupted Remove", put(map[string]string{".made-by-koupsandbox": " ", "run": ""}), owned, false},
		{"a configuration of the user", put(map[string]string{"sandbox.yaml": "kind: Sandbox", "run": ""}), foreign,
			true},
		{"logs", put(map[string]string{"logs": ""}), foreign, true},
		{"directory with a file", put(map[string]string{"main.go": "package main"}), foreign, true},
		{"directory with the name of the marker", put(map[string]string{".made-by-koupsandbox": ""}), foreign, true},
		{"a file", func(t *testing.T, dir state.Dir) {
			t.Helper()
			check.Must(t, os.WriteFile(string(dir), []byte("x"), 0o600))
		}, foreign, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := state.Home(t.TempDir()).Dir("a")
			tc.put(t, dir)
			is, err := dir.Owned()
			got := map[bool]string{true: owned, false: nobody}[is]
			if errors.Is(err, state.ErrNotOwned) {
				got = foreign
			} else if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("it is %s, want %s", got, tc.want)
			}
			for _, keepLogs := range []bool{true, false} {
				if err := dir.Remove(keepLogs); errors.Is(err, state.ErrNotOwned) != (tc.want == foreign) {
					t.Errorf("removing it: %v", err)
				}
			}
			if _, err := os.Lstat(string(dir)); (err == nil) != tc.stays {
				t.Errorf("after Remove: %v", err)
			}
			if err := dir.Create(); errors.Is(err, state.ErrNotOwned) != (tc.want == foreign) ||
				tc.want != foreign && err != nil {
				t.Errorf("making it: %v", err)
			}
			if is, _ := dir.Owned(); is != (tc.want != foreign) {
				t.Errorf("after Create it is owned: %t", is)
			}
		})
	}
}

// TestLinkedDirectory checks a state directory that is a symbolic link. If the target directory was empty, Remove
// must delete the files of koupsandbox in the target directory, and the link. If the target contains other files,
// Create and Remove must change nothing.
func TestLinkedDirectory(t *testing.T) {
	for name, theirs := range map[string]bool{"empty": false, "with a file": true} {
		t.Run(name, func(t *testing.T) {
			dir, elsewhere := state.Home(t.TempDir()).Dir("a"), t.TempDir()
			if theirs {
				check.Must(t, os.WriteFile(filepath.Join(elsewhere, "main.go"), nil, 0o600))
			}
			check.Must(t, os.Symlink(elsewhere, string(dir)))
			if err := dir.Create(); errors.Is(err, state.ErrNotOwned) != theirs {
				t.Errorf("making it: %v", err)
			}
			if err := dir.Remove(false); errors.Is(err, state.ErrNotOwned) != theirs {
				t.Errorf("removing it: %v", err)
			}
			entries, err := os.ReadDir(elsewhere)
			if left := len(entries) == 1 && entries[0].Name() == "main.go"; err != nil || left != theirs ||
				!theirs && len(entries) > 0 {
				t.Errorf("left: %v, %v", entries, err)
			}
			if _, err := os.Lstat(string(dir)); (err == nil) != theirs {
				t.Errorf("the link: %v", err)
			}
		})
	}
}

func TestNames(t *testing.T) {
	home := state.Home(t.TempDir())
	for _, name := range []string{"b", "a"} {
		check.Must(t, home.Dir(name).Create())
	}
	unlock, err := home.Lock(t.Context(), "c", false) // creates a directory that is not a sandbox
	check.Must(t, err)
	defer unlock()
	names, err := home.Names()
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" || err != nil {
		t.Errorf("names (-want +got):\n%s%v", diff, err)
	}
	if names, err := state.Home(filepath.Join(string(home), "missing")).Names(); names != nil || err != nil {
		t.Errorf("names in a missing home: %v, %v", names, err)
	}
}

// TestSocket checks that NewSocketPath returns a usable socket path even if the path of the state directory is long,
// and that Remove also deletes the socket.
func TestSocket(t *testing.T) {
	short, err := os.MkdirTemp("", "s")
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	for name, home := range map[string]string{"short": short,
		"long": filepath.Join(t.TempDir(), strings.Repeat("long", 30))} {
		t.Run(name, func(t *testing.T) {
			dir := state.Home(home).Dir("a")
			check.Must(t, dir.Create())
			if path := dir.SocketPath(); path != "" {
				t.Errorf("there is a socket before it was made: %s", path)
			}
			path, err := dir.NewSocketPath()
			check.Must(t, err)
			l, err := net.Listen("unix", path)
			check.Must(t, err)
			l.(*net.UnixListener).SetUnlinkOnClose(false) // as after a crash
			defer func() { _ = l.Close() }()
			if got := dir.SocketPath(); got != path {
				t.Errorf("the socket is at %s, but was found at %s", path, got)
			}
			again, err := dir.NewSocketPath()
			check.Must(t, err)
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the old socket is still there: %v", err)
			}
			check.Must(t, dir.Remove(false))
			if parent := filepath.Dir(again); parent != string(dir) {
				if _, err := os.Stat(parent); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the socket's own folder is still there: %v", err)
				}
			}
		})
	}
}

func TestLock(t *testing.T) {
	home := state.Home(t.TempDir())
	unlock, err := home.Lock(t.Context(), "a", false)
	check.Must(t, err)
	if _, err := home.Lock(t.Context(), "a", false); !errors.Is(err, state.ErrBusy) {
		t.Errorf("a second lock returned %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := home.Lock(short, "a", true); !errors.Is(err, state.ErrBusy) {
		t.Errorf("waiting for the lock returned %v", err)
	}
	other, err := home.Lock(t.Context(), "b", false)
	if err != nil {
		t.Errorf("the lock of another sandbox: %v", err)
	} else {
		other()
	}
	unlock()
	again, err := home.Lock(t.Context(), "a", true)
	check.Must(t, err)
	again()
}

// TestLocksAreExclusiveAndRemoved checks that only one goroutine holds the lock at a time, and that no lock files
// remain after the locks have been released.
func TestLocksAreExclusiveAndRemoved(t *testing.T) {
	home := state.Home(t.TempDir())
	var have atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				unlock, err := home.Lock(t.Context(), "a", true)
				if err != nil {
					t.Error(err)
					return
				}
				if n := have.Add(1); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				have.Add(-1)
				unlock()
			}
		})
	}
	wg.Wait()
	if entries, err := os.ReadDir(string(home)); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestClientIDPrefix checks that a sandbox keeps its ID, that another sandbox has a different ID, and that every new
// CLIENT_ID is unique, is a valid UUID and starts with the ID.
func TestClientIDPrefix(t *testing.T) {
	d := state.Dir(filepath.Join(t.TempDir(), strings.Repeat("long", 16)))
	check.Must(t, d.Create())
	prefixes := map[string]bool{}
	for _, dir := range []state.Dir{d, d, state.Dir(t.TempDir())} {
		prefix, err := dir.ClientIDPrefix()
		check.Must(t, err)
		prefixes[prefix] = true
		one, two := state.NewClientID(prefix), state.NewClientID(prefix)
		if uuid.Validate(one) != nil || one == two || !strings.HasPrefix(one, prefix) {
			t.Errorf("with prefix %q the IDs are %q and %q", prefix, one, two)
		}
	}
	if len(prefixes) != 2 {
		t.Errorf("two sandboxes have the prefixes %v", prefixes)
	}
	if label, err := d.Label(); err != nil || len(validation.IsValidLabelValue(label)) > 0 {
		t.Errorf("label %q: %v", label, err)
	}
}

// TestBases checks that Bases returns all bases that AddBase has recorded.
func TestBases(t *testing.T) {
	d := state.Dir(t.TempDir())
	for _, want := range []map[string]bool{{}, {"a": true}, {"a": true, "b": true}} {
		for base := range want {
			check.Must(t, d.AddBase(base))
		}
		if got, err := d.Bases(); err != nil || !maps.Equal(got, want) {
			t.Errorf("bases %v, %v; want %v", got, err, want)
		}
	}
}
