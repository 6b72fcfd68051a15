package vpod

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
)

// The ledger of a base says what Pods had put there. A Pod may leave the API while its base is away,
// or while no controller runs; what it had put there is then unwanted, and only the ledger tells it
// from what no Pod ever asked for.

// placementRecord is one version in a ledger.
type placementRecord struct {
	Name    string `json:"n"`
	Version string `json:"v"`
	// URL is the jar, if it is known.
	URL string `json:"u,omitempty"`
}

// maxLedger is the most bytes of a ledger: it is an annotation, of which an object has 256 KiB. A
// longer one leaves out the URLs, and then the rest.
const maxLedger = 64 << 10

// Ledger returns what Pods had put on a base, to be kept where it outlives this controller; empty if
// there is nothing.
func (p *Provider) Ledger(identity string) string {
	var all []placementRecord
	p.store.read(func() {
		for name, l := range p.store.byBase[identity] {
			for version, installed := range l.memory.Installed {
				all = append(all, placementRecord{name, version, installed.URL})
			}
		}
	})
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, func(a, b placementRecord) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	text, _ := json.Marshal(all) // strings only
	if len(text) > maxLedger {
		for i := range all {
			all[i].URL = ""
		}
		text, _ = json.Marshal(all)
	}
	for len(text) > maxLedger {
		all = all[:len(all)/2]
		text, _ = json.Marshal(all)
	}
	return string(text)
}

// restore takes up a ledger. What is not listed may come until unsettled: whoever wrote the ledger
// may have sent the install a moment before.
func (s *store) restore(identity, ledger string, unsettled time.Time) error {
	if ledger == "" {
		return nil
	}
	var all []placementRecord
	if err := json.Unmarshal([]byte(ledger), &all); err != nil {
		return fmt.Errorf("reading the ledger of base %q: %w", identity, err)
	}
	s.change(func() {
		for _, r := range all {
			s.needLane(workerKey{identity, r.Name}).memory.Installed[r.Version] = plan.Installed{URL: r.URL, InDoubtUntil: unsettled}
		}
	})
	return nil
}

// Expect notes what a base was told to install at its start, so that it goes if no Pod comes for it.
func (p *Provider) Expect(identity string, modules []arklet.Module) {
	until := time.Now().Add(p.opts.Speed.Of(expectPods))
	p.store.change(func() {
		for _, m := range modules {
			l := p.store.needLane(workerKey{identity, m.Name})
			l.memory.Installed[m.Version] = plan.Installed{URL: m.URL, ExpectedUntil: until}
		}
	})
	p.opts.Remembered(identity)
	names := map[string]bool{}
	for _, m := range modules {
		names[m.Name] = true
	}
	for name := range maps.Keys(names) {
		p.operators.Add(workerKey{identity, name})
	}
}

// expectPods is how long a base that starts may take to install its baseline, and the scheduler to
// bind the Pods for it.
const expectPods = 10 * time.Minute
