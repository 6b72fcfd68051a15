package api

import "time"

// Defaults of the controller's settings. The comments name the environment variables that change them.
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
	// Drain is how long the module of a deleted Pod that was Ready stays installed, so that no requests are sent to it
	// when it is uninstalled (MODULE_DRAIN).
	Drain = 2 * time.Second
	// ControllerLease is how long another controller waits for a controller that does not renew its Lease, before
	// it takes over its bases (LEASE_DURATION).
	ControllerLease = 15 * time.Second
	// NodeLease is how long the Lease of a base's Node is valid, as for a kubelet (NODE_LEASE_DURATION).
	NodeLease = 40 * time.Second

	// MassPercent is the limit of MassOutage for the share of unreachable bases (MASS_SILENCE_PERCENT).
	MassPercent = 50
	// MassMinBases is the number of bases below which there is no MassOutage (MASS_SILENCE_MIN_BASES).
	MassMinBases = 3
	// MassWindow is the time within which bases of a mass outage become unreachable (MASS_SILENCE_WINDOW).
	MassWindow = time.Minute
	// MassAtMost is the maximum duration of a mass outage (MASS_SILENCE_AT_MOST). After it, the missed heartbeats of
	// each base count.
	MassAtMost = 30 * time.Minute
)

// Periods of the controller without a setting.
const (
	// SweepInterval is the time between two checks for missed heartbeats and for queries that are due.
	SweepInterval = time.Second
	// MinControllerLease is the lower limit of ControllerLease if the time scale shortens it.
	MinControllerLease = 4 * time.Second
	// SwitchedReady is the maximum time for which a Pod stays Ready after its base has switched to another version, if
	// a release has superseded the version of the Pod. The base answers requests in the meantime.
	SwitchedReady = 30 * time.Second
)

// ListedWithin returns the maximum time between two module list queries of a base: the interval, the tenth of it over
// which the queries of all bases are spread, and a sweep.
func ListedWithin(listInterval, sweep time.Duration) time.Duration {
	return listInterval + listInterval/10 + sweep
}

// MassOutage reports whether so many of all bases are unreachable at the same time that the controller assumes a
// network failure, and leaves their Nodes and Pods unchanged. The limits are percent and minBases.
func MassOutage(unreachable, all, percent, minBases int) bool {
	return percent >= 0 && all >= minBases && unreachable > 0 && unreachable*100 >= percent*all
}

// RenewInterval returns how often a controller renews its Lease.
func RenewInterval(lease time.Duration) time.Duration { return lease / 5 }
