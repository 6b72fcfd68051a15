// Package broker is the MQTT broker of a sandbox. It is mochi-mqtt on the loopback address, with one password
// for module controllers and one for bases, or a relay to an external broker.
//
// Bases in the process of the broker connect in memory: with the same MQTT packets, but without sockets, so
// that 10,000 bases need no file descriptors.
package broker
