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

// ErrNotActing reports that this controller has not renewed its Lease in time. Another controller may serve its
// bases, so it must not write anything or send commands.
var ErrNotActing = errors.New("this controller has not renewed its lease in time, and may not act")

// ControllerLease is this controller among the controllers of its environment. It renews one Lease in kube-node-lease, where
// the controller has permissions for the Leases of Nodes, and observes the Leases of the others. Its methods may be
// called concurrently.
type ControllerLease struct {
	opts   Options // complete
	leases coordinationv1client.LeaseInterface
	// ended reports whether the process with this name is known to have ended.
	ended func(process string) bool

	mu        sync.Mutex
	renewed   time.Time // when the last renewal that was acknowledged began; zero = none, or released
	wall      time.Time // the same on the wall clock: some machines stop the monotonic clock while they sleep
	epoch     int       // counts how often acting began
	looked    int       // epoch at the last look
	lease     *coordinationv1.Lease
	process   *process // nil before the first renewal
	rival     rival
	downSince map[tunnel.Key]time.Time // since when a tunnel is down
	peers     map[string]*other        // by holder
}

// other is another controller. Its Lease expires if no change was observed for its duration: its clock is not used.
type other struct {
	version  string // of its Lease, when it was last seen to change; empty before it was seen
	changed  time.Time
	duration time.Duration
	sees     []string
	released bool // its Lease was deleted
	renews   bool // its Lease has changed since this controller read it first
	read     time.Time
}

// rival is another process with the same CLIENT_ID that had the Lease of this controller last. The zero value
// means that there was no such process.
type rival struct {
	process string
	other
}

var errSameID = errors.New("another process with the same CLIENT_ID has the lease of this controller")

func newControllerLease(opts Options, leases coordinationv1client.LeaseInterface) *ControllerLease {
	return &ControllerLease{opts: opts, leases: leases, ended: hasEnded, downSince: map[tunnel.Key]time.Time{},
		peers: map[string]*other{}}
}

// Acting reports whether this controller may act now. It does no I/O: call it right before any action that must not
// be done twice.
func (m *ControllerLease) Acting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inTime()
}

func (m *ControllerLease) inTime() bool {
	now, limit := m.opts.Clock.Now(), m.opts.LeaseDuration*4/5
	return !m.renewed.IsZero() && now.Sub(m.renewed) < limit && now.Round(0).Sub(m.wall) < limit
}

// Epoch returns how often this controller has begun to act. Another controller may have taken the bases of an earlier
// epoch.
func (m *ControllerLease) Epoch() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// look records which tunnels are down. It returns whether this controller may act, and whether a epoch has begun since
// the last call.
func (m *ControllerLease) look() (acting, began bool) {
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
	began = m.looked != m.epoch
	m.looked = m.epoch
	return m.inTime(), began
}

// sees returns the connected tunnels, for the Lease.
func (m *ControllerLease) sees() string {
	var up []string
	for _, key := range m.opts.Tunnels {
		if m.opts.Connected(key) {
			up = append(up, string(key))
		}
	}
	return strings.Join(up, ",")
}

// renew writes the Lease once. The renewal counts from before the write.
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
			lease, err = m.leases.Create(ctx, m.fill(&coordinationv1.Lease{}, began), metav1.CreateOptions{})
			return m.note(lease, err, began)
		}
		if err != nil {
			return err
		}
		if m.yields(lease) {
			return errSameID
		}
	}
	lease, err := m.leases.Update(ctx, m.fill(lease.DeepCopy(), began), metav1.UpdateOptions{})
	return m.note(lease, err, began)
}

func (m *ControllerLease) note(lease *coordinationv1.Lease, err error, began time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.lease = nil // it is read again
		return err
	}
	m.rival = rival{}
	if !m.inTime() {
		m.epoch++
		for _, p := range m.peers { // what they did meanwhile was not seen
			p.changed = m.opts.Clock.Now()
		}
	}
	m.lease, m.renewed, m.wall = lease, began, began.Round(0)
	return nil
}

// yields reports whether this controller must not take its own Lease, because another process with the same
// CLIENT_ID has it. If so, it also makes this controller stop acting immediately: of two processes, the one
// that has the Lease serves the bases. The Lease becomes free when the other process has ended, or has not
// renewed it for its duration.
func (m *ControllerLease) yields(l *coordinationv1.Lease) bool {
	holder := l.Annotations[labels.Process]
	m.mu.Lock()
	defer m.mu.Unlock()
	if holder == m.process.name || m.ended(holder) {
		return false
	}
	now := m.opts.Clock.Now()
	if m.rival.process != holder || m.rival.version != l.ResourceVersion {
		if !m.rival.renews && m.rival.version != "" {
			m.rival.renews = true
			m.opts.Logger.Warn(
				"another controller with the same CLIENT_ID renews the lease; this controller serves no base until "+
					"the other one has ended: "+
					"give each controller a unique CLIENT_ID", "CLIENT_ID", m.opts.Holder, "env", m.opts.Env, "lease",
				l.Name)
		}
		m.rival.process, m.rival.version, m.rival.changed, m.rival.duration = holder, l.ResourceVersion, now, cmp.Or(
			durationOf(l), m.opts.LeaseDuration)
	}
	if m.rival.left(now) <= 0 {
		return false
	}
	m.renewed = time.Time{}
	return true
}

// MaxLease is the maximum duration of a Lease. A longer one is treated as MaxLease, so that bases can be taken
// over despite a wrong duration.
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

