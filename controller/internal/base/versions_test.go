package base

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// A base lists its modules in any order. They are found by name all the same, and the versions of one
// stay in the base's order.
func TestVersions(t *testing.T) {
	r := NewRegistry(Options{})
	from := tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a", At: time.Now()}
	if reason, err := r.Heard(from, arklet.Heartbeat{Name: "base", Version: "1.0.0", IP: "198.18.0.1", Active: true}); reason != "" {
		t.Fatal(reason, err)
	}
	biz := func(name, version string) arklet.Biz { return arklet.Biz{Name: name, Version: version} }
	list := []arklet.Biz{biz("b", "2"), biz("c", "1"), biz("b", "10"), biz("a", "1"), biz("b", "1")}
	said := append([]arklet.Biz(nil), list...)
	r.SetModules(from, list)
	if diff := cmp.Diff(said, list); diff != "" {
		t.Errorf("what the base said is changed (-said +now):\n%s", diff)
	}
	s, _ := r.Get("a")
	for name, want := range map[string][]arklet.Biz{
		"": {}, "a": {biz("a", "1")}, "b": {biz("b", "2"), biz("b", "10"), biz("b", "1")}, "bb": {}, "c": {biz("c", "1")}, "d": {},
	} {
		if diff := cmp.Diff(want, s.Versions(name)); diff != "" {
			t.Errorf("versions of %q (-want +got):\n%s", name, diff)
		}
	}
	if m, there := s.Module("b", "10"); !there || m.Version != "10" {
		t.Errorf("b:10 is found: %t, %v", there, m)
	}
	if _, there := s.Module("c", "2"); there {
		t.Error("c:2 is found")
	}
}
