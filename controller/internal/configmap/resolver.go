package configmap

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/controller/errcode"
)

// ErrPending says that a ConfigMap is being read: Options.Changed tells when to ask again.
var ErrPending = errors.New("the ConfigMap is being read")

// Options of a Resolver. Client and Changed are required.
type Options struct {
	// Client reads ConfigMaps; it needs the verb get.
	Client kubernetes.Interface
	// Changed hears that a ConfigMap that somebody asked for was read, whatever came of it. It must
	// not block, and may call Value.
	Changed func(name types.NamespacedName)
	// Fresh is how old a value may be. Default: 2 s, so that the Pods of a rollout share a read and
	// see what was applied before it.
	Fresh time.Duration
	// Keep is how many ConfigMaps are remembered; the one that nobody has asked for the longest is
	// forgotten first. Default: 1000.
	Keep int
	// Logger may be nil, which discards.
	Logger *slog.Logger
}

// Resolver reads ConfigMaps. Make it with New.
type Resolver struct {
	o    Options
	wake chan struct{}

	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
}

// New returns a Resolver. Nothing is read before Start.
func New(o Options) *Resolver {
	o.Fresh = cmp.Or(o.Fresh, 2*time.Second)
	o.Keep = cmp.Or(o.Keep, 1000)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Resolver{o: o, wake: make(chan struct{}, 1), entries: map[types.NamespacedName]*entry{}}
}

// Value returns what a key of a ConfigMap says. It does not block and may be called concurrently.
// The error is ErrPending, or bears an error code and says why there is no value; then the
// ConfigMap is read again, with growing pauses, as long as somebody asks after each Changed.
func (r *Resolver) Value(name types.NamespacedName, key string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	e, known := r.entries[name]
	if !known {
		r.makeRoom()
		e = &entry{values: map[string]*string{}}
		r.entries[name] = e
	}
	e.asked = now
	value, asked := e.values[key]
	fresh := asked && !e.read.IsZero() && now.Sub(e.read) <= r.o.Fresh
	switch {
	case fresh && e.err != nil:
		return "", e.err
	case fresh && value == nil:
		return "", missing(name, key)
	case fresh:
		return *value, nil
	case !asked:
		e.values[key] = nil
	}
	e.due = now
	r.wakeUp()
	return "", ErrPending
}

func missing(name types.NamespacedName, key string) error {
	return errcode.New(errcode.OtherUpstreamInvalidParameter, "ConfigMap %s has no key %q, which is to name the module's version", name, key)
}

// Start reads what is asked for until ctx is done, and returns nil. Call it once.
func (r *Resolver) Start(ctx context.Context) error {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		name, wait := r.next(time.Now())
		if wait == 0 {
			r.read(ctx, name)
			if ctx.Err() != nil {
				return nil
			}
			r.o.Changed(name)
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-timer.C:
		}
	}
}

// readTimeout is how long one read may take.
const readTimeout = 10 * time.Second

func (r *Resolver) read(ctx context.Context, name types.NamespacedName) {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	began := time.Now()
	found, err := r.o.Client.CoreV1().ConfigMaps(name.Namespace).Get(reading, name.Name, metav1.GetOptions{})
	switch {
	case ctx.Err() != nil:
		return
	case apierrors.IsNotFound(err):
		err = errcode.New(errcode.OtherUpstreamInvalidParameter, "ConfigMap %s, which is to name the module's version, does not exist", name)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		err = errcode.Wrap(errcode.OtherUpstreamSecretAKError, err)
	case err != nil:
		err = errcode.Wrap(errcode.ModuleControllerDBAccessError, err)
	}
	if err != nil {
		r.o.Logger.Debug("could not read a ConfigMap", "configmap", name.String(), "err", err)
		found = &corev1.ConfigMap{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, known := r.entries[name]; known { // else it was forgotten meanwhile
		e.note(found.Data, err, began)
	}
}

func (r *Resolver) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default: // it will wake
	}
}
