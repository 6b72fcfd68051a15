package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// limit is how long the Pods may take for what is waited for.
const limit = 5 * time.Minute

// followed is what counts of a Pod.
type followed struct {
	version string
	ready   bool
}

// follower knows the Pods of a namespace by one watch: to list them again and
// again would disturb what is measured. It is for one goroutine.
type follower struct {
	watch watch.Interface
	pods  map[types.UID]followed
	ready map[string]int // by version
}

// follow begins with a namespace without Pods.
func follow(ctx context.Context, client kubernetes.Interface, namespace string) (*follower, error) {
	api := client.CoreV1().Pods(namespace)
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods: %w", err)
	}
	if len(list.Items) > 0 {
		return nil, fmt.Errorf("namespace %s has %d Pods before anything was created", namespace, len(list.Items))
	}
	w, err := watchFrom(ctx, list.ResourceVersion, "", api.Watch)
	if err != nil {
		return nil, fmt.Errorf("watching the Pods: %w", err)
	}
	return &follower{watch: w, pods: map[types.UID]followed{}, ready: map[string]int{}}, nil
}

// watchFrom watches what has the labels, from a list's version on. The server
// ends a watch now and then; this one goes on where it was.
func watchFrom(
	ctx context.Context, version, labels string, start func(context.Context, metav1.ListOptions) (watch.Interface, error),
) (watch.Interface, error) {
	return toolswatch.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = labels
			return start(ctx, o)
		},
	})
}

func (f *follower) stop() { f.watch.Stop() }

// wait returns when ok does, which is asked after every change. The error says
// how far it has come.
func (f *follower) wait(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w; there are %d Pods, Ready by version: %v", what, context.Cause(ctx), len(f.pods), f.ready)
		case e, open := <-f.watch.ResultChan():
			if !open {
				return fmt.Errorf("waiting until %s: %w", what, errors.New("the watch has ended"))
			}
			if err := f.apply(e); err != nil {
				return fmt.Errorf("waiting until %s: %w", what, err)
			}
		}
	}
	return nil
}

func (f *follower) apply(e watch.Event) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	pod, is := e.Object.(*corev1.Pod)
	if !is {
		return fmt.Errorf("the watch of Pods delivers a %T", e.Object)
	}
	if before, known := f.pods[pod.UID]; known && before.ready {
		f.ready[before.version]--
	}
	if e.Type == watch.Deleted {
		delete(f.pods, pod.UID)
		return nil
	}
	now := followed{version: version(pod), ready: module.IsReady(pod) && pod.DeletionTimestamp == nil}
	f.pods[pod.UID] = now
	if now.ready {
		f.ready[now.version]++
	}
	return nil
}

func version(pod *corev1.Pod) string { return pod.Spec.Containers[0].Env[0].Value }
