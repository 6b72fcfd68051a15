// Package heartbeat takes what bases post over HTTP to every module controller.
//
//	heartbeat.go   Relay: an http.RoundTripper for bases of this process, a server for others
package heartbeat
