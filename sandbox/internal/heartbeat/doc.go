// Package heartbeat forwards HTTP heartbeats of bases to all module controllers.
package heartbeat
