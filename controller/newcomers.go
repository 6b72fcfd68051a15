package controller

import (
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// newcomers are bases that asked what to install and have said nothing else yet: a base asks before its
// first heartbeat. Anybody can make up identities that ask, so that what is kept of them is bounded, and
// goes when they do not come. The zero value is ready, and its methods may be called concurrently.
type newcomers struct {
	mu    sync.Mutex
	asked map[string]newcomer
}

type newcomer struct {
	at      time.Time
	modules []arklet.Module // that it was told to install
}

// What is not kept of one newcomer more is that its baseline goes when no Pod comes for it.
const (
	maxNewcomers = 1000
	// newcomerTime is how long a base may take from its question to its first heartbeat: it installs
	// its baseline in between.
	newcomerTime = 10 * time.Minute
)

// note keeps what a newcomer was told.
func (n *newcomers) note(identity string, modules []arklet.Module, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, again := n.asked[identity]; !again && len(n.asked) >= maxNewcomers {
		for other, one := range n.asked {
			if now.Sub(one.at) >= newcomerTime {
				delete(n.asked, other)
			}
		}
		if len(n.asked) >= maxNewcomers {
			return
		}
	}
	if n.asked == nil {
		n.asked = map[string]newcomer{}
	}
	n.asked[identity] = newcomer{now, modules}
}

// take returns what a base was told that is a newcomer no more; nil if nothing is known.
func (n *newcomers) take(identity string) []arklet.Module {
	n.mu.Lock()
	defer n.mu.Unlock()
	modules := n.asked[identity].modules
	delete(n.asked, identity)
	return modules
}
