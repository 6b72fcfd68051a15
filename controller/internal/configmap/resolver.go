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

// ErrPending means that a ConfigMap is still being read. Options.Changed is called after the read.
var ErrPending = errors.New("the ConfigMap is being read")

// Options configure a Resolver. All fields are required.
type Options struct {
	// Client is the Kubernetes client that reads ConfigMaps. It needs permission to get ConfigMaps.
	Client kubernetes.Interface
	// Changed is called after each read of a ConfigMap, including failed reads. It must not block, and may call
	// Value.
	Changed func(name types.NamespacedName)
	Logger  *slog.Logger
}

const (
	// maxAge is the maximum age of a cached value. It is long enough for the Pods of a rollout to share a read. It is
	// short enough for a rollout to use a change that was applied before the rollout.
	maxAge = 2 * time.Second
	// maxConfigMaps is the maximum number of cached ConfigMaps. The least recently used ConfigMap is evicted first.
	maxConfigMaps = 1000
	maxReads      = 4 // concurrent reads
	readTimeout   = 10 * time.Second
	// maxRetry is the maximum delay before a ConfigMap without a usable value is read again.
	maxRetry = time.Minute
)

// Resolver reads values from ConfigMaps. Create it with New.
type Resolver struct {
	o     Options
	queue *work.Queue[types.NamespacedName]

	mu    sync.Mutex
	cache *lru.Cache // *cachedConfigMap by types.NamespacedName
}

// cachedConfigMap contains the requested values from one ConfigMap.
type cachedConfigMap struct {
	values      map[string]*string // by requested key; nil if the key is missing or not read yet
	err         error              // error of the last read
	readAt      time.Time          // when the last read began; zero before the first read
	requestedAt time.Time          // when a value was last requested
	incomplete  bool               // the last read did not return a usable value for every requested key
}

// errIncomplete makes the work queue read the ConfigMap again.
var errIncomplete = errors.New("the ConfigMap has no usable version")

// New returns a Resolver. It does not read ConfigMaps before Run is called.
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

// Value returns the value of a key in a ConfigMap. It does not block, and is safe for concurrent use. The error is
// ErrPending, or an error with an error code. After an error, the Resolver reads the ConfigMap again with increasing
// delays. The retries stop unless the value is requested again after each call of Options.Changed.
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
	value, requested := e.values[key]
	if requested && !e.readAt.IsZero() && now.Sub(e.readAt) <= maxAge {
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

// cached returns a ConfigMap from the cache, or nil if the cache does not contain it. The caller holds the lock.
func (r *Resolver) cached(name types.NamespacedName) *cachedConfigMap {
	e, _ := r.cache.Get(name)
	known, _ := e.(*cachedConfigMap)
	return known
}

// handle reads a ConfigMap. If the ConfigMap has no usable value and no value was requested since the last read,
// handle removes it from the cache instead of retrying.
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
	startedAt time.Time) (complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.cached(name)
	if e == nil {
		return true
	}
	complete = err == nil
	for key := range e.values {
		e.values[key] = nil
		value, exists := data[key]
		if exists {
			value = strings.Clone(value[:min(len(value), arklet.MaxName+1)]) // a longer version is invalid anyway
			e.values[key] = &value
		}
		complete = complete && exists && usable(value)
	}
	e.readAt, e.err, e.incomplete = startedAt, err, !complete
	return complete
}

// usable reports whether a value can be used as a part of a version.
func usable(value string) bool {
	return value != "" && len(value) <= arklet.MaxName && arklet.Printable(value) && !strings.Contains(value, " ")
}
