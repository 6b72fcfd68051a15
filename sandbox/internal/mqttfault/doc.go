// Package mqttfault injects faults into the connections between MQTT clients and a broker. It delays, duplicates,
// reorders or drops packets in one direction or both. All faults can also occur with a real network and a broker of
// MQTT 3.1.1.
//
// A connection without faults needs only a few bytes, and its data is not copied.
package mqttfault
