package vnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// ErrNotActing reports that this controller has not renewed its Lease in time. It must not write Nodes or Pods, or send
// commands, because another controller may serve its bases.
var ErrNotActing = errors.New("this controller is not active because it has not renewed its Lease in time")

// ControllerLease renews the Lease of this controller, and observes the Leases of the other controllers in its
// environment. The Leases are in kube-node-lease, where the controller also has permissions for the Leases of Nodes.
// The methods may be called concurrently.
type ControllerLease struct {
	opts   Options // the complete options, including the defaults
	leases coordinationv1client.LeaseInterface
	// hasEnded reports whether the process with the given name is known to have ended. Tests replace this function.
	hasEnded func(process string) bool

	mu sync.Mutex
	// start of the last acknowledged renewal; zero if there was none, or if the Lease was released
	renewed       time.Time
	wall          time.Time // wall-clock time of renewed; on some machines the monotonic clock stops during sleep
	epoch         int       // number of times that this controller started acting
	observedEpoch int       // value of epoch at the last call of observeTunnels
	lease         *coordinationv1.Lease
	process       *process // this process; nil before the first renewal
	rival         competingProcess
	downSince     map[tunnel.Key]time.Time // time since which each disconnected tunnel has been down
	peers         map[string]*peerLease    // other controllers by holder identity
}

// peerLease is the observed Lease of another controller. The Lease expires if this controller observes no change of
// it for the duration of the Lease. The clock of the other controller is not used.
type peerLease struct {
	resourceVersion string // version of the Lease at its last observed change; empty before the first observation
	changedAt       time.Time
	duration        time.Duration
	tunnels         []string
	released        bool // whether the Lease was deleted
	renews          bool // whether the Lease has changed since this controller first read it
	readAt          time.Time
}

// competingProcess is the last observed process with the same CLIENT_ID that held the Lease of this controller. The
// zero value means that there was no such process.
type competingProcess struct {
	process string
	peerLease
}

var errSameID = errors.New("another process with the same CLIENT_ID holds the Lease of this controller")

func newControllerLease(opts Options, leases coordinationv1client.LeaseInterface) *ControllerLease {
	return &ControllerLease{opts: opts, leases: leases, hasEnded: hasEnded, downSince: map[tunnel.Key]time.Time{},
		peers: map[string]*peerLease{}}
}

// MayAct reports whether this controller may act now. Call it right before an action that only one controller may
// perform. It does no I/O.
func (m *ControllerLease) MayAct() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isValid()
}

func (m *ControllerLease) isValid() bool {
	now, limit := m.opts.Clock.Now(), m.opts.LeaseDuration*4/5
	return !m.renewed.IsZero() && now.Sub(m.renewed) < limit && now.Round(0).Sub(m.wall) < limit
}

// Epoch returns the number of times that this controller has started acting. Another controller may have taken over
// the bases that this controller served in an earlier epoch.
func (m *ControllerLease) Epoch() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// observeTunnels records which tunnels are down. It returns whether this controller may act, and whether a new epoch
// has started since the last call.
func (m *ControllerLease) observeTunnels() (mayAct, newEpoch bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Clock.Now()
	for _, key := range m.opts.Tunnels {
		if since := m.downSince[key]; m.opts.Connected(key) {
			delete(m.downSince, key)
		} else if since.IsZero() {
			m.downSince[key] = now
		}
	}
	newEpoch = m.observedEpoch != m.epoch
	m.observedEpoch = m.epoch
	return m.isValid(), newEpoch
}

// connectedTunnels returns the names of the connected tunnels, separated by commas, for the Lease of this controller.
func (m *ControllerLease) connectedTunnels() string {
	var up []string
	for _, key := range m.opts.Tunnels {
		if m.opts.Connected(key) {
			up = append(up, string(key))
		}
	}
	return strings.Join(up, ",")
}

// renew writes the Lease once. The lease duration is counted from the start of the write, not from its completion.
func (m *ControllerLease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.opts.LeaseDuration/3)
	defer cancel()
	began := m.opts.Clock.Now()
	m.mu.Lock()
	lease := m.lease
	if m.process == nil {
		m.process = startProcess()
	}
	m.mu.Unlock()
	if lease == nil {
		var err error
		lease, err = m.leases.Get(ctx, m.leaseName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			lease, err = m.leases.Create(ctx, m.withFields(&coordinationv1.Lease{}, began), metav1.CreateOptions{})
			return m.recordRenewal(lease, err, began)
		}
		if err != nil {
			return err
		}
		if m.isHeldByRival(lease) {
			return errSameID
		}
	}
	lease, err := m.leases.Update(ctx, m.withFields(lease.DeepCopy(), began), metav1.UpdateOptions{})
	return m.recordRenewal(lease, err, began)
}

