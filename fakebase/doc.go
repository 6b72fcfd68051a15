// Package fakebase simulates Koupleless bases: to a module controller a Base
// is a JVM that installs and removes modules, speaks arklet's protocol over
// MQTT and HTTP, reports its health, and serves the modules' traffic.
//
//	b, err := fakebase.New(fakebase.Options{
//		Identity: "a1b2", MQTT: &fakebase.MQTTOptions{Broker: "tcp://127.0.0.1:1883"},
//	})
//	...
//	err = b.Start(ctx) // blocks until ctx ends
//
// The source of every behaviour is the protocol specification, PROTOCOL.md. Comments cite its
// sections. The package shares no code with the controller: the two
// are independent readings of one protocol.
package fakebase
