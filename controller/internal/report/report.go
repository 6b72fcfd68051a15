// Package report posts failures as DingTalk messages to web hooks (Module Controller V2 document 5.4, REPORT_HOOKS).
//
// Events that a hook does not accept in time are dropped and counted. They are logged once a minute. The address of a hook has
// its token, so logs and errors have only its host name, and redirects are not followed. Texts of bases are escaped.
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
	// Hooks are the addresses of DingTalk robots; see ParseHooks.
	Hooks []*url.URL
	// Transport sends the messages. Default: http.DefaultTransport.
	Transport http.RoundTripper
	Counters  Counters
	// Logger gets a line for each failed message, and one per minute about dropped events.
	Logger *slog.Logger
}

// Counters count the messages of all hooks.
type Counters struct {
	// Sent counts the accepted messages, Failed those whose attempts have failed, and Dropped the events that did not fit
	// into the queue or were not sent before the end.
	Sent, Failed, Dropped prometheus.Counter
}

// Causes of invalid hooks.
var (
	errNoAddress    = errors.New("is no https address: separate addresses by a semicolon")
	errNotEncrypted = errors.New("is an http address, on which others read its token: " +
		"use https, or set REPORT_HOOKS_ALLOW_HTTP to true")
)

// ParseHooks parses REPORT_HOOKS: addresses separated by semicolons. The fragment of an address is the secret that signs its
// messages. allowHTTP accepts addresses with http, which does not encrypt the token and the messages. The error has the
// position of an invalid address, not the address.
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

// Reporter reports events. Make it with New.
type Reporter struct {
	o     Options
	hooks []*hook
}

// New returns a Reporter. It queues events until Start sends them.
func New(o Options) *Reporter {
	o.Transport = cmp.Or(o.Transport, http.DefaultTransport)
	r := &Reporter{o: o}
	for _, address := range o.Hooks {
		r.hooks = append(r.hooks, newHook(o, address))
	}
	return r
}

// Report queues an event for every hook. It does not block, and may be called concurrently. A hook with a full queue does not
// get the event.
func (r *Reporter) Report(e Event) {
	for _, h := range r.hooks {
		h.offer(e)
	}
}

// Start sends events until ctx is done, and returns nil. It drops the remaining events. Call it once.
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
			r.o.Logger.WarnContext(ctx, "report hook missed events", "hook", h.name, "events", n)
		}
	}
}
