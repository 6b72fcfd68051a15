package fuzz

import (
	"slices"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// simplifications returns the valid schedules that differ from s by one simplification. The largest simplifications
// come first.
func (s Schedule) simplifications() (list []Schedule) {
	add := func(change func(*Schedule)) {
		c := s.clone()
		change(&c)
		if c.valid() {
			list = append(list, c)
		}
	}
	if n := len(s.Actions); n > 3 {
		add(func(c *Schedule) { c.Actions = c.Actions[:n/2] })
		add(func(c *Schedule) { c.Actions = c.Actions[n/2:] })
	}
	for i := range s.Actions {
		add(func(c *Schedule) {
			c.Actions = slices.Delete(c.Actions, i, i+1)
			for k := range c.Actions[:i] { // disruptions around it still end with the same action
				if m := &c.Actions[k]; m.Lasts > i-k {
					m.Lasts--
				}
			}
		})
	}
	if len(s.Workloads) > 1 {
		for i := range s.Workloads {
			add(func(c *Schedule) {
				c.Workloads = slices.Delete(c.Workloads, i, i+1)
				c.Actions = slices.DeleteFunc(c.Actions,
					func(m Action) bool { return m.Workload == i && !actionSpecs[m.Do].isDisruption() })
				for k := range c.Actions {
					if c.Actions[k].Workload >= i && c.Actions[k].Workload > 0 {
						c.Actions[k].Workload--
					}
				}
			})
		}
	}
	if s.Replicas > 1 {
		add(func(c *Schedule) {
			c.Replicas = 1
			for k := range c.Actions {
				c.Actions[k].Replica = min(c.Actions[k].Replica, 1)
			}
		})
	}
	if len(s.Bases) > 1 {
		for i := range s.Bases {
			add(func(c *Schedule) { c.Bases = slices.Delete(c.Bases, i, i+1); c.fit() })
		}
	}
	for i, b := range s.Bases {
		if b.Count > 1 {
			add(func(c *Schedule) { c.Bases[i].Count = 1; c.fit() })
			add(func(c *Schedule) { c.Bases[i].Count--; c.fit() })
		}
		if b.InstallTime > 0 {
			add(func(c *Schedule) { c.Bases[i].InstallTime = 0 })
		}
		if b.RequestTime > 0 {
			add(func(c *Schedule) { c.Bases[i].RequestTime = 0 })
		}
		if b.Activation != v1alpha1.ActivationNewModule {
			add(func(c *Schedule) { c.Bases[i].Activation = v1alpha1.ActivationNewModule })
		}
	}
	for i, w := range s.Workloads {
		if w.Kind != deployment {
			add(func(c *Schedule) { c.Workloads[i].Kind = deployment })
		}
	}
	for i, m := range s.Actions {
		if m.When != Immediately {
			add(func(c *Schedule) { c.Actions[i].When, c.Actions[i].Nth = Immediately, 0 })
		}
		if m.Lasts > 0 {
			add(func(c *Schedule) { c.Actions[i].Lasts = 0 })
		}
		if m.Skip > 0 {
			add(func(c *Schedule) { c.Actions[i].Skip = 0 })
		}
		if m.For > 0 {
			add(func(c *Schedule) { c.Actions[i].For = 0 })
		}
	}
	return list
}

// fit adapts the workloads and actions of a schedule after the number of bases was reduced.
func (s *Schedule) fit() {
	bases := s.bases()
	for i := range s.Workloads {
		s.Workloads[i].fit(len(bases))
	}
	for i := range s.Actions {
		if m := &s.Actions[i]; m.Base != "" && len(bases) > 0 && !slices.Contains(bases, m.Base) {
			m.Base = bases[0]
		}
	}
}
