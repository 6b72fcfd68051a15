// Package sandbox puts a whole Koupleless platform on one machine: a Kubernetes
// API, an MQTT broker, simulated bases and the module controller.
package sandbox
