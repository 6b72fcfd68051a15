package fuzz

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// effect is something that a move may do although the controller works correctly. The checks and the
// requests of a schedule take it into account.
type effect uint

const (
	// losesRequests: requests may be lost.
	losesRequests effect = 1 << iota
	// leavesGap: a base may have no active version of a module for a time.
	leavesGap
	// movesModules: a module may move to another base, or be on fewer bases.
	movesModules
	// removesSilently: a module is removed, and the base does not report it.
	removesSilently
	// delaysLists: the module lists of a base may be late.
	delaysLists
	// staleEndpoints: the endpoints of Services do not follow their Pods.
	staleEndpoints
	// unreachable: a base may be treated as unreachable, and its Pods may move.
	unreachable
	// repeatsCommands: a base may receive a command twice.
	repeatsCommands
	// losesCommands: a command may be lost, and the controller never gets the answer.
	losesCommands

	// cutOff is the effect of a broken connection.
	cutOff = delaysLists | unreachable | movesModules
	// removes is the effect of removing modules, Pods or bases.
	removes = losesRequests | leavesGap | movesModules
)

// move is a kind of Move.
type move struct {
	name    string
	weight  int
	effects effect
	// kinds are the kinds of workloads that the move supports. Default: all.
	kinds []string
	// resource is what two disturbances of it cannot have at once; empty = the base's own.
	resource string
	// fault is what a base gets; nil = none.
	fault v1alpha1.Object
	// rule is what the controller meets at the API; nil = none.
	rule *v1alpha1.APIRule
	// way is what happens on the way to the broker, of a base if it has no resource, else of a
	// controller; nil = nothing.
	way *v1alpha1.MQTTRule
	// tunnel that the base must have; empty = any.
	tunnel v1alpha1.Tunnel
}

// may reports whether the move has one of the effects.
func (m *move) may(e effect) bool { return m.effects&e != 0 }

// disturbs reports whether the move is a fault that begins and ends. Other moves are operations.
func (m *move) disturbs() bool {
	return m.resource != "" || m.way != nil || m.drains() || m.fault != nil && m.name != uninstalled && m.name != crash
}

// drains reports whether the move drains the Node of a base.
func (m *move) drains() bool { return m.name == drained }

// needsAPI reports whether the move needs the API server.
func (m *move) needsAPI() bool { return m.drains() || !m.disturbs() && m.fault == nil }

// needsBases reports whether the move needs the controller and the connection to the bases.
func (m *move) needsBases() bool {
	return slices.Contains([]string{addBase, upgrade, restartBase}, m.name)
}

// beyond says whether it does what no API server does. Its name says so too.
func (m *move) beyond() bool { return m.rule != nil && m.rule.Kind.BeyondContract() }

// counts says whether it strikes some requests or messages only, after those that it lets pass.
func (m *move) counts() bool {
	if m.way != nil {
		return !m.way.Kind.Lasts()
	}
	return m.rule != nil && !m.rule.Kind.Lasts() && m.rule.Kind != v1alpha1.APICutWatch && m.rule.Kind != v1alpha1.APIDelay
}

// shared says whether it disturbs what all schedules of a sandbox have in common. What strikes single
// requests or messages is for the objects and bases of its own schedule.
func (m *move) shared() bool { return m.resource != "" && !m.strikes() }

// strikes says whether it strikes single requests or messages of a controller, and leaves all else as it
// is.
func (m *move) strikes() bool {
	switch {
	case m.rule != nil:
		return slices.Contains([]v1alpha1.APIRuleKind{v1alpha1.APIRefuse, v1alpha1.APILoseAnswer, v1alpha1.APIDelay}, m.rule.Kind)
	case m.way != nil:
		return slices.Contains([]v1alpha1.MQTTRuleKind{v1alpha1.MQTTDuplicate, v1alpha1.MQTTReorder}, m.way.Kind)
	default:
		return false
	}
}

// atBase says whether it is about a base.
func (m *move) atBase() bool {
	return m.fault != nil || m.drains() || m.name == restartBase || m.way != nil && m.resource == ""
}

