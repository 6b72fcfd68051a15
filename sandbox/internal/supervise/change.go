package supervise

import "time"

// Change is a new state of a component.
type Change struct {
	Name  string
	Time  time.Time
	State State
	// Exit says how it ended, when it has exited.
	Exit string
}

func (s *Supervisor) tell(name string, state State, exit string) {
	if s.changed != nil {
		s.changed(Change{Name: name, Time: time.Now(), State: state, Exit: exit})
	}
}
