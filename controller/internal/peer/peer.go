// Package peer sets the replicas of peer Deployments to the number of matching bases, so that every base has one
// replica (Module Controller V2 document 5.2).
//
// A peer Deployment has the labels component=module-deployment and strategy=peer with one of the prefixes, and not
// replicas-control=true. The number of replicas is the number of Ready bases that match the node selector, the required
// node affinity and the tolerations of its Pods.
//
// The replicas are reduced when the Node of a base is deleted, or when it has not been Ready for Options.Grace: an
// outage of the broker makes all bases Not Ready. A cordoned base counts while it has an up-to-date Pod of the
// Deployment.
package peer

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// Options configure a Controller. All fields except AddTolerationFor and TimeScale are required.
type Options struct {
	Client kubernetes.Interface
	// Deployments and Nodes are shared informers. The caller starts the informers.
	Deployments appsinformers.DeploymentInformer
	Nodes       coreinformers.NodeInformer
	// Pods returns the module Pods on a Node. It must not block.
	Pods func(nodeName string) []*corev1.Pod
	// Env is the environment of the controller. Deployments with the label of another environment are ignored.
	Env string
	// AddTolerationFor is the environment whose toleration the controller adds to Pods that tolerate no environment;
	// empty disables adding it.
	AddTolerationFor string
	// Identity is the holder identity for the leader election, unique among the controllers of the environment.
	Identity string
	// TimeScale divides the durations that are not in Options. It does not divide the durations of the leader
	// election.
	TimeScale pace.TimeScale
	// Grace is how long the replica of a base is kept after the base became Not Ready.
	Grace time.Duration
	// Changed is called for each change of replicas, and for each failed change. It must not block.
	Changed func(ReplicaChange)
	Logger  *slog.Logger
}

// ReplicaChange is a change in the number of replicas of a Deployment.
type ReplicaChange struct {
	Namespace, Name string
	From, To        int32
	Err             error // error with an error code; nil after a success; failed changes are retried
}

const (
	// Durations of the leader election.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// debounce is how long changes of bases are collected before they are processed, and the minimum time between two
	// patches of a Deployment.
	debounce = time.Second
	// firstPause and lastPause are the minimum and the maximum delay before a failed patch is retried.
	firstPause = 200 * time.Millisecond
	lastPause  = time.Minute
)

// Controller sets the number of replicas of peer Deployments. Create it with New.
type Controller struct{ o Options }

// New returns a Controller.
func New(o Options) *Controller { return &Controller{o} }

// Start sets the replicas of peer Deployments while this controller is the leader. It blocks until ctx is done, and
// then releases the Lease. Call it once.
func (c *Controller) Start(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.o.Deployments.Informer().HasSynced, c.o.Nodes.Informer().HasSynced) {
		return nil
	}
	for ctx.Err() == nil {
		if err := c.compete(ctx); err != nil {
			return fmt.Errorf("leader election for peer Deployments: %w", err)
		}
	}
	return nil
}

// compete waits until this controller is the leader, and leads until it loses the leadership or ctx is done. It
// releases the Lease only after all work has ended, so that no two controllers lead at the same time.
func (c *Controller) compete(ctx context.Context) error {
	leaseName := labels.PeerLeasePrefix + strings.ToLower(c.o.Env)
	terms := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: leaseName,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: leaseName},
			Client:     c.o.Client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: c.o.Identity},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) { terms <- term },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}

	logged := klog.NewContext(ctx, logr.FromSlogHandler(c.o.Logger.Handler()))
	election, stop := context.WithCancel(context.WithoutCancel(logged))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(election)
	}()
	defer func() {
		stop()
		<-ended
	}()

	select {
	case <-ctx.Done():
	case <-ended:
	case term := <-terms:
		c.o.Logger.InfoContext(ctx, "became the leader for peer Deployments", "lease", leaseName)
		return c.lead(ctx, term.Done())
	}
	return nil
}
