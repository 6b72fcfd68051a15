// Package report sends failures as DingTalk messages to webhooks (Module Controller V2 document 5.4, REPORT_HOOKS).
//
// Events are dropped and counted if the queue of a hook is full. The number of dropped events is logged once a minute.
// The URL of a hook contains a token. Therefore, logs and errors contain only the host name, and redirects are not
// followed. Texts from bases are escaped.
package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options configure a Reporter. Counters and Logger are required.
type Options struct {
	// Hooks are the webhook URLs of DingTalk robots; see ParseHooks.
	Hooks []*url.URL
	// Transport sends the messages. Default: http.DefaultTransport.
	Transport http.RoundTripper
	Counters  Counters
	// Logger logs each message that could not be sent, and once a minute the number of dropped events.
	Logger *slog.Logger
}

// Counters count messages and events. Each counter covers all hooks of a Reporter.
type Counters struct {
	// Sent counts accepted messages. Failed counts messages for which all attempts failed. Dropped counts events that
	// did not fit into the queue, or that were still queued when the Reporter stopped.
	Sent, Failed, Dropped prometheus.Counter
}

// Errors for invalid hook URLs.
var (
	errNoAddress    = errors.New("is not a valid https URL; use https URLs with a host, separated by semicolons")
	errNotEncrypted = errors.New("is an http URL, which exposes the token in transit; " +
		"use https, or set REPORT_HOOKS_ALLOW_HTTP to true")
)

// ParseHooks parses the value of REPORT_HOOKS, a list of URLs separated by semicolons. The fragment of a URL is the
// secret that signs the messages. If allowHTTP is true, ParseHooks also accepts http URLs, over which the token and
// the messages are sent unencrypted. An error contains the position of the invalid URL in the list, but not the URL
// itself, because the URL is confidential.
func ParseHooks(value string, allowHTTP bool) ([]*url.URL, error) {
	var hooks []*url.URL
	for i, text := range strings.Split(value, ";") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		hook, err := url.Parse(text)
		if err != nil || hook.Scheme != "http" && hook.Scheme != "https" || hook.Host == "" ||
			strings.Contains(hook.Host, ",") {
			return nil, fmt.Errorf("report hook %d %w", i+1, errNoAddress)
		}
		if hook.Scheme == "http" && !allowHTTP {
			return nil, fmt.Errorf("report hook %d %w", i+1, errNotEncrypted)
		}
		hooks = append(hooks, hook)
	}
	return hooks, nil
}

// Reporter sends events to webhooks. Create it with New.
type Reporter struct {
	o     Options
	hooks []*hook
}

// New returns a Reporter. It queues events until Start is called.
func New(o Options) *Reporter {
	o.Transport = cmp.Or(o.Transport, http.DefaultTransport)
	r := &Reporter{o: o}
	for _, address := range o.Hooks {
		r.hooks = append(r.hooks, newHook(o, address))
	}
	return r
}

// Report queues an event for every hook. It does not block, and is safe for concurrent use. If the queue of a hook is
// full, the event is dropped for that hook.
func (r *Reporter) Report(e Event) {
	for _, h := range r.hooks {
		h.enqueue(e)
	}
}

// Start sends events until ctx is done, and returns nil. It drops the events that are still queued at that time. Call
// it once.
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
				for range len(h.queue) {
					h.drop()
				}
			}
			r.logDropped(ctx)
			return nil
		}
	}
}

func (r *Reporter) logDropped(ctx context.Context) {
	for _, h := range r.hooks {
		if n := h.dropped.Swap(0); n > 0 {
			r.o.Logger.WarnContext(ctx, "events for a report hook were dropped", "hook", h.name, "events", n)
		}
	}
}
