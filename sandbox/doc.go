// Package sandbox runs a complete Koupleless platform on one machine: a Kubernetes API server, an MQTT broker,
// simulated bases and the module controller.
package sandbox