func (m *ControllerLease) fill(l *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	l.Name, l.Namespace = m.leaseName(), corev1.NamespaceNodeLease
	l.Labels = map[string]string{labels.Component: labels.ControllerLease, labels.Env: labelValue(m.opts.Env)}
	l.Annotations = map[string]string{labels.ConnectedTunnels: m.sees(), labels.Process: m.process.name}
	l.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(m.opts.Holder), LeaseDurationSeconds: ptr.To(int32(m.opts.LeaseDuration.Seconds())),
		RenewTime:        ptr.To(metav1.NewMicroTime(now)),
		AcquireTime:      cmp.Or(l.Spec.AcquireTime, ptr.To(metav1.NewMicroTime(now))),
		LeaseTransitions: l.Spec.LeaseTransitions,
	}
	return l
}

// selector selects the Leases of the controllers of an environment.
func (m *ControllerLease) selector() string {
	return labels.Component + "=" + labels.ControllerLease + "," + labels.Env + "=" + labelValue(m.opts.Env)
}

// Start renews the Lease until ctx ends.
func (m *ControllerLease) Start(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		pause := api.RenewInterval(m.opts.LeaseDuration)
		if err := m.renew(ctx); err != nil {
			pause = m.opts.LeaseDuration / 15
			if !failing && ctx.Err() == nil {
				m.opts.Logger.Warn("could not renew the lease of this controller", "lease", m.leaseName(), "err", err)
			}
			failing = true
		} else if failing {
			failing = false
			m.opts.Logger.Info("the lease of this controller is renewed again")
		}
		select {
		case <-ctx.Done():
		case <-m.opts.Clock.After(pause):
		}
	}
}

// release stops acting and deletes the Lease, so that other controllers do not wait until the Lease expires. It
// does not delete the Lease of another process with the same CLIENT_ID.
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
	if lease == nil { // the last renewal failed, or the end came in the middle of it
		lease, err = m.leases.Get(ctx, m.leaseName(), metav1.GetOptions{})
	}
	if err == nil && lease.Annotations[labels.Process] == m.process.name {
		err = m.leases.Delete(ctx, lease.Name, asKnown(lease))
	}
	if ignoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the lease of this controller: %w", err)
	}
	return nil
}

// HandleLease records the Lease of a controller, or that it was deleted.
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
	if p.version != l.ResourceVersion {
		p.renews = p.version != ""
		p.version, p.changed = l.ResourceVersion, m.opts.Clock.Now()
	}
	p.duration = durationOf(l)
	p.sees = strings.Split(l.Annotations[labels.ConnectedTunnels], ",")
}

// peer is called with the lock held. A controller whose Lease was not observed yet may exist.
func (m *ControllerLease) peer(holder string) *other {
	p := m.peers[holder]
	if p == nil {
		p = &other{changed: m.opts.Clock.Now(), duration: m.opts.LeaseDuration}
		m.peers[holder] = p
	}
	return p
}

// left returns how long the Lease of another controller is valid; 0 or less if it has expired.
func (m *ControllerLease) left(holder string) time.Duration {
	if holder == "" {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peer(holder).left(m.opts.Clock.Now())
}

func (p *other) left(now time.Time) time.Duration {
	if p.released {
		return 0
	}
	return p.changed.Add(p.duration).Sub(now)
}

// fetchPeer reads the Lease of a controller that was not observed yet: it may have ended before this one started.
func (m *ControllerLease) fetchPeer(ctx context.Context, holder string) error {
	m.mu.Lock()
	p := m.peer(holder)
	known := p.version != "" || p.released
	m.mu.Unlock()
	if known {
		return nil
	}
	return m.confirm(ctx, holder)
}

// confirm reads the Lease of a controller that seems to have ended, because a watch may be late. It reads it once per
// second, however many bases it served.
func (m *ControllerLease) confirm(ctx context.Context, holder string) error {
	m.mu.Lock()
	p, now := m.peer(holder), m.opts.Clock.Now()
	fresh, seen := !p.read.IsZero() && now.Sub(p.read) < time.Second, p.version
	m.mu.Unlock()
	if fresh {
		return nil
	}
	l, err := m.leases.Get(ctx, memberLease(m.opts.Env, holder), metav1.GetOptions{})
	released := apierrors.IsNotFound(err)
	switch {
	case released:
	case err != nil:
		return fmt.Errorf("reading the lease of controller %q: %w", holder, err)
	default:
		m.HandleLease(l, false)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p.read = now
	if released && p.version == seen { // otherwise a watch has observed a newer Lease
		p.released = true
	}
	return nil
}

// renewing returns the sorted CLIENT_IDs of the other controllers of this environment that have renewed their
// Leases. Controllers whose Leases have expired are not included.
func (m *ControllerLease) renewing() (holders []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Clock.Now()
	for holder, p := range m.peers {
		if p.renews && p.left(now) > 0 {
			holders = append(holders, holder)
		}
	}
	slices.Sort(holders)
	return holders
}

// reachableByPeers reports whether another controller is connected to the tunnel.
func (m *ControllerLease) reachableByPeers(key tunnel.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Clock.Now()
	for _, p := range m.peers {
		if p.version != "" && p.left(now) > 0 && slices.Contains(p.sees, string(key)) {
			return true
		}
	}
	return false
}

// tunnelDownFor returns how long a tunnel of this controller has been down.
func (m *ControllerLease) tunnelDownFor(key tunnel.Key) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if since, down := m.downSince[key]; down {
		return m.opts.Clock.Since(since)
	}
	return 0
}
