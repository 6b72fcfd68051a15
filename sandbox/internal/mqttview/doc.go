// Package mqttview stands in connections between MQTT clients and a broker, and disturbs what passes by
// rules: what comes late, twice, in another order, or not at all, in one direction or both. It does only
// what a network, or a broker of MQTT 3.1.1, may do to any client.
//
//	view.go    View: Through, Set, Clear, Drop, Rules
//	rule.go    one rule, whom it is for, and how often it has fired
//	judge.go   what becomes of a packet, under the rules
//	conn.go    a connection that is looked into
//	lane.go    one direction of it, once a rule was for it: what waits, and until when
//	frame.go   where packets begin and end
//	packet.go  what a packet is
//
// A connection that no rule was ever for costs a few bytes, and no copy.
package mqttview
