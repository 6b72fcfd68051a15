// Package mqtt carries arklet messages over an MQTT broker (protocol 3).
//
//	mqtt.go            what bases say, and what they are told
//	connection.go      one connection after the other
//	limit.go           limits the packets that are read
//	unacknowledged.go  bounds what is on its way to a broker that is behind
//	echo.go            tells how late this controller hears what bases say
//	inbox.go           messages that wait to be worked on, apart from the connection
//	retained.go        removes what a controller before this one left with the broker
//
// One connection serves all bases. It subscribes with one wildcard, again on every connect, so that
// no base is lost when the broker comes back. Commands go out with QoS 1 and are never retained: a
// base that connects later must not run what was meant for another.
package mqtt
