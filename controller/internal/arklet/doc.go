// Package arklet holds the messages that the controller exchanges with the arklet agent of a base:
// what it sends, and what it can read of the answers.
//
// The package does no I/O. Decoders take whatever bytes arrived and answer with a value or an
// error, never a panic; they accept all three generations of heartbeats and both enum spellings
// (protocol 1, 3.5 and 4.3).
//
//	command.go  what the controller sends
//	decode.go   envelope, heartbeat, metadata
//	biz.go      module states, state records, lists
//	answer.go   answers to install, uninstall and batch install
//	health.go   the health document
//	limits.go   how long names, texts and lists may be, and which times are believed
package arklet
