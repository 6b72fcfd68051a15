// Package agent sends requests from within the network of a cluster. The kube-proxy of the cluster selects the
// base. If bases share the addresses of Pods, the agent selects a base from a list, as kube-proxy would.
//
// The agent is this binary, started in a node or a Pod of the cluster. It communicates over its standard
// streams, so it needs no port and no password, and it ends with the process that started it. The request logs
// stay in the agent until they are requested. Only lost requests are reported immediately.
//
// The clock of the agent's machine may differ, for example in a node, or in a virtual machine of a container
// engine. The agent reports its time when it starts, and all times are converted to the clock of this machine.
package agent

// Command is the hidden koupsandbox command that runs an agent. With the flag Idle, the process does nothing, so that
// a Pod can run it until an agent is started in the Pod. The flag Patience sets the timeout of Serve.
const (
	Command  = "traffic-agent"
	Idle     = "idle"
	Patience = "patience"
)
