package daemon

import (
	"slices"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

// TestSetsOfBases checks that up starts the bases of several sets, that a set can be added to a running sandbox, and
// that another up changes the numbers, adds new sets and removes sets that are no longer configured, but keeps the set
// that was added.
func TestSetsOfBases(t *testing.T) {
	b := newFixture(t)
	config := func(sets ...v1alpha1.BaseSet) control.UpRequest {
		r := request("good", 0)
		r.Config.Spec.Bases = sets
		return r
	}
	set := func(name string, count int) v1alpha1.BaseSet {
		return v1alpha1.BaseSet{Name: name, Count: ptr.To(count)}
	}
	expect := func(want ...string) {
		t.Helper()
		bases, err := b.Bases(t.Context(), "")
		check.Must(t, err)
		var got []string
		for _, base := range bases {
			got = append(got, base.HostName)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("bases %q, want %q", got, want)
		}
	}
	changed := set("web", 2)
	changed.Version = "9.9.9"
	b.up(config(set("web", 2), set("old", 1)))
	expect("old-1", "web-1", "web-2")
	_, err := b.AddBases(t.Context(),
		control.AddRequest{Count: 1, Set: "more", Spec: &v1alpha1.BaseSet{Version: "2.0.0"}})
	check.Must(t, err)
	if _, err := b.AddBases(t.Context(), control.AddRequest{Count: 1, Set: "none"}); err == nil {
		t.Error("AddBases accepted a set that does not exist")
	}
	changed.Count = ptr.To(1)
	result, _ := b.up(config(changed, set("new", 2)))
	expect("more-1", "new-1", "new-2", "web-1")
	want := []string{"changed the number of bases in the set web from 2 to 1",
		"changed the number of bases in the set new from 0 to 2",
		"changed the number of bases in the set old from 1 to 0"}
	if !slices.Equal(result.Changes[:min(3, len(result.Changes))], want) {
		t.Errorf("changes %q", result.Changes)
	}
	// the changed version is not in effect, so the next up must report it again
	if saved := b.daemon.configNow().Spec.Bases; len(saved) != 2 || saved[0].Name != "web" || *saved[0].Count != 1 ||
		*saved[1].Count != 2 || saved[0].Version == "9.9.9" {
		t.Errorf("saved sets %+v", saved)
	}
}
