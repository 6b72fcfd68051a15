// Package report tells people about failures: it posts events as DingTalk messages to web hooks
// (Module Controller V2 document 5.4, REPORT_HOOKS).
//
// Report never blocks. What a hook does not take in time is dropped, counted and, once a minute,
// logged: a hook that is slow or dead costs neither the controller nor the other hooks anything. A
// hook's address holds its token, so logs and errors name the host alone, and redirects are not
// followed. What bases say shows in a message as text, whatever it is.
package report

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options says where events go. Only Logger is required.
type Options struct {
	// Hooks are the addresses of DingTalk robots; see ParseHooks. None means that nothing is
	// reported.
	Hooks []*url.URL
	// Transport carries the messages. Default: http.DefaultTransport.
	Transport http.RoundTripper
	// Queue is how many events wait for one hook before further ones are dropped. Default: 256.
	Queue int
	// Counters count messages; nil counters are left out.
	Counters Counters
	// Logger gets a line for each message that failed, and one a minute on dropped events.
	Logger *slog.Logger
}

// Counters count messages of all hooks. Register them where the controller's metrics are.
type Counters struct {
	// Sent counts messages that a hook took, Failed those that it did not take in the end, Dropped
	// events that found a queue full or were still waiting at the end.
	Sent, Failed, Dropped prometheus.Counter
}

// ParseHooks reads the value of REPORT_HOOKS: addresses separated by ";". Empty ones are skipped. What
// stands behind the "#" of an address is the secret of a robot that wants messages signed. allowHTTP
// takes addresses of http too, on which the token and the messages can be read on the way. The error
// names the position of a bad address and not the address, which may hold a token.
func ParseHooks(value string, allowHTTP bool) ([]*url.URL, error) {
	var hooks []*url.URL
	for i, text := range strings.Split(value, ";") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		hook, err := url.Parse(text)
		if err != nil || hook.Scheme != "http" && hook.Scheme != "https" || hook.Host == "" || strings.Contains(hook.Host, ",") {
			return nil, fmt.Errorf("report hook %d is no https address: separate addresses by a semicolon", i+1)
		}
		if hook.Scheme == "http" && !allowHTTP {
			return nil, fmt.Errorf("report hook %d is an http address, on which others read its token: use https, or set REPORT_HOOKS_ALLOW_HTTP to true", i+1)
		}
		hooks = append(hooks, hook)
	}
	return hooks, nil
}

// Reporter reports events. Make it with New. Report may be called concurrently.
type Reporter struct {
	o     Options
	hooks []*hook
}

// New returns a Reporter. Events are queued from now on and sent once Start runs.
func New(o Options) *Reporter {
	o.Transport = cmp.Or(o.Transport, http.DefaultTransport)
	o.Queue = cmp.Or(o.Queue, 256)
	r := &Reporter{o: o}
	for _, address := range o.Hooks {
		r.hooks = append(r.hooks, newHook(o, address))
	}
	return r
}

// Report queues an event for every hook. It never blocks; a hook whose queue is full misses the
// event.
func (r *Reporter) Report(e Event) {
	for _, h := range r.hooks {
		h.offer(e)
	}
}

// Start sends events until ctx is done, and returns nil. Events that wait then are dropped. Call it
// once.
func (r *Reporter) Start(ctx context.Context) error {
	var senders sync.WaitGroup
	for _, h := range r.hooks {
		senders.Go(func() { h.send(ctx) })
	}
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for {
		select {
		case <-minute.C:
			r.logDropped(ctx)
		case <-ctx.Done():
			senders.Wait()
			for _, h := range r.hooks {
				h.dropRest()
			}
			r.logDropped(ctx)
			return nil
		}
	}
}

func (r *Reporter) logDropped(ctx context.Context) {
	for _, h := range r.hooks {
		if n := h.dropped.Swap(0); n > 0 {
			r.o.Logger.WarnContext(ctx, "report hook missed events", "hook", h.name, "events", n)
		}
	}
}

func count(counter prometheus.Counter) {
	if counter != nil {
		counter.Inc()
	}
}
