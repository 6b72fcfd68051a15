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

// The install record of a base contains the versions that were installed for Pods. A Pod may be deleted while its base
// is unreachable or no controller runs. The install record then shows which versions the controller must uninstall.
// Versions without a record were never requested by a Pod, and stay installed.

// recordedVersion is one version of a module in an install record.
type recordedVersion struct {
	Name    string `json:"n"`
	Version string `json:"v"`
	// URL is the URL of the installed jar; empty if it is unknown.
	URL string `json:"u,omitempty"`
}

// maxInstallRecord is the maximum size of an install record in bytes. Kubernetes limits all annotations of an object
// to 256 KiB in total. A record that would be larger omits the URLs. If that is not enough, it omits versions.
const maxInstallRecord = 64 << 10

// InstallRecord returns the install record of a base as JSON; empty if no version is installed. The caller saves the
// record outside of this process, and later passes it to Serve.
func (p *Provider) InstallRecord(identity string) string {
	var all []recordedVersion
	p.store.withReadLock(func() {
		for name, l := range p.store.byBase[identity] {
			for version, installed := range l.memory.Installed {
				all = append(all, recordedVersion{name, version, installed.URL})
			}
		}
	})
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, func(a, b recordedVersion) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	text, _ := json.Marshal(all) // strings always marshal
	if len(text) > maxInstallRecord {
		for i := range all {
			all[i].URL = ""
		}
		text, _ = json.Marshal(all)
	}
	for len(text) > maxInstallRecord {
		all = all[:len(all)/2]
		text, _ = json.Marshal(all)
	}
	return string(text)
}

// restoreInstallRecord reads the install record of a base. An earlier controller may have sent an install command
// before it stopped. Until the time inDoubt, the base may still execute this command.
func (s *store) restoreInstallRecord(identity, installRecord string, inDoubt time.Time) error {
	if installRecord == "" {
		return nil
	}
	var all []recordedVersion
	if err := json.Unmarshal([]byte(installRecord), &all); err != nil {
		return fmt.Errorf("decoding the install record of base %q: %w", identity, err)
	}
	s.change(func() {
		for _, r := range all {
			s.ensureSlot(slotKey{identity, r.Name}).memory.Installed[r.Version] = plan.InstalledVersion{URL: r.URL,
				InDoubtUntil: inDoubt}
		}
	})
	return nil
}

// ExpectBaseline records which modules a base installs when it starts: its baseline. These modules are uninstalled if
// no Pod requests them within baselinePodTimeout.
func (p *Provider) ExpectBaseline(identity string, modules []arklet.Module) {
	until := time.Now().Add(p.opts.TimeScale.Of(baselinePodTimeout))
	p.store.change(func() {
		for _, m := range modules {
			l := p.store.ensureSlot(slotKey{identity, m.Name})
			l.memory.Installed[m.Version] = plan.InstalledVersion{URL: m.URL, ExpectedUntil: until}
		}
	})
	p.opts.InstallRecordChanged(identity)
	for _, m := range modules {
		p.operators.Add(slotKey{identity, m.Name})
	}
}

// baselinePodTimeout limits how long to wait until the base has installed its baseline and the scheduler has bound
// the Pods for the baseline.
const baselinePodTimeout = 10 * time.Minute