func (m *ControllerLease) recordRenewal(lease *coordinationv1.Lease, err error, startedAt time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.lease = nil // read it before the next write
		return err
	}
	m.rival = competingProcess{}
	if !m.isValid() {
		m.epoch++
		for _, p := range m.peers { // their changes may not have been observed in the meantime
			p.changedAt = m.opts.Clock.Now()
		}
	}
	m.lease, m.renewed, m.wall = lease, startedAt, startedAt.Round(0)
	return nil
}

// isHeldByRival reports whether another process with the same CLIENT_ID holds the Lease of this controller. If so, it
// makes this controller stop acting, because only the holder serves bases. This controller can take the Lease after
// the other process has ended, or has not renewed the Lease for the Lease duration.
func (m *ControllerLease) isHeldByRival(l *coordinationv1.Lease) bool {
	holder := l.Annotations[labels.Process]
	m.mu.Lock()
	defer m.mu.Unlock()
	if holder == m.process.name || m.hasEnded(holder) {
		return false
	}
	now := m.opts.Clock.Now()
	if m.rival.process != holder || m.rival.resourceVersion != l.ResourceVersion {
		if !m.rival.renews && m.rival.resourceVersion != "" {
			m.rival.renews = true
			m.opts.Logger.Warn(
				"another controller with the same CLIENT_ID renews the Lease; this controller serves no bases until "+
					"the other one has stopped; "+
					"give each controller a unique CLIENT_ID", "CLIENT_ID", m.opts.Holder, "env", m.opts.Env, "lease",
				l.Name)
		}
		m.rival.process, m.rival.resourceVersion, m.rival.changedAt, m.rival.duration = holder, l.ResourceVersion, now,
			cmp.Or(durationOf(l), m.opts.LeaseDuration)
	}
	if m.rival.remaining(now) <= 0 {
		return false
	}
	m.renewed = time.Time{}
	return true
}

// MaxLease is the maximum duration of a Lease. Longer durations are treated as MaxLease, so that an invalid duration
// does not prevent a takeover.
const MaxLease = time.Hour

func durationOf(l *coordinationv1.Lease) time.Duration {
	return min(time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))*time.Second, MaxLease)
}

func (m *ControllerLease) conflict() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rival.renews
}

func (m *ControllerLease) leaseName() string { return memberLease(m.opts.Env, m.opts.Holder) }

func memberLease(env, holder string) string {
	return "module-controller." + dnsName(env) + "." + dnsName(holder)
}

func (m *ControllerLease) withFields(l *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	l.Name, l.Namespace = m.leaseName(), corev1.NamespaceNodeLease
	l.Labels = map[string]string{labels.Component: labels.ControllerLease, labels.Env: labelValue(m.opts.Env)}
	l.Annotations = map[string]string{labels.ConnectedTunnels: m.connectedTunnels(), labels.Process: m.process.name}
	l.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(m.opts.Holder), LeaseDurationSeconds: ptr.To(int32(m.opts.LeaseDuration.Seconds())),
		RenewTime:        ptr.To(metav1.NewMicroTime(now)),
		AcquireTime:      cmp.Or(l.Spec.AcquireTime, ptr.To(metav1.NewMicroTime(now))),
		LeaseTransitions: l.Spec.LeaseTransitions,
	}
	return l
}

// selector returns the label selector for the Leases of the controllers of an environment.
func (m *ControllerLease) selector() string {
	return labels.Component + "=" + labels.ControllerLease + "," + labels.Env + "=" + labelValue(m.opts.Env)
}

// Start renews the Lease until ctx is done.
func (m *ControllerLease) Start(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		pause := api.RenewInterval(m.opts.LeaseDuration)
		if err := m.renew(ctx); err != nil {
			pause = m.opts.LeaseDuration / 15
			if !failing && ctx.Err() == nil {
				m.opts.Logger.Warn("could not renew the Lease of this controller", "lease", m.leaseName(), "err", err)
			}
			failing = true
		} else if failing {
			failing = false
			m.opts.Logger.Info("renewed the Lease of this controller again")
		}
		select {
		case <-ctx.Done():
		case <-m.opts.Clock.After(pause):
		}
	}
}

