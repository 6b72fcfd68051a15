package supervise

import "time"

// StateChange is a change in the state of a component.
type StateChange struct {
	Name  string
	Time  time.Time
	State State
	// Exit describes how the component exited; empty if it has not exited.
	Exit string
}

func (s *Supervisor) notify(name string, state State, exit string) {
	if s.changed != nil {
		s.changed(StateChange{Name: name, Time: time.Now(), State: state, Exit: exit})
	}
}
