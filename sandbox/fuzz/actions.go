package fuzz

import (
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// effect is a side effect that an action may have even if the controller works correctly. The checks and the request
// streams of a schedule tolerate these effects.
type effect uint

const (
	// losesRequests: requests may be lost.
	losesRequests effect = 1 << iota
	// leavesGap: a base may temporarily have no active version of a module.
	leavesGap
	// movesModules: a module may move to another base, or run on fewer bases.
	movesModules
	// removesSilently: a module is removed, but the base does not report the removal.
	removesSilently
	// delaysLists: a base may report its module lists late.
	delaysLists
	// staleEndpoints: the endpoints of Services may not match the state of their Pods.
	staleEndpoints
	// unreachable: a base may be treated as unreachable, and its Pods may move.
	unreachable
	// repeatsCommands: a base may receive a command twice.
	repeatsCommands
	// losesCommands: a command may be lost, so the controller never receives a response.
	losesCommands

	// cutOff combines the effects of a broken connection.
	cutOff = delaysLists | unreachable | movesModules
	// removes combines the effects of removing modules, Pods or bases.
	removes = losesRequests | leavesGap | movesModules
)

type actionSpec struct {
	name    string
	weight  int
	effects effect
	// kinds are the workload kinds that the action supports. Default: all kinds.
	kinds []string
	// resource is the component or connection that the action disrupts. Only one disruption of a resource can be in
	// effect at a time. Empty means that the action disrupts a single base.
	resource string
	// do is the component action that begins the disruption; empty if the disruption is not a component action.
	do string
	// fault is the fault that the action sets on target; nil if the action sets no fault.
	fault  *v1alpha1.Fault
	target v1alpha1.FaultTarget
	// tunnel is the tunnel that the base must use; empty means any tunnel.
	tunnel v1alpha1.Tunnel

	disruption bool // the action begins and ends; other actions are operations
}

func (m *actionSpec) mayCause(e effect) bool { return m.effects&e != 0 }

// isDisruption reports whether the action is a fault that begins and ends. Other actions are operations.
func (m *actionSpec) isDisruption() bool { return m.disruption }

func (m *actionSpec) drains() bool { return m.name == drained }

func (m *actionSpec) needsAPI() bool { return m.drains() || !m.isDisruption() && m.fault == nil }

// needsBases reports whether the action completes only while the controller is running and connected to the bases.
func (m *actionSpec) needsBases() bool {
	return slices.Contains([]string{addBase, upgrade, restartBase}, m.name)
}

// sets reports whether the action sets a fault of one of the kinds on the target. If no kinds are given, a fault of
// any kind matches.
func (m *actionSpec) sets(t v1alpha1.FaultTarget, kinds ...fault.Kind) bool {
	return m.fault != nil && m.target == t && (len(kinds) == 0 || slices.Contains(kinds, m.fault.Kind))
}

// breaksContract reports whether the action injects behaviour that a correct API server never shows. The names of such
// actions end with "against the API contract".
func (m *actionSpec) breaksContract() bool {
	return m.sets(v1alpha1.TargetAPI) && v1alpha1.TargetAPI.BeyondContract(m.fault.Kind)
}

// canSkip reports whether the action affects single requests or messages and supports Action.Skip, which leaves the
// first ones unaffected.
func (m *actionSpec) canSkip() bool {
	return m.fault != nil && m.target != v1alpha1.TargetBase && !m.target.IsState(m.fault.Kind) &&
		!m.sets(v1alpha1.TargetAPI, v1alpha1.APICutWatch, v1alpha1.APIDelay)
}

// affectsAllSchedules reports whether the action disrupts a resource that all schedules of a sandbox share. Faults of
// single requests or messages are limited to the objects and bases of their own schedule.
func (m *actionSpec) affectsAllSchedules() bool {
	return m.resource != "" && !m.affectsSingleMessages()
}

// affectsSingleMessages reports whether the action affects only single requests or messages of a controller.
func (m *actionSpec) affectsSingleMessages() bool {
	return m.sets(v1alpha1.TargetAPI, v1alpha1.APIRefuse, v1alpha1.APILoseAnswer, v1alpha1.APIDelay) ||
		m.sets(v1alpha1.TargetMQTT, v1alpha1.MQTTDuplicate, v1alpha1.MQTTReorder)
}

// targetsBase reports whether the action acts on a base.
func (m *actionSpec) targetsBase() bool {
	return m.sets(v1alpha1.TargetBase) || m.drains() || m.name == restartBase ||
		m.sets(v1alpha1.TargetMQTT) && m.resource == ""
}

// endsAtAPIServer reports whether the disruption can end only while the API server is running.
func (m *actionSpec) endsAtAPIServer() bool {
	return m.drains() || m.resource == controllerManager || m.resource == scheduler
}

// allActions contains the operations, followed by the disruptions. The order determines which schedule a seed
// generates.
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

// FaultMatch values that select the commands and messages on which faults act.
var (
	installs = v1alpha1.FaultMatch{Commands: []string{"installBiz"}}
	answers  = v1alpha1.FaultMatch{Messages: []string{"bizOperation"}}
	lists    = v1alpha1.FaultMatch{Messages: []string{"simpleBiz"}}
	removals = v1alpha1.FaultMatch{Commands: []string{"uninstallBiz"}}
	// commands are the commands that install or uninstall modules.
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
	{name: "base disconnected", weight: 4, effects: cutOff, target: v1alpha1.TargetBase,
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
	{name: "responses corrupted", weight: 4, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindCorrupt, Match: answers}},
	{name: "responses duplicated", weight: 1, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindDuplicate, Match: answers}},
	{name: "responses delayed", weight: 2, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetBase,
		fault: &v1alpha1.Fault{Kind: fault.KindDelay, Delay: after(8 * time.Second), Match: answers}},
	{name: "module lists delayed", weight: 2, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetBase,
		fault:  &v1alpha1.Fault{Kind: fault.KindDelay, Delay: after(8 * time.Second), Match: lists}},
	{name: "watch of Pods held", weight: 3, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "watch of Nodes held", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "nodes"}}},
	{name: "watch of Deployments held", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIHoldWatch, Match: v1alpha1.FaultMatch{Resource: "deployments"}}},
	{name: "watches restarted", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APICutWatch, Relist: true}},
	{name: "stale lists", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIOldList, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "writes conflict", weight: 5, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 409, Count: 3}},
	{name: "writes rejected with 429", weight: 1, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 429, Count: 5}},
	{name: "writes fail with 500", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 500, Count: 3}},
	{name: "API responses lost", weight: 3, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APILoseAnswer, Count: 3}},
	{name: "API is slow", weight: 1, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIDelay, Delay: after(500 * time.Millisecond)}},
	{name: "API connections blocked", weight: 2, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIBlackHole}},
	{name: "controller killed before a write", weight: 3, resource: controllers, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIKillBefore, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "controller killed after a write", weight: 3, resource: controllers, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIKillAfter, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "controller disconnected from the broker", weight: 2, effects: cutOff | losesCommands,
		resource: brokerConnection,
		tunnel:   v1alpha1.TunnelMQTT, target: v1alpha1.TargetMQTT, fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTCut}},
	{name: "packets from the controller held", weight: 2, effects: cutOff, resource: brokerConnection,
		tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "packets to the controller held", weight: 2, effects: cutOff, resource: brokerConnection,
		tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "half-open connection from the controller", weight: 2, effects: cutOff | losesCommands,
		resource: brokerConnection,
		tunnel:   v1alpha1.TunnelMQTT, target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "half-open connection to the controller", weight: 2, effects: cutOff | losesCommands,
		resource: brokerConnection,
		tunnel:   v1alpha1.TunnelMQTT, target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen,
			Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "controller connection is slow", weight: 1, effects: delaysLists, resource: brokerConnection,
		tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTDelay, Delay: after(400 * time.Millisecond)}},
	{name: "command duplicated", weight: 2, effects: repeatsCommands, resource: brokerConnection,
		tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTDuplicate,
			Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "commands reordered", weight: 2, resource: brokerConnection, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTReorder, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "controller killed before a command", weight: 2, resource: controllers, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTKillBefore, Match: v1alpha1.FaultMatch{Messages: commands}}},
	{name: "controller killed after a command", weight: 2, resource: controllers, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTKillAfter, Match: v1alpha1.FaultMatch{Messages: commands}}},
	{name: "base disconnected at the broker", weight: 1, effects: cutOff | losesCommands, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT, fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTCut}},
	{name: "packets from a base held", weight: 2, effects: cutOff, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "packets to a base held", weight: 2, effects: cutOff, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "half-open connection from a base", weight: 2, effects: cutOff | losesCommands, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "half-open connection to a base", weight: 2, effects: cutOff | losesCommands, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTHalfOpen,
			Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "base connection is slow", weight: 1, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTDelay, Delay: after(400 * time.Millisecond)}},
	{name: "message to a base duplicated", weight: 1, effects: repeatsCommands, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTDuplicate,
			Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "messages to a base reordered", weight: 1, tunnel: v1alpha1.TunnelMQTT, target: v1alpha1.TargetMQTT,
		fault: &v1alpha1.Fault{Kind: v1alpha1.MQTTReorder, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}},
	{name: "messages from a base reordered", weight: 1, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetMQTT,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.MQTTReorder, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}},
	{name: "base messages reordered", weight: 1, effects: delaysLists, tunnel: v1alpha1.TunnelMQTT,
		target: v1alpha1.TargetBase, fault: &v1alpha1.Fault{Kind: fault.KindReorder}},
	{name: "Pod events lost, against the API contract", weight: 4, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APILoseEvents, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "Node events lost, against the API contract", weight: 4, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APILoseEvents, Match: v1alpha1.FaultMatch{Resource: "nodes"}}},
	{name: "Pod events duplicated, against the API contract", weight: 4, resource: apiProxy, target: v1alpha1.TargetAPI,
		fault: &v1alpha1.Fault{Kind: v1alpha1.APIDoubleEvents, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
	{name: "Pod events reordered, against the API contract", weight: 4, resource: apiProxy,
		target: v1alpha1.TargetAPI,
		fault:  &v1alpha1.Fault{Kind: v1alpha1.APIReorderEvents, Match: v1alpha1.FaultMatch{Resource: "pods"}}},
}

// The names of operations.
const (
	release     = "release"
	rollback    = "roll back"
	scaleDown   = "scale down"
	scaleUp     = "scale up"
	recreate    = "delete and create"
	forceDelete = "force-delete Pods"
	newImage    = "image without a version"
	addBase     = "add a base"
	upgrade     = "upgrade bases"
	restartBase = "restart a base"
	uninstalled = "module uninstalled by another client"
	crash       = "base crashes"
)

// The resources that actions can disrupt, see actionSpec.resource.
const (
	controllers       = "controller"
	broker            = "broker"
	apiProxy          = "api"
	brokerConnection  = "way"
	apiServer         = "apiserver"
	controllerManager = "controllerManager"
	scheduler         = "scheduler"
)

// drained is the name of the disruption that drains a Node.
const drained = "Node drained"

const (
	deployment  = "Deployment"
	peer        = "peer Deployment" // its replicas follow the bases
	daemonSet   = "DaemonSet"
	statefulSet = "StatefulSet"
	pod         = "Pod" // it is not recreated
)

// owners are the workload kinds whose controllers recreate deleted Pods.
var owners = []string{deployment, peer, daemonSet, statefulSet}

// ActionNames returns the names of all actions.
func ActionNames() []string {
	names := make([]string, len(allActions))
	for i, m := range allActions {
		names[i] = m.name
	}
	return names
}
