package fuzz

import (
	"fmt"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// deletedLastReadyPod reports that Kubernetes deleted the last Ready Pod of a module during a rollback, although its
// Deployment allows no unavailable Pods. It returns an empty string if there was no such deletion. The Deployment
// controller reads the number of available Pods from the ReplicaSet status, which may be stale and include old Pods
// that are being deleted. The Deployment controller then deletes the new Pods too early. A module controller cannot
// prevent this. See reconcileOldReplicaSets in
// https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/controller/deployment/rolling.go.
func deletedLastReadyPod(run *scenario.Run) string {
	for _, s := range run.Steps {
		_, to, is := strings.Cut(s.Name, rollback+": ")
		module, version, named := strings.Cut(to, " ")
		if !is || !named {
			continue
		}
		var state events.State
		for _, e := range run.Timeline {
			served := false
			if e.Pod != nil {
				before := state.Pods.Get(e.Pod.PodKey())
				served = before != nil && before.Serves()
			}
			state.Apply(e)
			if !served || !e.Pod.Deleting || e.Time.Before(s.Started) ||
				!strings.HasPrefix(e.Pod.Owner, "ReplicaSet/") || !e.Pod.HasModule(module) ||
				e.Pod.Version(module) == version {
				continue
			}
			if !serves(&state, module) {
				return fmt.Sprintf(
					"Kubernetes deleted Pod %s, the last Ready Pod of %s, during the rollback to %s",
					e.Pod.Name, module, version)
			}
		}
	}
	return ""
}

// serves reports whether at least one Pod of the module is Ready.
func serves(state *events.State, module string) bool {
	for p := range state.Pods.All() {
		if p.HasModule(module) && p.Serves() {
			return true
		}
	}
	return false
}