// release stops acting and deletes the Lease, so that other controllers can take over the bases before the Lease
// expires. It does not delete the Lease of another process with the same CLIENT_ID.
func (m *ControllerLease) release(ctx context.Context) error {
	m.mu.Lock()
	lease, acted := m.lease, m.epoch > 0
	m.renewed, m.lease = time.Time{}, nil
	m.mu.Unlock()
	if !acted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.opts.LeaseDuration/3)
	defer cancel()
	var err error
	if lease == nil { // the last renewal failed or was interrupted
		lease, err = m.leases.Get(ctx, m.leaseName(), metav1.GetOptions{})
	}
	if err == nil && lease.Annotations[labels.Process] == m.process.name {
		err = m.leases.Delete(ctx, lease.Name, ifUnchanged(lease))
	}
	if ignoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the Lease of this controller: %w", err)
	}
	return nil
}

// HandleLease records an observed change or deletion of the Lease of a controller.
func (m *ControllerLease) HandleLease(l *coordinationv1.Lease, deleted bool) {
	holder := ptr.Deref(l.Spec.HolderIdentity, "")
	if holder == "" || holder == m.opts.Holder {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peer(holder)
	p.released = deleted
	if deleted {
		p.renews = false
		return
	}
	if p.resourceVersion != l.ResourceVersion {
		p.renews = p.resourceVersion != ""
		p.resourceVersion, p.changedAt = l.ResourceVersion, m.opts.Clock.Now()
	}
	p.duration = durationOf(l)
	p.tunnels = strings.Split(l.Annotations[labels.ConnectedTunnels], ",")
}

// peer returns the Lease of another controller. A Lease that was not observed yet is treated as valid. The caller holds
// the lock.
func (m *ControllerLease) peer(holder string) *peerLease {
	p := m.peers[holder]
	if p == nil {
		p = &peerLease{changedAt: m.opts.Clock.Now(), duration: m.opts.LeaseDuration}
		m.peers[holder] = p
	}
	return p
}

// remainingFor returns how long the Lease of another controller is still valid; 0 or less if it has expired.
func (m *ControllerLease) remainingFor(holder string) time.Duration {
	if holder == "" {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peer(holder).remaining(m.opts.Clock.Now())
}

func (p *peerLease) remaining(now time.Time) time.Duration {
	if p.released {
		return 0
	}
	return p.changedAt.Add(p.duration).Sub(now)
}

// fetchPeer reads the Lease of another controller if the Lease was not observed yet. That controller may have stopped
// before this controller started.
func (m *ControllerLease) fetchPeer(ctx context.Context, holder string) error {
	m.mu.Lock()
	p := m.peer(holder)
	known := p.resourceVersion != "" || p.released
	m.mu.Unlock()
	if known {
		return nil
	}
	return m.confirm(ctx, holder)
}

// confirm reads the Lease of a controller whose Lease seems to have expired. The read is necessary because the watch
// may be delayed. confirm reads each Lease at most once per second.
func (m *ControllerLease) confirm(ctx context.Context, holder string) error {
	m.mu.Lock()
	p, now := m.peer(holder), m.opts.Clock.Now()
	fresh, seen := !p.readAt.IsZero() && now.Sub(p.readAt) < time.Second, p.resourceVersion
	m.mu.Unlock()
	if fresh {
		return nil
	}
	l, err := m.leases.Get(ctx, memberLease(m.opts.Env, holder), metav1.GetOptions{})
	released := apierrors.IsNotFound(err)
	switch {
	case released:
	case err != nil:
		return fmt.Errorf("reading the Lease of controller %q: %w", holder, err)
	default:
		m.HandleLease(l, false)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p.readAt = now
	if released && p.resourceVersion == seen { // otherwise a watch has observed a newer Lease
		p.released = true
	}
	return nil
}

// renewing returns the sorted CLIENT_IDs of the other controllers in this environment whose Leases are valid and were
// renewed at least once.
func (m *ControllerLease) renewing() (holders []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Clock.Now()
	for holder, p := range m.peers {
		if p.renews && p.remaining(now) > 0 {
			holders = append(holders, holder)
		}
	}
	slices.Sort(holders)
	return holders
}

// reachableByPeers reports whether another controller with a valid Lease is connected to a tunnel.
func (m *ControllerLease) reachableByPeers(key tunnel.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Clock.Now()
	for _, p := range m.peers {
		if p.resourceVersion != "" && p.remaining(now) > 0 && slices.Contains(p.tunnels, string(key)) {
			return true
		}
	}
	return false
}

// tunnelDownFor returns how long a tunnel has been disconnected from this controller; 0 if it is connected.
func (m *ControllerLease) tunnelDownFor(key tunnel.Key) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if since, down := m.downSince[key]; down {
		return m.opts.Clock.Since(since)
	}
	return 0
}
