package fuzz

import (
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
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

type actionSpec struct {
	name    string
	weight  int
	effects effect
	// kinds are the kinds of workloads that the move supports. Default: all.
	kinds []string
	// resource can have only one disturbance at a time; empty = the disturbance is of a base.
	resource string
	// do is what a disturbance does with a component; empty = nothing.
	do string
	// fault is set on the target; nil = none.
	fault  *v1alpha1.Fault
	target v1alpha1.FaultTarget
	// tunnel that the base must have; empty = any.
	tunnel v1alpha1.Tunnel

	disruption bool // it begins and ends; other moves are operations
}

func (m *actionSpec) mayCause(e effect) bool { return m.effects&e != 0 }

// isDisruption reports whether the move is a fault that begins and ends. Other moves are operations.
func (m *actionSpec) isDisruption() bool { return m.disruption }

func (m *actionSpec) drains() bool { return m.name == drained }

func (m *actionSpec) needsAPI() bool { return m.drains() || !m.isDisruption() && m.fault == nil }

// needsBases reports whether the move needs the controller and the connection to the bases.
func (m *actionSpec) needsBases() bool {
	return slices.Contains([]string{addBase, upgrade, restartBase}, m.name)
}

// sets reports whether the move sets one of these kinds of faults on a target; no kinds = any.
func (m *actionSpec) sets(t v1alpha1.FaultTarget, kinds ...fault.Kind) bool {
	return m.fault != nil && m.target == t && (len(kinds) == 0 || slices.Contains(kinds, m.fault.Kind))
}

// beyond reports whether the move does something that an API server never does. Its name contains this, too.
func (m *actionSpec) beyond() bool {
	return m.sets(v1alpha1.TargetAPI) && v1alpha1.TargetAPI.BeyondContract(m.fault.Kind)
}

// canSkip reports whether the move affects single requests or messages, and can skip some before.
func (m *actionSpec) canSkip() bool {
	return m.fault != nil && m.target != v1alpha1.TargetBase && !m.target.Lasts(m.fault.Kind) &&
		!m.sets(v1alpha1.TargetAPI, v1alpha1.APICutWatch, v1alpha1.APIDelay)
}

// affectsAllSchedules reports whether the move disturbs something that all schedules of a sandbox use. Faults of single requests or
// messages are limited to the objects and bases of their schedule.
func (m *actionSpec) affectsAllSchedules() bool { return m.resource != "" && !m.affectsSingleMessages() }

// affectsSingleMessages reports whether the move affects only single requests or messages of a controller.
func (m *actionSpec) affectsSingleMessages() bool {
	return m.sets(v1alpha1.TargetAPI, v1alpha1.APIRefuse, v1alpha1.APILoseAnswer, v1alpha1.APIDelay) ||
		m.sets(v1alpha1.TargetMQTT, v1alpha1.MQTTDuplicate, v1alpha1.MQTTReorder)
}

// targetsBase reports whether the move is about a base.
func (m *actionSpec) targetsBase() bool {
	return m.sets(v1alpha1.TargetBase) || m.drains() || m.name == restartBase ||
		m.sets(v1alpha1.TargetMQTT) && m.resource == ""
}

// endsAtAPIServer reports whether the move can end only while the API server runs.
func (m *actionSpec) endsAtAPIServer() bool {
	return m.drains() || m.resource == controllerManager || m.resource == scheduler
}

// allActions has the operations and then the disturbances. The schedule of a seed depends on the order.
var allActions = func() []actionSpec {
	for i := range disruptions {
		disruptions[i].disruption = true
	}
	return slices.Concat(operations, disruptions)
}()

var actionSpecs = func() map[string]*actionSpec {
	byName := map[string]*actionSpec{}
	for i := range allActions {
		byName[allActions[i].name] = &allActions[i]
	}
	return byName
}()

// The messages and commands of faults.
var (
	installs = v1alpha1.FaultMatch{Commands: []string{"installBiz"}}
	answers  = v1alpha1.FaultMatch{Messages: []string{"bizOperation"}}
	lists    = v1alpha1.FaultMatch{Messages: []string{"simpleBiz"}}
	removals = v1alpha1.FaultMatch{Commands: []string{"uninstallBiz"}}
	// commands install or uninstall modules.
	commands = []string{"installBiz", "uninstallBiz"}
)

func after(d time.Duration) fault.Delay { return fault.Delay{Min: fault.Duration(d)} }

var operations = []actionSpec{
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
	{name: uninstalled, weight: 2, effects: losesRequests | leavesGap | removesSilently, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindUninstalled}},
	{name: crash, weight: 2, effects: removes | removesSilently, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindCrash, Restart: &fault.Restart{}}},
}