// endsAtAPIServer says whether it ends by what only the API server can do or answer.
func (m *move) endsAtAPIServer() bool {
	return m.drains() || m.resource == controllerManager || m.resource == scheduler
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
	installs = v1alpha1.Object{"commands": []any{"installBiz"}}
	answers  = v1alpha1.Object{"messages": []any{"bizOperation"}}
	lists    = v1alpha1.Object{"messages": []any{"simpleBiz"}}
	removals = v1alpha1.Object{"commands": []any{"uninstallBiz"}}
	// commands are those that change something.
	commands = []string{"installBiz", "uninstallBiz"}
)

// all is sorted: operations, then disturbances. The order is part of what a seed means.
var all = []move{
	{name: release, weight: 12, kinds: owners},
	{name: rollback, weight: 3, kinds: owners},
	{name: scaleDown, weight: 2, effects: movesModules, kinds: []string{deployment}},
	{name: scaleUp, weight: 2, effects: movesModules, kinds: []string{deployment}},
	{name: recreate, weight: 2, effects: removes},
	{name: forceDelete, weight: 3, effects: removes},
	{name: newImage, weight: 2, effects: losesRequests | leavesGap},
	{name: addBase, weight: 1, effects: movesModules},
	{name: upgrade, weight: 2, effects: removes},
	{name: restartBase, weight: 1, effects: removes | removesSilently},
	{name: uninstalled, weight: 2, effects: losesRequests | leavesGap | removesSilently, fault: v1alpha1.Object{"kind": "uninstalled"}},
	{name: crash, weight: 2, effects: removes | removesSilently, fault: v1alpha1.Object{"kind": "crash", "restart": map[string]any{}}},

	{name: "controller killed", weight: 6, resource: "controller"},
	{name: "controller paused", weight: 5, resource: "controller"},
	{name: "broker killed", weight: 5, resource: "broker"},
	{name: "broker paused", weight: 3, resource: "broker"},
	{name: "API server killed", weight: 3, resource: apiServer},
	{name: "controller manager killed", weight: 2, effects: staleEndpoints, resource: controllerManager},
	{name: "controller manager paused", weight: 2, effects: staleEndpoints, resource: controllerManager},
	{name: "scheduler killed", weight: 1, resource: scheduler},
	{name: "scheduler paused", weight: 1, resource: scheduler},
	{name: drained, weight: 2, effects: removes},
	{name: "base cut off", weight: 4, effects: cutOff, fault: v1alpha1.Object{"kind": "disconnect"}},
	{name: commandsLost, weight: 3, effects: delaysLists | losesCommands, fault: v1alpha1.Object{"kind": "deaf"}},
	{name: "heartbeats lost", weight: 1, effects: unreachable, fault: v1alpha1.Object{"kind": "silent"}},
	{name: "install is slow", weight: 2, fault: v1alpha1.Object{"kind": "latency", "delay": map[string]any{"min": "5s"}, "match": installs}},
	{name: "install fails", weight: 3, fault: v1alpha1.Object{"kind": "error", "code": "Arklet.InstallBizFailed", "match": installs}},
	{name: "uninstall fails", weight: 2, fault: v1alpha1.Object{"kind": "error", "code": "Arklet.UninstallBizFailed", "match": removals}},
	{name: "answers garbled", weight: 4, tunnel: v1alpha1.TunnelMQTT, fault: v1alpha1.Object{"kind": "corrupt", "match": answers}},
	{name: "answers twice", weight: 1, tunnel: v1alpha1.TunnelMQTT, fault: v1alpha1.Object{"kind": "duplicate", "match": answers}},
	{name: "answers late", weight: 2, tunnel: v1alpha1.TunnelMQTT, fault: v1alpha1.Object{"kind": "delay", "delay": map[string]any{"min": "8s"}, "match": answers}},
	{name: "lists late", weight: 2, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT, fault: v1alpha1.Object{"kind": "delay", "delay": map[string]any{"min": "8s"}, "match": lists}},
	{name: "watch of Pods held", weight: 3, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APIHoldWatch, Resource: "pods"}},
	{name: "watch of Nodes held", weight: 2, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APIHoldWatch, Resource: "nodes"}},
	{name: "watch of Deployments held", weight: 2, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APIHoldWatch, Resource: "deployments"}},
	{name: "watches begin anew", weight: 2, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APICutWatch, Relist: true}},
	{name: "old lists", weight: 2, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APIOldList, Resource: "pods"}},
	{name: "writes conflict", weight: 5, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APIRefuse, Code: 409, Count: 3}},
	{name: "writes are refused by 429", weight: 1, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APIRefuse, Code: 429, Count: 5}},
	{name: "writes fail by 500", weight: 2, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APIRefuse, Code: 500, Count: 3}},
	{name: "answers of the API lost", weight: 3, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APILoseAnswer, Count: 3}},
	{name: "API is slow", weight: 1, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APIDelay, Delay: &metav1.Duration{Duration: 500 * time.Millisecond}}},
	{name: "API is a black hole", weight: 2, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APIBlackHole}},
	{name: "controller killed before a write", weight: 3, resource: "controller", rule: &v1alpha1.APIRule{Kind: v1alpha1.APIKillBefore, Resource: "pods"}},
	{name: "controller killed after a write", weight: 3, resource: "controller", rule: &v1alpha1.APIRule{Kind: v1alpha1.APIKillAfter, Resource: "pods"}},
	{name: "controller cut off the broker", weight: 2, effects: cutOff | losesCommands, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTCut}},
	{name: "way from the controller held", weight: 2, effects: cutOff, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTHold, Direction: v1alpha1.ToBroker}},
	{name: "way to the controller held", weight: 2, effects: cutOff, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTHold, Direction: v1alpha1.FromBroker}},
	{name: "way from the controller half-open", weight: 2, effects: cutOff | losesCommands, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTHalfOpen, Direction: v1alpha1.ToBroker}},
	{name: "way to the controller half-open", weight: 2, effects: cutOff | losesCommands, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTHalfOpen, Direction: v1alpha1.FromBroker}},
	{name: "way of the controller is slow", weight: 1, effects: delaysLists, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTDelay, Delay: &metav1.Duration{Duration: 400 * time.Millisecond}}},
	{name: "command twice", weight: 2, effects: repeatsCommands, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTDuplicate, Direction: v1alpha1.ToBroker}},
	{name: "commands out of order", weight: 2, resource: way, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTReorder, Direction: v1alpha1.ToBroker}},
	{name: "controller killed before a command", weight: 2, resource: "controller", tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTKillBefore, Messages: commands}},
	{name: "controller killed after a command", weight: 2, resource: "controller", tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTKillAfter, Messages: commands}},
	{name: "base cut off at the broker", weight: 1, effects: cutOff | losesCommands, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTCut}},
	{name: "way from a base held", weight: 2, effects: cutOff, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTHold, Direction: v1alpha1.ToBroker}},
	{name: "way to a base held", weight: 2, effects: cutOff, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTHold, Direction: v1alpha1.FromBroker}},
	{name: "way from a base half-open", weight: 2, effects: cutOff | losesCommands, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTHalfOpen, Direction: v1alpha1.ToBroker}},
	{name: "way to a base half-open", weight: 2, effects: cutOff | losesCommands, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTHalfOpen, Direction: v1alpha1.FromBroker}},
	{name: "way of a base is slow", weight: 1, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTDelay, Delay: &metav1.Duration{Duration: 400 * time.Millisecond}}},
	{name: "message to a base twice", weight: 1, effects: repeatsCommands, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTDuplicate, Direction: v1alpha1.FromBroker}},
	{name: "messages to a base out of order", weight: 1, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTReorder, Direction: v1alpha1.FromBroker}},
	{name: "messages of a base out of order", weight: 1, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT, way: &v1alpha1.MQTTRule{Kind: v1alpha1.MQTTReorder, Direction: v1alpha1.ToBroker}},
	{name: "messages out of order", weight: 1, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT, fault: v1alpha1.Object{"kind": "reorder"}},
	{name: "events of Pods lost, beyond the contract", weight: 4, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APILoseEvents, Resource: "pods"}},
	{name: "events of Nodes lost, beyond the contract", weight: 4, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APILoseEvents, Resource: "nodes"}},
	{name: "events of Pods twice, beyond the contract", weight: 4, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APIDoubleEvents, Resource: "pods"}},
	{name: "events of Pods out of order, beyond the contract", weight: 4, resource: view, rule: &v1alpha1.APIRule{Kind: v1alpha1.APIReorderEvents, Resource: "pods"}},
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
