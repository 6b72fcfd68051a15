// Package heartbeat takes what bases post over HTTP to every module controller.
package heartbeat
