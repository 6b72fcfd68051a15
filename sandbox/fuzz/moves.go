package fuzz

import (
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// move is a kind of Move.
type move struct {
	name   string
	weight int
	// disturbs says that it is a disturbance: it ends again.
	disturbs bool
	// kinds of workloads that it is for; nil = all.
	kinds []string
	// takes says that requests may be lost by the move itself, whatever the controller does.
	takes bool
	// gap says that a base may be without a version of a module by the move itself.
	gap bool
	// moves says that a module may come to another base, or that some bases do without it.
	moves bool
	// untold says that a module goes and nobody is told; deaf that lists do not come in time.
	untold, deaf bool
	// stale says that the endpoints of Services do not follow their Pods meanwhile.
	stale bool
	// away says that a base may count as unreachable by it, and its Pods may move.
	away bool
	// drains says that it empties the Node of a base, until it ends.
	drains bool
	// api says that it needs the API server; bases that it needs the controller and the way to bases.
	api, bases bool
	// resource is what two disturbances of it cannot have at once; empty = the base's own.
	resource string
	// fault is what a base gets; nil = none.
	fault *v1alpha1.Fault
	// once says that the fault ends by itself.
	once bool
	// rule is what the controller meets at the API; nil = none.
	rule *v1alpha1.Fault
	// way is what happens on the way to the broker, of a base if it has no resource, else of a
	// controller; nil = nothing.
	way *v1alpha1.Fault
	// doubles says that a base may get a command twice, whatever the controller does.
	doubles bool
	// loses says that a command may get lost, so that its answer is waited for in vain.
	loses bool
	// tunnel that the base must have; empty = any.
	tunnel v1alpha1.Tunnel
}

// beyond says whether it does what no API server does. Its name says so too.
func (m *move) beyond() bool { return m.rule != nil && v1alpha1.TargetAPI.BeyondContract(m.rule.Kind) }

// counts says whether it strikes some requests or messages only, after those that it lets pass.
func (m *move) counts() bool {
	if m.way != nil {
		return !v1alpha1.TargetMQTT.Lasts(m.way.Kind)
	}
	return m.rule != nil && !v1alpha1.TargetAPI.Lasts(m.rule.Kind) && m.rule.Kind != v1alpha1.APICutWatch && m.rule.Kind != v1alpha1.APIDelay
}

// shared says whether it disturbs what all schedules of a sandbox have in common. What strikes single
// requests or messages is for the objects and bases of its own schedule.
func (m *move) shared() bool { return m.resource != "" && !m.strikes() }

// strikes says whether it strikes single requests or messages of a controller, and leaves all else as it
// is.
func (m *move) strikes() bool {
	switch {
	case m.rule != nil:
		return slices.Contains([]fault.Kind{v1alpha1.APIRefuse, v1alpha1.APILoseAnswer, v1alpha1.APIDelay}, m.rule.Kind)
	case m.way != nil:
		return slices.Contains([]fault.Kind{v1alpha1.MQTTDuplicate, v1alpha1.MQTTReorder}, m.way.Kind)
	default:
		return false
	}
}

// atBase says whether it is about a base.
func (m *move) atBase() bool {
	return m.fault != nil || m.drains || m.name == restartBase || m.way != nil && m.resource == ""
}

// endsAtAPIServer says whether it ends by what only the API server can do or answer.
func (m *move) endsAtAPIServer() bool {
	return m.drains || m.resource == controllerManager || m.resource == scheduler
}

// Operations and disturbances, by name.
var moves = func() map[string]*move {
	byName := map[string]*move{}
	for i := range all {
		byName[all[i].name] = &all[i]
	}
	return byName
}()

// install and answer are what faults match.
var (
	installs = v1alpha1.FaultMatch{Commands: []string{"installBiz"}}
	answers  = v1alpha1.FaultMatch{Messages: []string{"bizOperation"}}
	lists    = v1alpha1.FaultMatch{Messages: []string{"simpleBiz"}}
	removals = v1alpha1.FaultMatch{Commands: []string{"uninstallBiz"}}
	// commands are those that change something.
	commands = []string{"installBiz", "uninstallBiz"}
)

func after(d time.Duration) fault.Delay { return fault.Delay{Min: fault.Duration(d)} }

// all is sorted: operations, then disturbances. The order is part of what a seed means.
var all = []move{
	{name: release, weight: 12, api: true, kinds: owners},
	{name: rollback, weight: 3, api: true, kinds: owners},
	{name: scaleDown, weight: 2, api: true, moves: true, kinds: []string{deployment}},
	{name: scaleUp, weight: 2, api: true, moves: true, kinds: []string{deployment}},
	{name: recreate, weight: 2, api: true, takes: true, gap: true, moves: true},
	{name: forceDelete, weight: 3, api: true, takes: true, gap: true, moves: true},
	{name: newImage, weight: 2, api: true, takes: true, gap: true},
	{name: addBase, weight: 1, api: true, bases: true, moves: true},
	{name: upgrade, weight: 2, api: true, bases: true, takes: true, gap: true, moves: true},
	{name: restartBase, weight: 1, api: true, bases: true, takes: true, untold: true, gap: true, moves: true},
	{name: uninstalled, weight: 2, takes: true, untold: true, gap: true, once: true, fault: &v1alpha1.Fault{Kind: fault.KindUninstalled}},
	{name: crash, weight: 2, takes: true, untold: true, gap: true, moves: true, once: true, fault: &v1alpha1.Fault{Kind: fault.KindCrash, Restart: &fault.Restart{}}},

	{name: "controller killed", weight: 6, disturbs: true, resource: "controller"},
	{name: "controller paused", weight: 5, disturbs: true, resource: "controller"},
	{name: "broker killed", weight: 5, disturbs: true, resource: "broker"},
	{name: "broker paused", weight: 3, disturbs: true, resource: "broker"},
	{name: "API server killed", weight: 3, disturbs: true, resource: apiServer},
	{name: "controller manager killed", weight: 2, disturbs: true, stale: true, resource: controllerManager},
	{name: "controller manager paused", weight: 2, disturbs: true, stale: true, resource: controllerManager},
	{name: "scheduler killed", weight: 1, disturbs: true, resource: scheduler},
	{name: "scheduler paused", weight: 1, disturbs: true, resource: scheduler},
	{name: drained, weight: 2, disturbs: true, api: true, takes: true, gap: true, moves: true, drains: true},
	{name: "base cut off", weight: 4, disturbs: true, deaf: true, away: true, moves: true, fault: &v1alpha1.Fault{Kind: fault.KindDisconnect}},
	{name: commandsLost, deaf: true, loses: true, weight: 3, disturbs: true, fault: &v1alpha1.Fault{Kind: fault.KindDeaf}},
	{name: "heartbeats lost", weight: 1, disturbs: true, away: true, fault: &v1alpha1.Fault{Kind: fault.KindSilent}},
	{name: "install is slow", weight: 2, disturbs: true, fault: &v1alpha1.Fault{Kind: fault.KindLatency, Delay: after(5 * time.Second), Match: installs}},
	{name: "install fails", weight: 3, disturbs: true, fault: &v1alpha1.Fault{Kind: fault.KindError, Code: "Arklet.InstallBizFailed", Match: installs}},
	{name: "uninstall fails", weight: 2, disturbs: true, fault: &v1alpha1.Fault{Kind: fault.KindError, Code: "Arklet.UninstallBizFailed", Match: removals}},
	{name: "answers garbled", weight: 4, disturbs: true, tunnel: v1alpha1.TunnelMQTT, fault: &v1alpha1.Fault{Kind: fault.KindCorrupt, Match: answers}},
	{name: "answers twice", weight: 1, disturbs: true, tunnel: v1alpha1.TunnelMQTT, fault: &v1alpha1.Fault{Kind: fault.KindDuplicate, Match: answers}},
	{name: "answers late", weight: 2, disturbs: true, tunnel: v1alpha1.TunnelMQTT, fault: &v1alpha1.Fault{Kind: fault.KindDelay, Delay: after(8 * time.Second), Match: answers}},
	{name: "lists late", deaf: true, weight: 2, disturbs: true, tunnel: v1alpha1.TunnelMQTT, fault: &v1alpha1.Fault{Kind: fault.KindDelay, Delay: after(8 * time.Second), Match: lists}},
	{name: "watch of Pods held", weight: 3, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "watch of Nodes held", weight: 2, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "nodes"}}},
	{name: "watch of Deployments held", weight: 2, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "deployments"}}},
	{name: "watches begin anew", weight: 2, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APICutWatch, Relist: true}},
	{name: "old lists", weight: 2, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APIOldList, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "writes conflict", weight: 5, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 409, Count: 3}},
	{name: "writes are refused by 429", weight: 1, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 429, Count: 5}},
	{name: "writes fail by 500", weight: 2, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 500, Count: 3}},
	{name: "answers of the API lost", weight: 3, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APILoseAnswer, Count: 3}},
	{name: "API is slow", weight: 1, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APIDelay, Delay: after(500 * time.Millisecond)}},
	{name: "API is a black hole", weight: 2, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APIBlackHole}},
	{name: "controller killed before a write", weight: 3, disturbs: true, resource: "controller", rule: &v1alpha1.Fault{Kind: v1alpha1.APIKillBefore, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "controller killed after a write", weight: 3, disturbs: true, resource: "controller", rule: &v1alpha1.Fault{Kind: v1alpha1.APIKillAfter, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "controller cut off the broker", weight: 2, disturbs: true, away: true, moves: true, deaf: true, loses: true, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTCut}},
	{name: "way from the controller held", weight: 2, disturbs: true, away: true, moves: true, deaf: true, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "way to the controller held", weight: 2, disturbs: true, away: true, moves: true, deaf: true, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "way from the controller half-open", weight: 2, disturbs: true, away: true, moves: true, deaf: true, loses: true, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "way to the controller half-open", weight: 2, disturbs: true, away: true, moves: true, deaf: true, loses: true, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "way of the controller is slow", weight: 1, disturbs: true, deaf: true, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTDelay, Delay: after(400 * time.Millisecond)}},
	{name: "command twice", weight: 2, disturbs: true, doubles: true, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTDuplicate, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "commands out of order", weight: 2, disturbs: true, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTReorder, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "controller killed before a command", weight: 2, disturbs: true, resource: "controller", tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTKillBefore, Match: v1alpha1.FaultMatch{Messages: commands}}},
	{name: "controller killed after a command", weight: 2, disturbs: true, resource: "controller", tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTKillAfter, Match: v1alpha1.FaultMatch{Messages: commands}}},
	{name: "base cut off at the broker", weight: 1, disturbs: true, deaf: true, away: true, moves: true, loses: true, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTCut}},
	{name: "way from a base held", weight: 2, disturbs: true, deaf: true, away: true, moves: true, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "way to a base held", weight: 2, disturbs: true, deaf: true, away: true, moves: true, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "way from a base half-open", weight: 2, disturbs: true, deaf: true, away: true, moves: true, loses: true, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "way to a base half-open", weight: 2, disturbs: true, deaf: true, away: true, moves: true, loses: true, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "way of a base is slow", weight: 1, disturbs: true, deaf: true, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTDelay, Delay: after(400 * time.Millisecond)}},
	{name: "message to a base twice", weight: 1, disturbs: true, doubles: true, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTDuplicate, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "messages to a base out of order", weight: 1, disturbs: true, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTReorder, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "messages of a base out of order", weight: 1, disturbs: true, deaf: true, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.Fault{Kind: v1alpha1.MQTTReorder, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "messages out of order", deaf: true, weight: 1, disturbs: true, tunnel: v1alpha1.TunnelMQTT, fault: &v1alpha1.Fault{Kind: fault.KindReorder}},
	{name: "events of Pods lost, beyond the contract", weight: 4, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APILoseEvents, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "events of Nodes lost, beyond the contract", weight: 4, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APILoseEvents, Match: v1alpha1.FaultMatch{Resource: "nodes"}}},
	{name: "events of Pods twice, beyond the contract", weight: 4, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APIDoubleEvents, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "events of Pods out of order, beyond the contract", weight: 4, disturbs: true, resource: view, rule: &v1alpha1.Fault{Kind: v1alpha1.APIReorderEvents, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
}

// The operations that render knows by name.
const (
	release     = "release"
	rollback    = "roll back"
	scaleDown   = "scale down"
	scaleUp     = "scale up"
	recreate    = "delete and create"
	forceDelete = "delete Pods by force"
	newImage    = "image without a version"
	addBase     = "add a base"
	upgrade     = "upgrade bases"
	restartBase = "restart a base"
	uninstalled = "module uninstalled by others"
	crash       = "base crashes"
)

// The resources of disturbances that render knows by name.
const (
	view              = "api"
	way               = "way"
	apiServer         = "apiserver"
	controllerManager = "controllerManager"
	scheduler         = "scheduler"
)

// The disturbances that render knows by name.
const (
	commandsLost = "commands lost"
	drained      = "Node drained"
)

const (
	deployment  = "Deployment"
	peer        = "peer Deployment" // its replicas follow the bases
	daemonSet   = "DaemonSet"
	statefulSet = "StatefulSet"
	pod         = "Pod" // one that nobody makes anew
)

// owners are the kinds whose Pods are made anew, and released.
var owners = []string{deployment, peer, daemonSet, statefulSet}

// Names are those of all moves, for --only.
func Names() []string {
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.name
	}
	return slices.Clone(names)
}
