// Package fault holds the faults that are set in a sandbox on the connections of its components. It
// knows when a fault begins, how often it is triggered and why it ends. What a fault does to
// requests and packets is up to the packages apifault and mqttfault; bases hold their own faults.
package fault
