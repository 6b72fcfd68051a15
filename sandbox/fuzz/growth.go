package fuzz

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox"
)

const (
	// settledAfter is after how many schedules the memory of a controller is taken as what it needs,
	// and longLife after how many more growth is looked for.
	settledAfter, longLife = 5, 15
	// growthAllowed is how much a controller may grow besides doubling.
	growthAllowed = 32 << 20
)

// growth watches the memory of the controllers over the schedules that each process lives through.
// It may be used concurrently; its zero value knows none.
type growth struct {
	mu    sync.Mutex
	lives map[string]*life // by sandbox and controller
}

// life is that of one process.
type life struct {
	began     time.Time
	schedules int
	needs     uint64 // bytes
}

// look notes what controllers need after a schedule, when nothing of it is left. It returns what is
// wrong, empty if nothing is.
func (g *growth) look(status *sandbox.Status) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lives == nil {
		g.lives = map[string]*life{}
	}
	for _, c := range status.Components {
		if !strings.HasPrefix(c.Name, controller) || c.RSS == 0 {
			continue
		}
		key := status.Name + "/" + c.Name
		l := g.lives[key]
		if l == nil || !l.began.Equal(c.StartedAt) {
			l = &life{began: c.StartedAt}
			g.lives[key] = l
		}
		l.schedules++
		switch {
		case l.schedules == settledAfter:
			l.needs = c.RSS
		case l.schedules >= settledAfter+longLife && c.RSS > 2*l.needs+growthAllowed:
			delete(g.lives, key) // told once
			return fmt.Sprintf("%s needs %d MiB after %d schedules, and needed %d MiB after %d", c.Name, c.RSS>>20, l.schedules, l.needs>>20, settledAfter)
		}
	}
	return ""
}
