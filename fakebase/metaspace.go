package fakebase

import (
	"cmp"
	"errors"
	"fmt"
)

const (
	mib = 1 << 20
	// defaultMetaspaceUsed is what the base of protocol 7 uses without modules.
	defaultMetaspaceUsed = 53 * mib
	// defaultMetaspaceMax is -XX:MaxMetaspaceSize of the same base.
	defaultMetaspaceMax = 256 * mib
	// defaultModuleMetaspace is the growth that protocol 3.6 shows for an install.
	defaultModuleMetaspace = 3 * mib
	// commitGranule is the step in which the JVM commits metaspace.
	commitGranule = 64 << 10
)

// Metaspace is the model of a JVM's metaspace: it grows with every module and
// is given back, not always whole, when the module goes. All sizes in bytes.
type Metaspace struct {
	// Used is what the base occupies without modules; zero = 53 MiB.
	Used int64 `json:"used,omitempty"`
	// Max is -XX:MaxMetaspaceSize; zero = 256 MiB, -1 = not set, no limit.
	Max int64 `json:"max,omitempty"`
	// PerModule is what a module occupies that the catalogue gives no size; zero = 3 MiB.
	PerModule int64 `json:"perModule,omitempty"`
	// Leak is the share of a module's metaspace that its uninstall does not give
	// back, 0 to 1; zero = none.
	Leak float64 `json:"leak,omitempty"`
	// Threshold refuses installs that would bring the used share above so many
	// percent of Max; zero = no check before an install, as in a real base.
	Threshold int `json:"threshold,omitempty"`
}

func (m Metaspace) normalise() Metaspace {
	m.Used = cmp.Or(m.Used, defaultMetaspaceUsed)
	m.Max = cmp.Or(m.Max, defaultMetaspaceMax)
	m.PerModule = cmp.Or(m.PerModule, defaultModuleMetaspace)
	return m
}

func (m Metaspace) validate() error {
	var errs []error
	if m.Used < 0 || m.PerModule < 0 {
		errs = append(errs, errors.New("option Metaspace: sizes must not be negative"))
	}
	if m.Max < -1 {
		errs = append(errs, fmt.Errorf("option Metaspace.Max %d: must be a size in bytes, or -1 for no limit", m.Max))
	}
	if m.Max > 0 && m.Used > m.Max {
		errs = append(errs, fmt.Errorf("option Metaspace.Used %d: is more than Max %d", m.Used, m.Max))
	}
	if !(m.Leak >= 0 && m.Leak <= 1) {
		errs = append(errs, fmt.Errorf("option Metaspace.Leak %v: must be between 0 and 1", m.Leak))
	}
	if m.Threshold < 0 || m.Threshold > 100 {
		errs = append(errs, fmt.Errorf("option Metaspace.Threshold %d: must be a percentage", m.Threshold))
	}
	return errors.Join(errs...)
}

// MetaspaceStatus is how much metaspace a base has used, in bytes.
type MetaspaceStatus struct {
	Used      int64 `json:"used"`
	Committed int64 `json:"committed"`
	// Max is -1 when there is no limit.
	Max int64 `json:"max"`
}

// metaspace is the metaspace of one process. Its owner locks.
type metaspace struct {
	model     Metaspace
	used      int64
	committed int64 // never shrinks: the JVM keeps what it has committed
}

func newMetaspace(model Metaspace) metaspace {
	m := metaspace{model: model}
	m.add(model.Used)
	return m
}

// fits reports whether size more bytes are available.
func (m *metaspace) fits(size int64) bool {
	return m.model.Max < 0 || m.used+size <= m.model.Max
}

// allowed reports whether an install of size bytes passes the threshold check.
func (m *metaspace) allowed(size int64) bool {
	if m.model.Threshold == 0 || m.model.Max < 0 {
		return true
	}
	return float64(m.used+size) <= float64(m.model.Max)*float64(m.model.Threshold)/100
}

func (m *metaspace) add(size int64) {
	m.used += size
	granules := (m.used + commitGranule - 1) / commitGranule
	m.committed = max(m.committed, granules*commitGranule)
	if m.model.Max >= 0 {
		m.committed = min(m.committed, m.model.Max)
	}
}

func (m *metaspace) giveBack(size int64) {
	m.used -= size - int64(float64(size)*m.model.Leak)
}

// status reports the figures; full makes them those of an exhausted metaspace.
func (m *metaspace) status(full bool) MetaspaceStatus {
	s := MetaspaceStatus{Used: m.used, Committed: m.committed, Max: m.model.Max}
	if full && s.Max >= 0 {
		s.Used, s.Committed = s.Max, s.Max
	}
	return s
}
