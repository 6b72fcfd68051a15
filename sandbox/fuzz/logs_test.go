package fuzz

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox"
)

func TestLastOf(t *testing.T) {
	log := filepath.Join(t.TempDir(), "x.log")
	if err := os.WriteFile(log, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status := &sandbox.Status{Components: []sandbox.Component{{Name: controller, Log: log}, {Name: "broker", Log: log}, {Name: controller + "-2", Log: log + "none"}}}
	if got, want := lastOf(status), "module-controller: one\nmodule-controller: two\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
