// Package peer makes the replicas of a peer Deployment follow the number of bases, so that every
// base has the module once (Module Controller V2 document 5.2).
//
// A Deployment takes part if it is labelled component=module-deployment and strategy=peer, under
// either prefix of the documents, and not replicas-control=true. It counts the Ready bases that its
// Pods may run on: node selector, required node affinity and tolerations, as the scheduler reads
// them.
//
// Replicas grow with the bases. They shrink when a base's Node is gone, or when it has not been
// Ready for Options.Grace: an outage of the broker makes all bases Not Ready at once, and a
// Deployment that followed at once would remove every module. A cordoned base counts while it has a
// Pod of the Deployment that is up to date.
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

// Options says what to follow and how quickly. All but AddTolerationFor and
// Speed are required.
type Options struct {
	// Client patches the scale of Deployments and holds the Lease.
	Client kubernetes.Interface
	// Deployments and Nodes are shared informers of the whole cluster; the caller starts them.
	// Nodes may be restricted to those of bases.
	Deployments appsinformers.DeploymentInformer
	Nodes       coreinformers.NodeInformer
	// Pods lists the module Pods on a Node: a base that is cordoned counts by them alone. It must
	// not block.
	Pods func(nodeName string) []*corev1.Pod
	// Env is the environment of the controller. A Deployment that is labelled with another one is
	// left to that one's controller.
	Env string
	// AddTolerationFor is the environment whose toleration the controller adds to Pods that name no
	// environment, so that such workloads reach a base too; empty if it adds none. A cluster with
	// several environments should name the environment in each workload.
	AddTolerationFor string

	// Identity tells the instances of the controller apart.
	Identity string
	// Speed divides the periods that have no setting, but those of the leader: Grace is divided
	// already.
	Speed pace.Speed
	// Grace is how long a base that is not Ready any more keeps its replica. A base whose Node is gone has none.
	Grace time.Duration

	// Changed is told of each change and each failed change of replicas. It must not block.
	Changed func(Change)
	// Logger gets a line for each change.
	Logger *slog.Logger
}

// Change is a change of the replicas of a Deployment, or the attempt.
type Change struct {
	Namespace, Name string
	From, To        int32
	// Err is nil if the change was made; else it bears an error code and the attempt is repeated.
	Err error
}

const (
	// leaseDuration is how long the other instances wait for a leader that has died. renewDeadline is how long a
	// leader that cannot renew goes on, retryPeriod how often each tries.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// debounce is how long changes of bases are gathered before Deployments follow: at most one
	// patch a Deployment in that time, however many bases register.
	debounce = time.Second
	// firstPause and lastPause are those between attempts to patch.
	firstPause = 200 * time.Millisecond
	lastPause  = time.Minute
)

// Controller keeps replicas. Make it with New.
type Controller struct{ o Options }

// New returns a Controller.
func New(o Options) *Controller { return &Controller{o} }

// Start waits for the informers, then keeps replicas whenever this instance leads. It blocks until
// ctx is done, and gives the Lease back. Call it once.
func (c *Controller) Start(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.o.Deployments.Informer().HasSynced, c.o.Nodes.Informer().HasSynced) {
		return nil
	}
	for ctx.Err() == nil {
		if err := c.compete(ctx); err != nil {
			return fmt.Errorf("keeping replicas of peer Deployments: %w", err)
		}
	}
	return nil
}

// compete waits to be the leader and leads until the lead is lost or ctx is done. The election
// outlives ctx by a moment, so that the work has ended before another instance can take the lead.
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
		c.o.Logger.InfoContext(ctx, "leading peer replicas", "lease", leaseName)
		return c.lead(ctx, term.Done())
	}
	return nil
}
