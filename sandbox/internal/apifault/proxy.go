package apifault

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
	"github.com/koupleless/koupsandbox/sandbox/fault"
)

// ErrNone is returned when a fault is set though no controller goes through the proxy.
var ErrNone = errors.New("no module controller goes through the proxy: bring the sandbox up with " +
	"spec.controller.apiView: true, or give the scenario that under spec.controller")

// Options of a Proxy.
type Options struct {
	// Dir is the directory for the kubeconfigs of controllers, which nobody else can read. Required.
	Dir string
	// Kubeconfig is the path of the kubeconfig that controllers have without the proxy. Required.
	Kubeconfig string
	// Faults of the sandbox. Required.
	Faults *fault.Set
	// GroupOf tells to which group of bases an object belongs, by its namespace, which is empty for
	// what has none, and its name, which is empty for a create; empty = none. It must not block.
	// Default: none has a group.
	GroupOf func(namespace, name string) string
	// Kill kills the n-th controller, for faults that do so. It blocks until that has ended. Required
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
	if o.GroupOf == nil {
		o.GroupOf = func(string, string) string { return "" }
	}
	return &Proxy{o: o, rules: newRules(o), doors: map[int]*door{}}
}

// Start blocks until ctx ends; then it ends all open requests.
func (p *Proxy) Start(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	p.ended = true
	doors := p.doors
	p.doors = map[int]*door{}
	p.mu.Unlock()
	p.o.Faults.Clear(func(i fault.Injection) bool { return i.Target == v1alpha1.TargetAPI })
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
		d, err = newDoor(p.o.Dir, name, func() { p.rules.stopped(n) })
		if err != nil {
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

// Inject sets a valid fault that has its defaults, and returns its ID.
func (p *Proxy) Inject(ctx context.Context, i fault.Injection) (id string, err error) {
	p.mu.Lock()
	_, one := p.doors[i.Replica]
	led := len(p.doors) > 0
	p.mu.Unlock()
	switch {
	case !led:
		return "", ErrNone
	case i.Replica != 0 && !one:
		return "", fmt.Errorf("controller %d: %w", i.Replica, fault.ErrUnknown)
	}
	return p.rules.set(ctx, i)
}

// Forget counts the writes to the objects of a group as nobody's.
func (p *Proxy) Forget(group string) { p.rules.forget(group) }

// Writes are the writes that controllers have sent.
type Writes struct {
	// By has how many there were, by the number of the controller, and by verb and resource, such as
	// "update pods/status".
	By map[int]map[string]int `json:"by"`
	// Last is when they have last written anything but a Lease; zero = never.
	Last time.Time `json:"last,omitzero"`
}

// Writes returns the writes to the objects of a group and to those of no group; to all if it is empty.
func (p *Proxy) Writes(group string) Writes { return p.rules.written(group) }
