package board

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// fieldManager is the field manager for changes that the board makes.
const fieldManager = "koupsandbox-board"

func onWorkload(p params) string { return p["kind"] + "/" + p["namespace"] + "/" + p["name"] }

func ofWorkload(more ...ActionParam) []ActionParam {
	return append([]ActionParam{fromRow("kind", "kind"), fromRow("namespace", "namespace"), fromRow("name", "name")},
		more...)
}

// workloadActions lists the actions that the board supports in any cluster.
func workloadActions() []act {
	return append([]act{
		{
			Action: Action{ID: "workload.scale", On: kindWorkload, Title: "Scale",
				When:   map[string][]string{"kind": {kindDeployment, kindStatefulSet}},
				Params: ofWorkload(ActionParam{Name: "replicas", Number: true})},
			target: onWorkload, do: scale,
		},
		{
			Action: Action{ID: "workload.release", On: kindWorkload, Title: "Release a version", Danger: true,
				Params: ofWorkload(
					ActionParam{Name: "module", ChoicesFrom: "modules"},
					ActionParam{Name: "version", Hint: "such as 0.0.2"},
					ActionParam{Name: "image", Optional: true,
						Hint: "URL of the jar; empty = the current URL with the new version"},
				)},
			target: onWorkload, do: release,
		},
		{
			Action: Action{ID: "node.cordon", On: kindBase, Title: "Cordon", Danger: true,
				When: map[string][]string{"cordoned": {paramFalse}}, Params: []ActionParam{fromRow("node", "node")}},
			target: onNode, do: cordon(true),
		},
		{
			Action: Action{ID: "node.uncordon", On: kindBase, Title: "Uncordon",
				When: map[string][]string{"cordoned": {paramTrue}}, Params: []ActionParam{fromRow("node", "node")}},
			target: onNode, do: cordon(false),
		},
	}, rolloutActions()...)
}

// paramTrue and paramFalse are the values of boolean parameters.
const (
	paramTrue  = "true"
	paramFalse = "false"
)

func onNode(p params) string { return "node/" + p["node"] }

func scale(ctx context.Context, b *Board, p params) (ActionResult, error) {
	n := p.number("replicas")
	if p["kind"] == kindDaemonSet {
		return ActionResult{},
			invalid("a %s cannot be scaled: it has one Pod for each matching Node", p["kind"])
	}
	return ActionResult{
		fmt.Sprintf("%s/%s was scaled to %s", p["kind"], p["name"], plain.Count(n, "replica")),
		b.kubectl("scale", p["kind"]+"/"+p["name"], "-n", p["namespace"], "--replicas", strconv.Itoa(n)),
	}, b.patch(ctx, p, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), "scale")
}

type workload struct {
	metav1.Object
	template *corev1.PodTemplateSpec
	// paused reports whether a workload is a Deployment that is paused.
	paused bool
}

func (b *Board) workload(ctx context.Context, p params) (*workload, error) {
	apps, o := b.o.API.AppsV1(), metav1.GetOptions{}
	switch p["kind"] {
	case kindDeployment:
		d, err := apps.Deployments(p["namespace"]).Get(ctx, p["name"], o)
		if err != nil {
			return nil, err
		}
		return &workload{d, &d.Spec.Template, d.Spec.Paused}, nil
	case kindDaemonSet:
		d, err := apps.DaemonSets(p["namespace"]).Get(ctx, p["name"], o)
		if err != nil {
			return nil, err
		}
		return &workload{d, &d.Spec.Template, false}, nil
	case kindStatefulSet:
		s, err := apps.StatefulSets(p["namespace"]).Get(ctx, p["name"], o)
		if err != nil {
			return nil, err
		}
		return &workload{s, &s.Spec.Template, false}, nil
	}
	return nil, invalid("unsupported workload kind %q", p["kind"])
}

func (b *Board) patch(ctx context.Context, p params, patchType types.PatchType, patch []byte,
	subresources ...string) (err error) {
	apps, o := b.o.API.AppsV1(), metav1.PatchOptions{FieldManager: fieldManager}
	switch p["kind"] {
	case kindDeployment:
		_, err = apps.Deployments(p["namespace"]).Patch(ctx, p["name"], patchType, patch, o, subresources...)
	case kindDaemonSet:
		_, err = apps.DaemonSets(p["namespace"]).Patch(ctx, p["name"], patchType, patch, o, subresources...)
	case kindStatefulSet:
		_, err = apps.StatefulSets(p["namespace"]).Patch(ctx, p["name"], patchType, patch, o, subresources...)
	}
	return err
}

func release(ctx context.Context, b *Board, p params) (ActionResult, error) {
	w, err := b.workload(ctx, p)
	if err != nil {
		return ActionResult{}, err
	}
	containers := w.template.Spec.Containers
	at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == p["module"] })
	if at < 0 {
		return ActionResult{}, invalid("%s/%s has no module %q", p["kind"], p["name"], p["module"])
	}
	c := containers[at]
	env := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == labels.VersionEnv })
	if env < 0 || c.Env[env].ValueFrom != nil {
		return ActionResult{}, invalid(
			"the version of %s is not a literal value in %s; change the object that it refers to", p["module"],
			labels.VersionEnv)
	}
	image := p["image"]
	if before := c.Env[env].Value; image == "" && before != "" {
		image = strings.ReplaceAll(c.Image, before, p["version"])
	}
	container := map[string]any{"name": c.Name,
		"env": []map[string]string{{"name": labels.VersionEnv, "value": p["version"]}}}
	if image != "" {
		container["image"] = image
	}
	patch, err := json.Marshal(
		map[string]any{"spec": map[string]any{
			"template": map[string]any{"spec": map[string]any{"containers": []any{container}}}}})
	if err != nil {
		return ActionResult{}, fmt.Errorf("encoding the patch: %w", err)
	}
	return ActionResult{
		fmt.Sprintf("%s/%s was updated to %s:%s", p["kind"], p["name"], p["module"], p["version"]),
		b.kubectl("patch", p["kind"]+"/"+p["name"], "-n", p["namespace"], "-p", string(patch)),
	}, b.patch(ctx, p, types.StrategicMergePatchType, patch)
}

func cordon(on bool) func(context.Context, *Board, params) (ActionResult, error) {
	return func(ctx context.Context, b *Board, p params) (ActionResult, error) {
		patch := []byte(fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, on))
		_, err := b.o.API.CoreV1().Nodes().Patch(ctx, p["node"], types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: fieldManager})
		verb, text := "uncordon", "Pods can be scheduled on "
		if on {
			verb, text = "cordon", "Pods are no longer scheduled on "
		}
		return ActionResult{text + p["node"], b.kubectl(verb, p["node"])}, err
	}
}
