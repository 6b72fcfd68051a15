package base

import (
	"strings"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// TestGrowth checks that only the used metaspace that releases leave behind is reported.
func TestGrowth(t *testing.T) {
	type step struct {
		modules string // NAME:VERSION, with ! before a module that is being installed
		used    int64
		want    Growth
	}
	const none = -1 // no health document
	for name, steps := range map[string][]step{
		"leak": {
			{"", 50, Growth{}}, {"a:1", 53, Growth{}}, {"a:1 !a:2", 56, Growth{}}, {"a:2", 55, Growth{2, 1}},
			{"a:2 a:3", 58, Growth{2, 1}}, {"a:3", none, Growth{2, 1}}, {"a:4", 59, Growth{6, 3}},
			{"a:4 b:1", 70, Growth{6, 3}}, // other modules are not compared
			{"a:5 b:1", 72, Growth{2, 1}},
		},
		"no leak": {{"a:1", 53, Growth{}}, {"a:2", 53, Growth{0, 1}}, {"a:3", 53, Growth{0, 2}}},
		"classes are freed later": {
			{"a:1", 53, Growth{}}, {"a:2", 56, Growth{3, 1}}, {"a:2", 53, Growth{0, 1}}, {"a:3", 53, Growth{0, 2}},
		},
		"the first usage is too high": {{"a:1", 60, Growth{}}, {"a:1", 53, Growth{}}, {"a:2", 55, Growth{2, 1}}},
		"no release": {
			{"a:1", 53, Growth{}}, {"a:1", 60, Growth{}}, {"a:1 b:1", 70, Growth{}}, {"a:1 b:1", 71, Growth{}},
		},
	} {
		w := newFixture()
		_, _ = w.HandleHeartbeat(overMQTT("a"), beat("1.0.0"))
		for i, s := range steps {
			var list []arklet.Biz
			for _, m := range strings.Fields(s.modules) {
				name, installing := strings.CutPrefix(m, "!")
				b := arklet.Biz{State: arklet.StateActivated}
				b.Name, b.Version, _ = strings.Cut(name, ":")
				if installing {
					b.State = arklet.StateResolved
				}
				list = append(list, b)
			}
			w.SetModules(overMQTT("a"), list)
			if s.used != none {
				w.SetHealth(overMQTT("a"), arklet.Health{MetaspaceUsed: s.used, RunTime: time.Duration(i)})
			}
			if got, _ := w.Get("a"); got.Growth != s.want {
				t.Errorf("%s, step %d: growth %+v, want %+v", name, i+1, got.Growth, s.want)
			}
		}
		w.SetHealth(overMQTT("a"), arklet.Health{MetaspaceUsed: 90}) // the JVM has restarted
		if got, _ := w.Get("a"); got.Growth != (Growth{}) {
			t.Errorf("%s: growth %+v of the previous JVM", name, got.Growth)
		}
	}
}
