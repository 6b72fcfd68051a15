package main

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is what one expectation has. Nothing of it meets another's: the namespace, the name of its
// bases and the identities are its own.
type world struct {
	*lab
	// name is the namespace and the name that its bases report.
	name string
	bell bell // of what changes here
	// known: the expectation is not going to hold.
	known bool
	// phase is what it waits for together with others; nil for most.
	phase *phase

	mu       sync.Mutex
	bases    []*base
	evidence []string
	failure  string
	skipped  string
	done     bool
}

// fail ends the expectation: it does not hold.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	if !w.done && w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
	w.mu.Unlock()
	runtime.Goexit()
}

// skip ends the expectation: it can't be checked here.
func (w *world) skip(format string, args ...any) {
	w.mu.Lock()
	w.skipped = fmt.Sprintf(format, args...)
	w.mu.Unlock()
	runtime.Goexit()
}

// saw notes evidence.
func (w *world) saw(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.evidence = append(w.evidence, fmt.Sprintf(format, args...))
}

func (w *world) must(err error) {
	if err != nil {
		w.fail("%v", err)
	}
}

// within waits until look finds nothing wrong, for at most d. It looks again whenever the API or a
// base has changed, and returns how long that took.
func (w *world) within(d time.Duration, what string, look func() error) time.Duration {
	start := time.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		rung := w.bell.next()
		err := look()
		if err == nil {
			return time.Since(start)
		}
		select {
		case <-rung:
		case <-timer.C:
			w.fail("not within %s: %s: %v", d, what, err)
		case <-w.ctx.Done():
			w.fail("the run ended before: %s: %v", what, err)
		}
	}
}

// shortPatience is enough for what is known not to happen.
const shortPatience = 6 * time.Second

// soon is within the bound of the expectation.
func (w *world) soon(what string, look func() error) time.Duration {
	return w.within(w.bound(), what, look)
}

// bound is how long the thing may take that the expectation is about.
func (w *world) bound() time.Duration {
	if w.known {
		return min(w.patience, shortPatience)
	}
	return w.patience
}

// throughout checks that look finds nothing wrong at any moment for d.
func (w *world) throughout(d time.Duration, what string, look func() error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for start := time.Now(); ; {
		rung := w.bell.next()
		if err := look(); err != nil {
			w.fail("no longer so after %s: %s: %v", time.Since(start).Round(time.Millisecond), what, err)
		}
		select {
		case <-rung:
		case <-timer.C:
			return
		case <-w.ctx.Done():
			w.fail("the run ended before: %s", what)
		}
	}
}

// pass lets time pass. It is for what happens at a certain time, not for waiting until something
// is so.
func (w *world) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
		w.fail("the run ended")
	}
}

// gate blocks what passes until it is opened, or until the run ends.
func (w *world) gate() (pass, open func()) {
	ch := make(chan struct{})
	return func() {
		select {
		case <-ch:
		case <-w.ctx.Done():
		}
	}, sync.OnceFunc(func() { close(ch) })
}

// base makes a base over a tunnel and starts it. The options say what is special about it.
func (w *world) base(tunnel string, options ...func(*base)) *base {
	b := &base{
		w: w, tunnel: tunnel, identity: uuid.NewString(), name: w.name, version: "1.0.0", cluster: w.name,
		metaspace: 256 << 20, committed: 64 << 20,
	}
	n := w.numbers.Add(1)
	network := "198.19.%d.%d" // nobody dials a base over MQTT
	if tunnel == overHTTP {
		network = "127.78.%d.%d"
	}
	b.ip, b.host = fmt.Sprintf(network, 100+n/250, n%250+1), fmt.Sprintf("base-%s-%d", w.name, n)
	for _, option := range options {
		option(b)
	}
	w.mu.Lock()
	w.bases = append(w.bases, b)
	w.mu.Unlock()
	w.join(b)
	b.connect()
	return b
}

// ready makes bases and waits for their Nodes.
func (w *world) ready(tunnel string, options ...func(*base)) *base {
	b := w.base(tunnel, options...)
	w.nodeReady(b)
	return b
}

// namespace makes the world's namespace.
func (w *world) namespace() error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	if _, err := w.client.CoreV1().Namespaces().Create(w.ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	// Kubernetes makes it too, but later where many namespaces come at once, and refuses Pods until
	// then.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := w.client.CoreV1().ServiceAccounts(w.name).Create(w.ctx, account, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// end says how the expectation came out.
func (w *world) end(err any) (outcome, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	evidence := strings.Join(w.evidence, "; ")
	switch {
	case err != nil:
		return fails, fmt.Sprintf("the check panicked: %v", err)
	case w.skipped != "":
		return skipped, w.skipped
	case w.failure != "" && evidence != "":
		return fails, w.failure + " (before: " + evidence + ")"
	case w.failure != "":
		return fails, w.failure
	default:
		return holds, evidence
	}
}

// bell tells those who wait that something has changed.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed at the next change.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
