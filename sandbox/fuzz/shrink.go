package fuzz

import (
	"slices"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// smaller returns the valid schedules that are simpler than s by one change, the largest changes first.
func (s Schedule) smaller() (list []Schedule) {
	add := func(change func(*Schedule)) {
		c := s.clone()
		change(&c)
		if c.valid() {
			list = append(list, c)
		}
	}
	if n := len(s.Moves); n > 3 {
		add(func(c *Schedule) { c.Moves = c.Moves[:n/2] })
		add(func(c *Schedule) { c.Moves = c.Moves[n/2:] })
	}
	for i := range s.Moves {
		add(func(c *Schedule) {
			c.Moves = slices.Delete(c.Moves, i, i+1)
			for k := range c.Moves[:i] { // disturbances around it still end with the same move
				if m := &c.Moves[k]; m.Lasts > i-k {
					m.Lasts--
				}
			}
		})
	}
	if len(s.Workloads) > 1 {
		for i := range s.Workloads {
			add(func(c *Schedule) {
				c.Workloads = slices.Delete(c.Workloads, i, i+1)
				c.Moves = slices.DeleteFunc(c.Moves,
					func(m Move) bool { return m.Workload == i && !moves[m.Do].disturbs() })
				for k := range c.Moves {
					if c.Moves[k].Workload >= i && c.Moves[k].Workload > 0 {
						c.Moves[k].Workload--
					}
				}
			})
		}
	}
	if s.Replicas > 1 {
		add(func(c *Schedule) {
			c.Replicas = 1
			for k := range c.Moves {
				c.Moves[k].Replica = min(c.Moves[k].Replica, 1)
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
	for i, m := range s.Moves {
		if m.When != AtOnce {
			add(func(c *Schedule) { c.Moves[i].When, c.Moves[i].Nth = AtOnce, 0 })
		}
		if m.Lasts > 0 {
			add(func(c *Schedule) { c.Moves[i].Lasts = 0 })
		}
		if m.Skip > 0 {
			add(func(c *Schedule) { c.Moves[i].Skip = 0 })
		}
		if m.For > 0 {
			add(func(c *Schedule) { c.Moves[i].For = 0 })
		}
	}
	return list
}

// fit adapts workloads and moves to fewer bases.
func (s *Schedule) fit() {
	bases := s.bases()
	for i := range s.Workloads {
		s.Workloads[i].fit(len(bases))
	}
	for i := range s.Moves {
		if m := &s.Moves[i]; m.Base != "" && len(bases) > 0 && !slices.Contains(bases, m.Base) {
			m.Base = bases[0]
		}
	}
}
