package apiview

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// ErrNone is returned when a rule is set though no controller goes through the proxy.
var ErrNone = errors.New("no module controller goes through the proxy: bring the sandbox up with spec.controller.apiView: true, or give the scenario that under spec.controller")

// ErrUnknown is returned, wrapped, when there is and was no rule of an id, or no such controller.
var ErrUnknown = errors.New("there is none")

// Options of a Proxy.
type Options struct {
	// Dir is the folder for the kubeconfigs of controllers, which nobody else can read. Required.
	Dir string
	// Kubeconfig is the path of the kubeconfig that controllers have without the proxy. Required.
	Kubeconfig string
	// Changed is told what the rules of a group do: that they are set, fire and end. It must not block.
	// Default: nobody is told.
	Changed func(group string, e timeline.Event)
	// GroupOf tells to which group of bases an object belongs, by its namespace, which is empty for
	// what has none, and its name, which is empty for a create; empty = none. It must not block.
	// Default: none has a group.
	GroupOf func(namespace, name string) string
	// Kill kills the n-th controller, for rules that do so. It blocks until that has ended. Required
	// for them.
	Kill func(n int)
}

// Proxy leads controllers to the API server. Its methods may be called concurrently. Without
// controllers it listens nowhere.
type Proxy struct {
	o     Options
	rules *rules

	mu    sync.Mutex
	doors map[int]*door // by the number of the controller
	ended bool
}

// New returns a proxy through which nobody goes.
func New(o Options) *Proxy {
	if o.Changed == nil {
		o.Changed = func(string, timeline.Event) {}
	}
	if o.GroupOf == nil {
		o.GroupOf = func(string, string) string { return "" }
	}
	return &Proxy{o: o, rules: newRules(o), doors: map[int]*door{}}
}

// Start blocks until ctx ends; then it ends all that goes on.
func (p *Proxy) Start(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	p.ended = true
	doors := p.doors
	p.doors = map[int]*door{}
	p.mu.Unlock()
	p.rules.clear(func(*rule) bool { return true })
	var errs []error
	for _, d := range doors {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}

// Lead leads the n-th controller, from 1, through the proxy, and returns the path of the kubeconfig
// that it is to use. The path stays the same as long as the proxy lives, and the identity towards the
// API server is that of Options.Kubeconfig as it is now.
func (p *Proxy) Lead(name string, n int) (kubeconfig string, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.o.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("reading the controller's kubeconfig: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return "", errors.New("the proxy to the API server has ended")
	}
	to, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", fmt.Errorf("reading the address of the API server: %w", err)
	}
	next, err := rest.TransportFor(config)
	if err != nil {
		return "", fmt.Errorf("making the way to the API server: %w", err)
	}
	d, known := p.doors[n]
	if !known {
		if d, err = newDoor(p.o.Dir, name, func() { p.rules.stopped(n) }); err != nil {
			return "", err
		}
	}
	p.rules.lead(n, next, d.valve)
	d.lead(to, &transport{replica: n, rules: p.rules, next: next, prefix: strings.TrimSuffix(to.Path, "/")})
	if !known {
		p.doors[n] = d
		d.open()
	}
	return d.kubeconfig, nil
}

// Set sets a rule for the n-th controller, 0 = all, on behalf of a group of bases, if any. The rule
// has its defaults and is valid.
func (p *Proxy) Set(ctx context.Context, r v1alpha1.APIRule, n int, group string) error {
	p.mu.Lock()
	_, one := p.doors[n]
	led := len(p.doors) > 0
	p.mu.Unlock()
	switch {
	case !led:
		return ErrNone
	case n != 0 && !one:
		return fmt.Errorf("controller %d: %w", n, ErrUnknown)
	}
	return p.rules.set(ctx, Status{APIRule: r, Replica: n, Group: group})
}

// Clear ends the rule of a group with an id, or all if it is *; with an empty group, those of any. One
// that has ended already is no error; ErrUnknown is returned, wrapped, for one that never was.
func (p *Proxy) Clear(group, id string) error {
	known := p.rules.clear(func(x *rule) bool { return (id == "*" || x.ID == id) && (group == "" || x.Group == group) })
	if !known && id != "*" {
		return fmt.Errorf("rule %s: %w", id, ErrUnknown)
	}
	return nil
}

// Drop ends the rules of a group and forgets them.
func (p *Proxy) Drop(group string) {
	p.rules.clear(func(x *rule) bool { return x.Group == group })
	p.rules.forget(group)
}

// View is what the proxy has seen and done.
type View struct {
	// Rules are those that were set, ended ones too, the first first.
	Rules []Status `json:"rules"`
	// Writes is how many writes controllers have sent, by verb and resource, such as "update
	// pods/status"; those of each by its number.
	Writes map[int]map[string]int `json:"writes"`
	// Wrote is when they have last written anything but a Lease; zero = never.
	Wrote time.Time `json:"wrote,omitzero"`
}

// View tells the rules of a group, and the writes to its objects and to those of no group; of all if it
// is empty.
func (p *Proxy) View(group string) View { return p.rules.view(group) }
