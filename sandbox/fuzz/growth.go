package fuzz

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/bench"
)

const (
	// settledAfter is after how many schedules what a controller uses is taken as what it needs, and
	// longLife after how many more growth is looked for.
	settledAfter, longLife = 5, 15
	// bytesAllowed and goroutinesAllowed are how much a controller may grow besides doubling.
	bytesAllowed, goroutinesAllowed = 32 << 20, 200
)

// growth watches the memory and the goroutines of the controllers over the schedules that each process
// lives through. It may be used concurrently; its zero value knows none.
type growth struct {
	mu    sync.Mutex
	lives map[string]*life // by sandbox and controller
}

// life is that of one process.
type life struct {
	began     time.Time
	schedules int
	needs     usage
}

// usage is what a controller uses; goroutines are 0 if nobody tells them.
type usage struct{ bytes, goroutines uint64 }

// look notes what controllers use after a schedule, when nothing of it is left. count tells the
// goroutines by the URL of metrics, 0 if they are not known. It returns which invariant is broken, and
// how; both are empty if none is.
func (g *growth) look(status *sandbox.Status, count func(url string) uint64) (invariant, seen string) {
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
		if l.schedules != settledAfter && l.schedules < settledAfter+longLife {
			continue
		}
		uses := usage{bytes: c.RSS}
		if c.Metrics != "" {
			uses.goroutines = count(c.Metrics)
		}
		switch {
		case l.schedules == settledAfter:
			l.needs = uses
		case uses.bytes > 2*l.needs.bytes+bytesAllowed:
			delete(g.lives, key) // told once
			return "memory", fmt.Sprintf("%s needs %d MiB after %d schedules, and needed %d MiB after %d", c.Name, uses.bytes>>20, l.schedules, l.needs.bytes>>20, settledAfter)
		case l.needs.goroutines > 0 && uses.goroutines > 2*l.needs.goroutines+goroutinesAllowed:
			delete(g.lives, key)
			return "goroutines", fmt.Sprintf("%s has %d goroutines after %d schedules, and had %d after %d", c.Name, uses.goroutines, l.schedules, l.needs.goroutines, settledAfter)
		}
	}
	return "", ""
}

// goroutines asks a controller how many it has; 0 if it does not tell.
func goroutines(ctx context.Context, url string) uint64 {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }() // what counts has been read
	metrics, err := bench.ParseMetrics(response.Body)
	if err != nil {
		return 0
	}
	return uint64(metrics.Sum("go_goroutines", nil))
}
