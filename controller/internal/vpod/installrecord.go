package vpod

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
)

// The ledger of a base has the versions that were installed for Pods. A Pod may be deleted while its base is unreachable or
// no controller runs. The ledger then distinguishes its versions, which must be uninstalled, from those that no Pod has
// requested.

// placementRecord is one version in a ledger.
type placementRecord struct {
	Name    string `json:"n"`
	Version string `json:"v"`
	// URL is the jar, if it is known.
	URL string `json:"u,omitempty"`
}

// maxLedger is the maximum size of a ledger in bytes; the annotations of an object have 256 KiB. A longer ledger leaves out
// the URLs, then versions.
const maxLedger = 64 << 10

// InstallRecord returns the ledger of a base, to be stored where it outlives this controller; empty if there is nothing to store.
func (p *Provider) InstallRecord(identity string) string {
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

// restore reads a ledger. The earlier controller may have sent an install before it stopped: the base may carry it out until
// inDoubt.
func (s *store) restore(identity, ledger string, inDoubt time.Time) error {
	if ledger == "" {
		return nil
	}
	var all []placementRecord
	if err := json.Unmarshal([]byte(ledger), &all); err != nil {
		return fmt.Errorf("reading the ledger of base %q: %w", identity, err)
	}
	s.change(func() {
		for _, r := range all {
			s.needLane(workerKey{identity, r.Name}).memory.Installed[r.Version] = plan.Installed{URL: r.URL,
				InDoubtUntil: inDoubt}
		}
	})
	return nil
}

// ExpectBaseline records the modules that a base installs at its start. They are uninstalled if no Pod requests them.
func (p *Provider) ExpectBaseline(identity string, modules []arklet.Module) {
	until := time.Now().Add(p.opts.TimeScale.Of(expectPods))
	p.store.change(func() {
		for _, m := range modules {
			l := p.store.needLane(workerKey{identity, m.Name})
			l.memory.Installed[m.Version] = plan.Installed{URL: m.URL, ExpectedUntil: until}
		}
	})
	p.opts.InstallRecordChanged(identity)
	for _, m := range modules {
		p.operators.Add(workerKey{identity, m.Name})
	}
}

// expectPods is how long a base may take to install its baseline, and the scheduler to bind the Pods for it.
const expectPods = 10 * time.Minute
