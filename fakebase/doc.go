// Package fakebase simulates Koupleless bases without a JVM. A Base installs and uninstalls modules, implements the protocol
// of arklet over MQTT and HTTP, reports its health, and serves module traffic.
//
//	b, err := fakebase.New(fakebase.Options{
//		Identity: "a1b2", MQTT: &fakebase.MQTTOptions{Broker: "tcp://127.0.0.1:1883"},
//	})
//	...
//	err = b.Start(ctx) // blocks until ctx ends
//
// PROTOCOL.md specifies the behaviour, and comments cite its sections. The package shares no code with the controller: both
// implement the protocol independently.
package fakebase
