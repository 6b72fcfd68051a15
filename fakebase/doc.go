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
// # Map
//
//	fakebase.go options.go     Base: New, Start, Crash, Restart, Inject, Clear
//	status.go events.go        Status, and Watch for every change as it happens
//	trace.go addr.go           Trace for commands and faults; listeners
//	life.go                    one process of a base, from start to crash
//	commands.go install.go     the commands of arklet, the same for both tunnels:
//	uninstall.go batch.go      operations under the lock of their identity,
//	ops.go health.go           asynchronous ones with a record, health
//	internal/ark               the state machine of modules, pure
//	catalogue.go internal/jar  what is behind a module's URL
//	metaspace.go               how metaspace grows and is given back
//	fault                      what can go wrong: a package that imports nothing here
//	faultset.go errors.go      when it happens and how often, and what Java throws then
//	mqtt.go link.go            the MQTT tunnel, and the network it passes
//	http.go                    the HTTP tunnel
//	wire.go wire_http.go       what stands on the wire
//	wire_mqtt.go request.go
//	web.go actuator.go         module traffic and actuator
//	endpoint.go pool.go        servers that vanish and come back; worker pools
//	internal/mqtt              a small MQTT client
//	recording                  what a real base was seen to answer
//	remote stdio rpc           a base in another process, over its standard streams
//	cmd/fakebase               bases by hand, against any controller
//
// # Cost
//
// An idle base with an MQTT connection has one goroutine, the one that Start
// was called on, and 14 KB of memory, its connection included; 40 KB is the
// budget that a test enforces. Open listeners add one goroutine each, running
// commands one each. Timers belong to the Go runtime. A heartbeat takes about
// 1 µs, so a hundred idle bases need some 10 µs of a core per second.
//
// The source of every behaviour is the protocol specification, PROTOCOL.md, cited by
// section in comments. The package shares no code with the controller: the two
// are independent readings of one protocol.
package fakebase
