package fakebase

import (
	"cmp"
	"errors"
	"fmt"
)

const (
	mib = 1 << 20
	// defaultMetaspaceUsed is the default of Metaspace.Used.
	defaultMetaspaceUsed = 53 * mib
	// defaultMetaspaceMax is the default of Metaspace.Max.
	defaultMetaspaceMax = 256 * mib
	// defaultModuleMetaspace is the default of Metaspace.PerModule.
	defaultModuleMetaspace = 3 * mib
	// commitGranule is the unit in which the JVM commits metaspace.
	commitGranule = 64 << 10
)

// Metaspace is a model of the metaspace of a JVM. Each installed module uses metaspace. When the module is
// uninstalled, this metaspace is freed completely or partly. Sizes are in bytes.
type Metaspace struct {
	// Used is the metaspace usage of the base without modules. Default: 53 MiB.
	Used int64 `json:"used,omitempty"`
	// Max is -XX:MaxMetaspaceSize; -1 = unlimited. Default: 256 MiB.
	Max int64 `json:"max,omitempty"`
	// PerModule is the metaspace usage of a module whose size is not in the catalogue. Default: 3 MiB.
	PerModule int64 `json:"perModule,omitempty"`
	// Leak is the share of the metaspace of a module that is not freed when the module is uninstalled, 0 to 1. Default:
	// 0.
	Leak float64 `json:"leak,omitempty"`
	// Threshold is the maximum usage as a percentage of Max. Installs that would exceed it are rejected. Default: no
	// check, as on a real base.
	Threshold int `json:"threshold,omitempty"`
}

func (m Metaspace) withDefaults() Metaspace {
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
		errs = append(errs, fmt.Errorf("option Metaspace.Used %d: must be at most Metaspace.Max, which is %d",
			m.Used, m.Max))
	}
	if !(m.Leak >= 0 && m.Leak <= 1) {
		errs = append(errs, fmt.Errorf("option Metaspace.Leak %v: must be between 0 and 1", m.Leak))
	}
	if m.Threshold < 0 || m.Threshold > 100 {
		errs = append(errs, fmt.Errorf("option Metaspace.Threshold %d: must be from 0 to 100", m.Threshold))
	}
	return errors.Join(errs...)
}

// MetaspaceStatus is the metaspace usage of a base in bytes.
type MetaspaceStatus struct {
	Used      int64 `json:"used"`
	Committed int64 `json:"committed"`
	// Max is the maximum metaspace; -1 if there is no limit.
	Max int64 `json:"max"`
}

// metaspace is the metaspace state of one process. It is not safe for concurrent use.
type metaspace struct {
	model     Metaspace
	used      int64
	committed int64 // committed metaspace; does not shrink, as in a JVM
}

func newMetaspace(model Metaspace) metaspace {
	m := metaspace{model: model}
	m.add(model.Used)
	return m
}

// fits reports whether size additional bytes of metaspace are available.
func (m *metaspace) fits(size int64) bool {
	return m.model.Max < 0 || m.used+size <= m.model.Max
}

// passesThreshold reports whether the install of a module with size bytes passes the threshold check.
func (m *metaspace) passesThreshold(size int64) bool {
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

func (m *metaspace) free(size int64) {
	m.used -= size - int64(float64(size)*m.model.Leak)
}

// status returns the metaspace usage. If exhausted is true, it reports an exhausted metaspace.
func (m *metaspace) status(exhausted bool) MetaspaceStatus {
	s := MetaspaceStatus{Used: m.used, Committed: m.committed, Max: m.model.Max}
	if exhausted && s.Max >= 0 {
		s.Used, s.Committed = s.Max, s.Max
	}
	return s
}
