package fuzz

import (
	"fmt"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// deletedLastReadyPod describes the deletion of the last Ready Pod of a module during a rollback, although its
// Deployment allows no unavailable Pods. It returns an empty text if there was none. The Deployment controller uses the
// number of available Pods in the status of a ReplicaSet, which may be out of date: old Pods that are being deleted
// still count, so it deletes the new ones immediately. A module controller cannot prevent this.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/deployment/rolling.go, reconcileOldReplicaSets
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