var disruptions = []actionSpec{
	{name: "controller killed", weight: 6, resource: controllers, do: "kill"},
	{name: "controller paused", weight: 5, resource: controllers, do: "pause"},
	{name: "broker killed", weight: 5, resource: broker, do: "kill"},
	{name: "broker paused", weight: 3, resource: broker, do: "pause"},
	{name: "API server killed", weight: 3, resource: apiServer, do: "kill"},
	{name: "controller manager killed", weight: 2, effects: staleEndpoints, resource: controllerManager, do: "kill"},
	{name: "controller manager paused", weight: 2, effects: staleEndpoints, resource: controllerManager, do: "pause"},
	{name: "scheduler killed", weight: 1, resource: scheduler, do: "kill"},
	{name: "scheduler paused", weight: 1, resource: scheduler, do: "pause"},
	{name: drained, weight: 2, effects: removes},
	{name: "base cut off", weight: 4, effects: cutOff, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindDisconnect}},
	{name: "commands lost", weight: 3, effects: delaysLists | losesCommands, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindDeaf}},
	{name: "heartbeats lost", weight: 1, effects: unreachable, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindSilent}},
	{name: "install is slow", weight: 2, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindLatency, Delay: after(5 * time.Second), Match: installs}},
	{name: "install fails", weight: 3, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindError, Code: "Arklet.InstallBizFailed", Match: installs}},
	{name: "uninstall fails", weight: 2, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindError, Code: "Arklet.UninstallBizFailed", Match: removals}},
	{name: "answers garbled", weight: 4, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindCorrupt, Match: answers}},
	{name: "answers twice", weight: 1, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindDuplicate, Match: answers}},
	{name: "answers late", weight: 2, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindDelay, Delay: after(8 * time.Second), Match: answers}},
	{name: "lists late", weight: 2, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindDelay, Delay: after(8 * time.Second), Match: lists}},
	{name: "watch of Pods held", weight: 3, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "watch of Nodes held", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "nodes"}}},
	{name: "watch of Deployments held", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "deployments"}}},
	{name: "watches begin anew", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APICutWatch, Relist: true}},
	{name: "old lists", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIOldList, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "writes conflict", weight: 5, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 409, Count: 3}},
	{name: "writes are refused by 429", weight: 1, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 429, Count: 5}},
	{name: "writes fail by 500", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 500, Count: 3}},
	{name: "answers of the API lost", weight: 3, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APILoseAnswer, Count: 3}},
	{name: "API is slow", weight: 1, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIDelay, Delay: after(500 * time.Millisecond)}},
	{name: "API is a black hole", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIBlackHole}},
	{name: "controller killed before a write", weight: 3, resource: controllers, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIKillBefore, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "controller killed after a write", weight: 3, resource: controllers, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIKillAfter, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "controller cut off the broker", weight: 2, effects: cutOff | losesCommands, resource: brokerConnection,
		tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetMQTT, fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTCut}},
	{name: "way from the controller held", weight: 2, effects: cutOff, resource: brokerConnection, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "way to the controller held", weight: 2, effects: cutOff, resource: brokerConnection, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "way from the controller half-open", weight: 2, effects: cutOff | losesCommands, resource: brokerConnection,
		tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "way to the controller half-open", weight: 2, effects: cutOff | losesCommands, resource: brokerConnection,
		tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen,
			Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "way of the controller is slow", weight: 1, effects: delaysLists, resource: brokerConnection, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTDelay, Delay: after(400 * time.Millisecond)}},
	{name: "command twice", weight: 2, effects: repeatsCommands, resource: brokerConnection, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTDuplicate,
			Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "commands out of order", weight: 2, resource: brokerConnection, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTReorder, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "controller killed before a command", weight: 2, resource: controllers, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTKillBefore, Match: v1alpha1.FaultMatch{Messages: commands}}},
	{name: "controller killed after a command", weight: 2, resource: controllers, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTKillAfter, Match: v1alpha1.FaultMatch{Messages: commands}}},
	{name: "base cut off at the broker", weight: 1, effects: cutOff | losesCommands, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT, fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTCut}},
	{name: "way from a base held", weight: 2, effects: cutOff, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "way to a base held", weight: 2, effects: cutOff, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "way from a base half-open", weight: 2, effects: cutOff | losesCommands, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "way to a base half-open", weight: 2, effects: cutOff | losesCommands, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen,
			Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "way of a base is slow", weight: 1, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTDelay, Delay: after(400 * time.Millisecond)}},
	{name: "message to a base twice", weight: 1, effects: repeatsCommands, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTDuplicate,
			Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "messages to a base out of order", weight: 1, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTReorder, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "messages of a base out of order", weight: 1, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTReorder, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "messages out of order", weight: 1, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetBase, fault: &v1alpha1.Fault{Kind: fault.KindReorder}},
	{name: "events of Pods lost, beyond the contract", weight: 4, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APILoseEvents, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "events of Nodes lost, beyond the contract", weight: 4, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APILoseEvents, Match: v1alpha1.FaultMatch{Resource: "nodes"}}},
	{name: "events of Pods twice, beyond the contract", weight: 4, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIDoubleEvents, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "events of Pods out of order, beyond the contract", weight: 4, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIReorderEvents, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
}

// The names of operations.
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

// The resources of disturbances.
const (
	controllers       = "controller"
	broker            = "broker"
	apiProxy              = "api"
	brokerConnection               = "way"
	apiServer         = "apiserver"
	controllerManager = "controllerManager"
	scheduler         = "scheduler"
)

// The name of a disturbance.
const drained = "Node drained"

const (
	deployment  = "Deployment"
	peer        = "peer Deployment" // its replicas follow the bases
	daemonSet   = "DaemonSet"
	statefulSet = "StatefulSet"
	pod         = "Pod" // it is not recreated
)

// owners are the kinds that recreate their Pods.
var owners = []string{deployment, peer, daemonSet, statefulSet}

// ActionNames returns the names of all moves.
func ActionNames() []string {
	names := make([]string, len(allActions))
	for i, m := range allActions {
		names[i] = m.name
	}
	return names
}
