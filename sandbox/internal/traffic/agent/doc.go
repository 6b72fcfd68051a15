// Package agent sends requests from within the network of a cluster, where the
// cluster's own kube-proxy leads them to the bases; or, where bases share the addresses of
// Pods, the agent picks among the ones that it is told of, as kube-proxy would.
//
// The agent is this program again, started in a node or a Pod of the cluster. It hears and
// answers over its standard streams, so it needs no port and no password, and it
// ends with whoever started it. The ledgers lie in the agent until somebody asks;
// only lost requests are told at once.
//
// The agent's machine may have another clock, such as a node, or an engine in a virtual machine. It is
// asked for its time when the agent starts, and what the agent tells has the times of this machine.
package agent

// Command is the hidden command of koupsandbox that is an agent. With the flag Idle it does nothing, in
// a Pod in which an agent is started later. The flag Patience is that of Serve.
const (
	Command  = "traffic-agent"
	Idle     = "idle"
	Patience = "patience"
)
