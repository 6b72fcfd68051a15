// Package configmap reads values of ConfigMaps for module Pods whose version is a configMapKeyRef. It reads a ConfigMap
// only when a value is requested, and does not list or watch ConfigMaps.
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

// ErrPending reports that a ConfigMap is being read. Options.Changed is called afterwards.
var ErrPending = errors.New("the ConfigMap is being read")

// Options configure a Resolver. All are required.
type Options struct {
	// Client reads ConfigMaps. It needs the permission to get them.
	Client kubernetes.Interface
	// Changed is called after each read of a ConfigMap, even if the read failed. It must not block, and may call Value.
	Changed func(name types.NamespacedName)
	Logger  *slog.Logger
}

const (
	// maxAge is the maximum age of a value. It is long enough for the Pods of a rollout to share a read, and short
	// enough for a rollout to see a change that was applied before it.
	maxAge = 2 * time.Second
	// maxConfigMaps is the maximum number of cached ConfigMaps. The least recently used one is removed first.
	maxConfigMaps = 1000
	maxReads      = 4 // concurrent reads
	readTimeout   = 10 * time.Second
	// maxRetry is the maximum delay before a ConfigMap without a usable value is read again.
	maxRetry = time.Minute
)

// Resolver reads values of ConfigMaps. Create it with New.
type Resolver struct {
	o     Options
	queue *work.Queue[types.NamespacedName]

	mu    sync.Mutex
	cache *lru.Cache // *entry by types.NamespacedName
}

// cachedConfigMap has the requested values of one ConfigMap.
type cachedConfigMap struct {
	values      map[string]*string // by requested key; nil if the ConfigMap lacks the key or was not read yet
	err         error              // the error of the last read
	readAt      time.Time          // when the last read began; zero if there was none
	requestedAt time.Time          // when a value was requested last
	incomplete  bool               // the last read did not return a usable value for each requested key
}

// errIncomplete makes the queue read a ConfigMap again.
var errIncomplete = errors.New("the ConfigMap has no usable version")

// New returns a Resolver. It reads no ConfigMaps before Run.
func New(o Options) *Resolver {
	r := &Resolver{o: o, cache: lru.New(maxConfigMaps)}
	r.queue = work.New(work.Options[types.NamespacedName]{
		Do: r.handle, Workers: maxReads, MinDelay: time.Second, MaxDelay: maxRetry, Logger: o.Logger,
		Message: "could not read the version of a module from a ConfigMap",
		Attrs:   func(name types.NamespacedName) []any { return []any{"configmap", name.String()} },
	})
	return r
}

// Run reads the requested ConfigMaps until ctx is done. Call it once.
func (r *Resolver) Run(ctx context.Context) { r.queue.Run(ctx) }

// Value returns the value of a key of a ConfigMap. It does not block, and may be called concurrently. The error is
// ErrPending, or has an error code. After an error, the ConfigMap is read again with growing delays, as long as the
// value is requested after each call of Options.Changed.
func (r *Resolver) Value(name types.NamespacedName, key string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	e := r.cached(name)
	if e == nil {
		e = &cachedConfigMap{values: map[string]*string{}}
		r.cache.Add(name, e)
	}
	e.requestedAt = now
	value, asked := e.values[key]
	if asked && !e.readAt.IsZero() && now.Sub(e.readAt) <= maxAge {
		switch {
		case e.err != nil:
			return "", e.err
		case value == nil:
			return "", errcode.New(errcode.OtherUpstreamInvalidParameter,
				"ConfigMap %s has no key %q, which must contain the version of the module", name, key)
		}
		return *value, nil
	}
	e.values[key] = value
	r.queue.Add(name)
	return "", ErrPending
}

// cached returns a ConfigMap from the cache; nil if the cache lacks it. The caller holds the lock.
func (r *Resolver) cached(name types.NamespacedName) *cachedConfigMap {
	e, _ := r.cache.Get(name)
	known, _ := e.(*cachedConfigMap)
	return known
}

// handle reads a ConfigMap. Instead of a retry, it removes a ConfigMap without a usable value from the cache if no
// value was requested since the last read.
func (r *Resolver) handle(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	r.mu.Lock()
	e := r.cached(name)
	if e != nil && e.incomplete && e.requestedAt.Before(e.readAt) {
		r.cache.Remove(name)
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
	complete := r.recordRead(name, data, err, began)
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
			"ConfigMap %s, which must contain the version of the module, does not exist", name)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		err = errcode.Wrap(errcode.OtherUpstreamSecretAKError, err)
	default:
		err = errcode.Wrap(errcode.ModuleControllerDBAccessError, err)
	}
	return nil, err
}

// recordRead records the result of a read, and reports whether all requested values are usable.
func (r *Resolver) recordRead(name types.NamespacedName, data map[string]string, err error,
	began time.Time) (complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.cached(name)
	if e == nil {
		return true
	}
	complete = err == nil
	for key := range e.values {
		e.values[key] = nil
		value, there := data[key]
		if there {
			value = strings.Clone(value[:min(len(value), arklet.MaxName+1)]) // a longer version is invalid anyway
			e.values[key] = &value
		}
		complete = complete && there && usable(value)
	}
	e.readAt, e.err, e.incomplete = began, err, !complete
	return complete
}

// usable reports whether a value can be a part of a version.
func usable(value string) bool {
	return value != "" && len(value) <= arklet.MaxName && arklet.Printable(value) && !strings.Contains(value, " ")
}
