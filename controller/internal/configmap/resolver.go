// Package configmap reads single values of ConfigMaps for module Pods whose version is a configMapKeyRef. It reads
// a ConfigMap only when a value is needed: it does not list or watch.
package configmap

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/lru"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/work"
)

// ErrPending reports that a ConfigMap is being read: Options.Changed is called when the value is known.
var ErrPending = errors.New("the ConfigMap is being read")

// Options of a Resolver. All are required.
type Options struct {
	// Client reads ConfigMaps; it needs the verb get.
	Client kubernetes.Interface
	// Changed is called after each read of a ConfigMap, also after a failed one. It must not block, and may call
	// Value.
	Changed func(name types.NamespacedName)
	Logger  *slog.Logger
}

const (
	// fresh is the maximum age of a value. The Pods of a rollout share a read, and see what was applied before it.
	fresh = 2 * time.Second
	// maxConfigMaps is the number of ConfigMaps that are kept. The least recently used one is dropped first.
	maxConfigMaps = 1000
	maxReads      = 4 // concurrent reads
	readTimeout   = 10 * time.Second
	// maxRetry is the longest delay before a ConfigMap is read again that lacks a usable value.
	maxRetry = time.Minute
)

// Resolver reads ConfigMaps. Make it with New.
type Resolver struct {
	o     Options
	queue *work.Queue[types.NamespacedName]

	mu      sync.Mutex
	entries *lru.Cache // *entry by types.NamespacedName
}

// entry is the state of one ConfigMap.
type entry struct {
	values     map[string]*string // by requested key; nil if the ConfigMap has no such key, or was not read
	err        error              // of the last read
	read       time.Time          // when the last read began; zero if there was none
	asked      time.Time          // when a value was requested last
	incomplete bool               // the last read had no usable value of a requested key
}

// errIncomplete makes the queue read a ConfigMap again.
var errIncomplete = errors.New("it has no usable version")

// New returns a Resolver. It reads nothing before Run.
func New(o Options) *Resolver {
	r := &Resolver{o: o, entries: lru.New(maxConfigMaps)}
	r.queue = work.New(work.Options[types.NamespacedName]{
		Do: r.handle, Workers: maxReads, MinDelay: time.Second, MaxDelay: maxRetry, Logger: o.Logger,
		Message: "could not read the version of a module from a ConfigMap",
		Attrs:   func(name types.NamespacedName) []any { return []any{"configmap", name.String()} },
	})
	return r
}

// Run reads the requested ConfigMaps until ctx is done. Call it once.
func (r *Resolver) Run(ctx context.Context) { r.queue.Run(ctx) }

// Value returns the value of a key of a ConfigMap. It does not block and may be called concurrently.
// The error is ErrPending, or has an error code. Then the ConfigMap is read again, with growing delays, as long as
// the value is requested after each call of Changed.
func (r *Resolver) Value(name types.NamespacedName, key string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	e := r.entry(name)
	if e == nil {
		e = &entry{values: map[string]*string{}}
		r.entries.Add(name, e)
	}
	e.asked = now
	value, asked := e.values[key]
	if asked && !e.read.IsZero() && now.Sub(e.read) <= fresh {
		switch {
		case e.err != nil:
			return "", e.err
		case value == nil:
			return "", errcode.New(errcode.OtherUpstreamInvalidParameter,
				"ConfigMap %s has no key %q, which is to name the module's version", name, key)
		}
		return *value, nil
	}
	e.values[key] = value
	r.queue.Add(name)
	return "", ErrPending
}

// entry is called with the lock held.
func (r *Resolver) entry(name types.NamespacedName) *entry {
	e, _ := r.entries.Get(name)
	known, _ := e.(*entry)
	return known
}

// handle reads a ConfigMap. It drops an entry without a usable value that was not requested since the last read.
func (r *Resolver) handle(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	r.mu.Lock()
	e := r.entry(name)
	if e != nil && e.incomplete && e.asked.Before(e.read) {
		r.entries.Remove(name)
		e = nil
	}
	r.mu.Unlock()
	if e == nil {
		return 0, nil
	}
	began := time.Now()
	data, err := r.read(ctx, name)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	complete := r.note(name, data, err, began)
	r.o.Changed(name)
	switch {
	case err != nil:
		return 0, err
	case !complete:
		return 0, errIncomplete
	}
	return 0, nil
}

func (r *Resolver) read(ctx context.Context, name types.NamespacedName) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := r.o.Client.CoreV1().ConfigMaps(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return found.Data, nil
	case apierrors.IsNotFound(err):
		err = errcode.New(errcode.OtherUpstreamInvalidParameter,
			"ConfigMap %s, which is to name the module's version, does not exist", name)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		err = errcode.Wrap(errcode.OtherUpstreamSecretAKError, err)
	default:
		err = errcode.Wrap(errcode.ModuleControllerDBAccessError, err)
	}
	return nil, err
}

// note records the result of a read, and reports whether all requested values are usable.
func (r *Resolver) note(name types.NamespacedName, data map[string]string, err error, began time.Time) (complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(name)
	if e == nil {
		return true
	}
	complete = err == nil
	for key := range e.values {
		e.values[key] = nil
		value, there := data[key]
		if there {
			value = strings.Clone(value[:min(len(value), arklet.MaxName+1)]) // a longer version is refused
			e.values[key] = &value
		}
		complete = complete && there && usable(value)
	}
	e.read, e.err, e.incomplete = began, err, !complete
	return complete
}

// usable reports whether a value can be a part of a version.
func usable(value string) bool {
	return value != "" && len(value) <= arklet.MaxName && arklet.Printable(value) && !strings.Contains(value, " ")
}
