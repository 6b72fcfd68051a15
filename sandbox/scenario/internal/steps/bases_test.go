package steps

import (
	"testing"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

func TestBaseWithoutNode(t *testing.T) {
	e := &Env{Options: Options{Run: expr.Run{Env: "dev"}}}
	one := 1
	for _, set := range []v1alpha1.BaseSet{
		{Name: "foreign", Count: &one, Env: "other"},
		{Name: "mute", Count: &one, Faults: []v1alpha1.Fault{{Kind: fault.KindStartFailed}}},
	} {
		if e.getsNode(set) {
			t.Errorf("set %s is expected to get Nodes", set.Name)
		}
	}
	if !e.getsNode(v1alpha1.BaseSet{Env: "dev", Faults: []v1alpha1.Fault{{Kind: fault.KindError}}}) {
		t.Error("the set is not expected to get Nodes")
	}
}
