// Package mqttfault is the target of faults on connections between MQTT clients and a broker: packets come late,
// twice, in another order, or not at all, in one direction or both. It does only what a network, or a
// broker of MQTT 3.1.1, may do to any client.
//
// A connection on which no fault ever acted costs a few bytes, and no copy.
package mqttfault
