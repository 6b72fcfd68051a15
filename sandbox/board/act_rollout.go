package board

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/sandbox/internal/revision"
)

func rolloutActions() []act {
	deployments := func(paused string) map[string][]string {
		return map[string][]string{"kind": {kindDeployment}, "paused": {paused}}
	}
	return []act{
		{
			Action: Action{ID: "workload.pause", On: kindWorkload, Title: "Pause the rollout", Danger: true,
				When: deployments(paramFalse), Params: ofWorkload()},
			target: onWorkload, do: pause(true),
		},
		{
			Action: Action{ID: "workload.resume", On: kindWorkload, Title: "Approve: resume the rollout",
				When: deployments(paramTrue), Params: ofWorkload()},
			target: onWorkload, do: pause(false),
		},
		{
			Action: Action{ID: "workload.partition", On: kindWorkload, Title: "Approve a batch", Danger: true,
				When: map[string][]string{"kind": {kindStatefulSet}}, Params: ofWorkload(
					ActionParam{Name: "partition", Number: true,
						Hint: "Pods with this or a higher number get the new version; 0 = all"})},
			target: onWorkload, do: partition,
		},
		{
			Action: Action{ID: "workload.undo", On: kindWorkload, Title: "Undo: restore the previous revision",
				Danger: true,
				Params: ofWorkload()},
			target: onWorkload, do: undo,
		},
	}
}

func pause(on bool) func(context.Context, *Board, params) (ActionResult, error) {
	return func(ctx context.Context, b *Board, p params) (ActionResult, error) {
		verb, text := "resume", "was resumed"
		if on {
			verb, text = "pause", "was paused"
		}
		if p["kind"] != kindDeployment {
			return ActionResult{},
				invalid("the rollout of a %s cannot be paused; use the partition of a statefulset", p["kind"])
		}
		return ActionResult{fmt.Sprintf("the rollout of %s/%s %s", p["kind"], p["name"], text),
				b.kubectl("rollout", verb, p["kind"]+"/"+p["name"], "-n", p["namespace"])},
			b.patch(ctx, p, types.StrategicMergePatchType, fmt.Appendf(nil, `{"spec":{"paused":%t}}`, on))
	}
}

// partition sets the partition of a StatefulSet: Pods with a lower ordinal keep the old template. Each decrease of
// the partition releases a batch of Pods.
func partition(ctx context.Context, b *Board, p params) (ActionResult, error) {
	n := p.number("partition")
	if p["kind"] != kindStatefulSet {
		return ActionResult{}, invalid("a %s has no partition; only a statefulset has one", p["kind"])
	}
	set, err := b.o.API.AppsV1().StatefulSets(p["namespace"]).Get(ctx, p["name"], metav1.GetOptions{})
	if err != nil {
		return ActionResult{}, err
	}
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return ActionResult{},
			invalid("statefulset/%s has the strategy OnDelete, which does not support a partition", p["name"])
	}
	patch := fmt.Appendf(nil, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":%d}}}}`, n)
	return ActionResult{fmt.Sprintf("the partition of statefulset/%s was set to %d",
			p["name"], n),
			b.kubectl("patch", p["kind"]+"/"+p["name"], "-n", p["namespace"], "-p", string(patch))},
		b.patch(ctx, p, types.StrategicMergePatchType, patch)
}

// undo rolls a workload back to its previous revision, like kubectl rollout undo.
func undo(ctx context.Context, b *Board, p params) (ActionResult, error) {
	w, err := b.workload(ctx, p)
	if err != nil {
		return ActionResult{}, err
	}
	if w.paused {
		return ActionResult{}, invalid("deployment/%s is paused; resume it before you undo its rollout", p["name"])
	}
	all, err := revision.List(ctx, b.o.API, p["kind"], w)
	if err != nil {
		return ActionResult{}, err
	}
	if len(all) < 2 {
		return ActionResult{}, invalid("%s/%s has no previous revision", p["kind"], p["name"])
	}
	before := all[len(all)-2]
	number := strconv.FormatInt(before.Number, 10)
	return ActionResult{
		fmt.Sprintf("%s/%s was rolled back to revision %s", p["kind"], p["name"], number),
		b.kubectl("rollout", "undo", p["kind"]+"/"+p["name"], "-n", p["namespace"], "--to-revision", number),
	}, b.patch(ctx, p, before.Type, before.Patch)
}
