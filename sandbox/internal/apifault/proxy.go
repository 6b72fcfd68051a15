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

// ErrNoController is returned if a fault is set while no controller uses the proxy.
var ErrNoController = errors.New("no module controller uses the API proxy; create the sandbox with " +
	"spec.controller.apiView: true, or set it in the scenario under spec.controller")

// Options are the options of a Proxy.
type Options struct {
	// Dir is the directory for the kubeconfigs of controllers. Other users must not be able to read it. Required.
	Dir string
	// Kubeconfig is the path of a kubeconfig that connects directly to the API server. Required.
	Kubeconfig string
	// Faults contains the faults of the sandbox. Required.
	Faults *fault.Set
	// GroupOf returns the group of bases that an object belongs to, or the empty string for objects without a group.
	// The namespace is empty for cluster-scoped objects. The name is empty for create requests. GroupOf must not
	// block. Default: no object belongs to a group.
	GroupOf func(namespace, name string) string
	// Kill kills the controller with the number n and blocks until the controller has exited. Required for faults
	// that kill controllers.
	Kill func(n int)
}

// Proxy forwards the requests of controllers to the API server. It listens on one port per controller. Its methods may
// be called concurrently.
type Proxy struct {
	o     Options
	rules *rules

	mu        sync.Mutex
	endpoints map[int]*endpoint // by controller number
	stopped   bool
}

// New returns a proxy without controllers.
func New(o Options) *Proxy {
	if o.GroupOf == nil {
		o.GroupOf = func(string, string) string { return "" }
	}
	return &Proxy{o: o, rules: newRules(o), endpoints: map[int]*endpoint{}}
}

// Start runs the proxy until ctx ends. It then clears all API faults, aborts in-flight requests and closes the ports.
func (p *Proxy) Start(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	p.stopped = true
	endpoints := p.endpoints
	p.endpoints = map[int]*endpoint{}
	p.mu.Unlock()
	p.o.Faults.Clear(func(i fault.Injection) bool { return i.Target == v1alpha1.TargetAPI })
	var errs []error
	for _, e := range endpoints {
		errs = append(errs, e.close())
	}
	return errors.Join(errs...)
}

// AddController opens a port for controller n, counted from 1. It returns the path of a kubeconfig that connects the
// controller to this port. If the port is already open, AddController only rereads the address and the credentials of
// the API server from Options.Kubeconfig.
func (p *Proxy) AddController(name string, n int) (kubeconfig string, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.o.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("reading the controller's kubeconfig: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return "", errors.New("the API proxy has been stopped")
	}
	to, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", fmt.Errorf("reading the address of the API server: %w", err)
	}
	next, err := rest.TransportFor(config)
	if err != nil {
		return "", fmt.Errorf("creating the transport for the API server: %w", err)
	}
	e, known := p.endpoints[n]
	if !known {
		e, err = newEndpoint(p.o.Dir, name, func() { p.rules.recordBlocked(n) })
		if err != nil {
			return "", err
		}
	}
	p.rules.setUpstream(n, next, e.valve)
	e.setUpstream(to, &transport{replica: n, rules: p.rules, next: next, prefix: strings.TrimSuffix(to.Path, "/")})
	if !known {
		p.endpoints[n] = e
		e.serve()
	}
	return e.kubeconfig, nil
}

// Inject sets a fault and returns its ID. The fault must be valid and have its defaults set. For an oldList fault,
// Inject blocks until it has read the lists from the API server.
func (p *Proxy) Inject(ctx context.Context, i fault.Injection) (id string, err error) {
	p.mu.Lock()
	_, known := p.endpoints[i.Replica]
	inUse := len(p.endpoints) > 0
	p.mu.Unlock()
	switch {
	case !inUse:
		return "", ErrNoController
	case i.Replica != 0 && !known:
		return "", fmt.Errorf("controller %d: %w", i.Replica, fault.ErrUnknown)
	}
	return p.rules.inject(ctx, i)
}

// ForgetGroup removes a group. From then on, writes to objects of the group count as writes to objects without a
// group.
func (p *Proxy) ForgetGroup(group string) { p.rules.forgetGroup(group) }

// Writes counts the write requests that the controllers have sent.
type Writes struct {
	// By contains the number of write requests by controller number, and then by verb and resource, such as "update
	// pods/status".
	By map[int]map[string]int `json:"by"`
	// Last is the time of the last write to an object other than a Lease; zero if there was none.
	Last time.Time `json:"last,omitzero"`
}

// Writes counts the writes to objects of a group and to objects without a group. If group is empty, it counts all
// writes.
func (p *Proxy) Writes(group string) Writes { return p.rules.writesOf(group) }
