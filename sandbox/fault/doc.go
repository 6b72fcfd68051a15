// Package fault has the API and MQTT faults of a sandbox. It tracks when faults begin, how often they are triggered, and
// why they end. The packages apifault and mqttfault apply the faults. Bases have their own faults.
package fault
