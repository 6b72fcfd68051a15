package api

import "time"

// Defaults of the controller settings. Each comment names the environment variable that changes the value.
const (
	// UnreachableAfter is how long a base may miss heartbeats before its Node is Not Ready (BASE_UNREACHABLE_AFTER).
	UnreachableAfter = 25 * time.Second
	// DeadAfter is how long a base may miss heartbeats before its Node is deleted (BASE_DEAD_AFTER).
	DeadAfter = 60 * time.Second
	// HealthInterval is the time between two health checks of a base (HEALTH_INTERVAL).
	HealthInterval = 10 * time.Second
	// ListInterval is the time between two module list queries of a base (LIST_INTERVAL); see ListedWithin.
	ListInterval = 15 * time.Second
	// ReconnectGrace is how long missed heartbeats are ignored after the broker connection recovers (RECONNECT_GRACE).
	ReconnectGrace = 128 * time.Second
	// InstallTimeout is the maximum duration of an install command (INSTALL_TIMEOUT).
	InstallTimeout = 5 * time.Minute
	// UninstallTimeout is the maximum duration of an uninstall command (UNINSTALL_TIMEOUT).
	UninstallTimeout = time.Minute
	// Drain is how long a module stays installed after its Ready Pod is deleted. After this time, the module no longer
	// receives requests and can be uninstalled (MODULE_DRAIN).
	Drain = 2 * time.Second
	// ControllerLease is the duration of the Lease of a controller. If a controller does not renew its Lease for this
	// time, other controllers take over its bases (LEASE_DURATION).
	ControllerLease = 15 * time.Second
	// NodeLease is the duration of the Lease of a Node, the same as for a kubelet (NODE_LEASE_DURATION).
	NodeLease = 40 * time.Second

	// MassPercent is the percentage of bases above which a mass outage is assumed (MASS_SILENCE_PERCENT); see
	// MassOutage.
	MassPercent = 50
	// MassMinBases is the minimum number of known bases, reachable or not, for a mass outage. With fewer bases, no
	// mass outage is assumed (MASS_SILENCE_MIN_BASES).
	MassMinBases = 3
	// MassWindow is the period within which all bases of a mass outage become unreachable (MASS_SILENCE_WINDOW).
	MassWindow = time.Minute
	// MassAtMost is the maximum duration of a mass outage (MASS_SILENCE_AT_MOST). After this time, missed heartbeats
	// are no longer ignored.
	MassAtMost = 30 * time.Minute
)

// Durations that are not configurable.
const (
	// SweepInterval is the time between two sweeps. A sweep checks for missed heartbeats and sends the queries that
	// are due.
	SweepInterval = time.Second
	// MinControllerLease is the minimum duration of a controller Lease after ControllerLease has been divided by the
	// time scale.
	MinControllerLease = 4 * time.Second
	// SwitchedReady is the maximum time for which a Pod stays Ready after its base has switched to a version that no
	// Pod requests any more. This version answers the requests until a requested version is active.
	SwitchedReady = 30 * time.Second
)

// ListedWithin returns the maximum time between two module list queries to a base. It is the sum of the list
// interval, a tenth of the list interval (which spreads the queries to different bases over time), and the sweep
// interval.
func ListedWithin(listInterval, sweep time.Duration) time.Duration {
	return listInterval + listInterval/10 + sweep
}

// MassOutage reports whether so many bases are unreachable at the same time that the controller assumes a network
// failure and leaves their Nodes and Pods unchanged. unreachable and all are numbers of bases. More than percent
// percent of all bases must be unreachable, and all must be at least minBases.
func MassOutage(unreachable, all, percent, minBases int) bool {
	return percent >= 0 && all >= minBases && unreachable*100 > percent*all
}

// RenewInterval returns the interval at which a controller renews its Lease.
func RenewInterval(lease time.Duration) time.Duration { return lease / 5 }
