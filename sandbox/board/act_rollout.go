package board

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/errcode"
)

// rolloutActions are how a release is held, approved and taken back.
func rolloutActions() []act {
	deployments := func(paused string) map[string][]string {
		return map[string][]string{"kind": {kindDeployment}, "paused": {paused}}
	}
	return []act{
		{
			Action: Action{ID: "workload.pause", On: kindWorkload, Title: "Pause its rollout", Danger: true, When: deployments(no), Params: ofWorkload()},
			target: onWorkload, do: pause(true),
		},
		{
			Action: Action{ID: "workload.resume", On: kindWorkload, Title: "Approve: let its rollout go on", When: deployments(yes), Params: ofWorkload()},
			target: onWorkload, do: pause(false),
		},
		{
			Action: Action{ID: "workload.partition", On: kindWorkload, Title: "Approve a batch", Danger: true, When: map[string][]string{"kind": {kindStatefulSet}}, Params: ofWorkload(
				ActionParam{Name: "partition", Number: true, Hint: "Pods with this number or a higher one get the new version; 0 = all"})},
			target: onWorkload, do: partition,
		},
		{
			Action: Action{ID: "workload.undo", On: kindWorkload, Title: "Back to the revision before", Danger: true, Params: ofWorkload()},
			target: onWorkload, do: undo,
		},
	}
}

// pause holds the rollout of a Deployment, or lets it go on.
func pause(on bool) func(context.Context, *Board, params) (ActionResult, error) {
	return func(ctx context.Context, b *Board, p params) (ActionResult, error) {
		verb, text := "resume", "goes on"
		if on {
			verb, text = "pause", "is paused"
		}
		if p["kind"] != kindDeployment {
			return ActionResult{}, refuse(errcode.OtherUpstreamInvalidParameter, http.StatusBadRequest, "the rollout of a %s cannot be paused; a statefulset has a partition", p["kind"])
		}
		return ActionResult{fmt.Sprintf("the rollout of %s/%s %s", p["kind"], p["name"], text), b.kubectl("rollout", verb, p["kind"]+"/"+p["name"], "-n", p["namespace"])},
			b.patch(ctx, p, types.StrategicMergePatchType, fmt.Appendf(nil, `{"spec":{"paused":%t}}`, on))
	}
}

// partition says which Pods of a StatefulSet get its present template: each step down is a batch.
func partition(ctx context.Context, b *Board, p params) (ActionResult, error) {
	n := p.number("partition")
	if p["kind"] != kindStatefulSet {
		return ActionResult{}, refuse(errcode.OtherUpstreamInvalidParameter, http.StatusBadRequest, "a %s has no partition: only a statefulset has", p["kind"])
	}
	set, err := b.o.API.AppsV1().StatefulSets(p["namespace"]).Get(ctx, p["name"], metav1.GetOptions{})
	if err != nil {
		return ActionResult{}, err
	}
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return ActionResult{}, refuse(errcode.OtherUpstreamInvalidParameter, http.StatusBadRequest, "statefulset/%s has the strategy OnDelete, which knows no partition", p["name"])
	}
	patch := fmt.Appendf(nil, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":%d}}}}`, n)
	return ActionResult{fmt.Sprintf("Pods of statefulset/%s from number %d on get its present version", p["name"], n),
		b.kubectl("patch", p["kind"]+"/"+p["name"], "-n", p["namespace"], "-p", string(patch))}, b.patch(ctx, p, types.StrategicMergePatchType, patch)
}

// former is a template that a workload had.
type former struct {
	number int
	kind   types.PatchType
	patch  []byte // gives it back to the workload
}

// undo takes a workload back to the revision before, as kubectl does.
func undo(ctx context.Context, b *Board, p params) (ActionResult, error) {
	w, err := b.workload(ctx, p)
	if err != nil {
		return ActionResult{}, err
	}
	if w.paused {
		return ActionResult{}, refuse(errcode.OtherUpstreamInvalidParameter, http.StatusBadRequest, "deployment/%s is paused: resume it first, or it would not go back", p["name"])
	}
	list := b.fromRevisions
	if p["kind"] == kindDeployment {
		list = b.fromReplicaSets
	}
	all, err := list(ctx, w)
	if err != nil {
		return ActionResult{}, err
	}
	slices.SortFunc(all, func(a, b former) int { return a.number - b.number })
	if len(all) < 2 {
		return ActionResult{}, refuse(errcode.OtherUpstreamInvalidParameter, http.StatusBadRequest, "%s/%s has no revision before", p["kind"], p["name"])
	}
	before := all[len(all)-2]
	return ActionResult{
		fmt.Sprintf("%s/%s goes back to revision %d", p["kind"], p["name"], before.number),
		b.kubectl("rollout", "undo", p["kind"]+"/"+p["name"], "-n", p["namespace"], "--to-revision", strconv.Itoa(before.number)),
	}, b.patch(ctx, p, before.kind, before.patch)
}

// fromReplicaSets returns the templates of a Deployment.
func (b *Board) fromReplicaSets(ctx context.Context, w *workload) (all []former, err error) {
	sets, err := b.o.API.AppsV1().ReplicaSets(w.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(w.selector)})
	if err != nil {
		return nil, err
	}
	for _, s := range sets.Items {
		if !metav1.IsControlledBy(&s, w) {
			continue
		}
		delete(s.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template", "value": s.Spec.Template}})
		if err != nil {
			return nil, fmt.Errorf("writing a patch: %w", err)
		}
		all = append(all, former{numberOf(&s), types.JSONPatchType, patch})
	}
	return all, nil
}

// fromRevisions returns the templates of a DaemonSet or StatefulSet. A ControllerRevision has a patch.
func (b *Board) fromRevisions(ctx context.Context, w *workload) (all []former, err error) {
	revisions, err := b.o.API.AppsV1().ControllerRevisions(w.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(w.selector)})
	if err != nil {
		return nil, err
	}
	for _, r := range revisions.Items {
		if metav1.IsControlledBy(&r, w) {
			all = append(all, former{int(r.Revision), types.StrategicMergePatchType, r.Data.Raw})
		}
	}
	return all, nil
}
