package why

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

const (
	// requestTime bounds each request.
	requestTime = 10 * time.Second
	// logTime bounds the logs of a container: they come through the controller, which may be away.
	logTime = 3 * time.Second
	// logLines and logBytes are how much of a log is read, logged of how many containers.
	logLines, logBytes, logged = 20, 32 << 10, 3
)

// Gather reads what an answer about a target needs. It only reads, with at most some twenty
// requests, however many bases there are. A target that is not there is an error in one sentence,
// with what may have been meant; what else cannot be read is noted in Snapshot.Unread. Gather blocks
// until all is read, each request for ten seconds at most.
func Gather(ctx context.Context, client kubernetes.Interface, t Target) (*Snapshot, error) {
	g := &gatherer{client: client, Snapshot: &Snapshot{Target: t}}
	g.bases(ctx)
	if err := g.target(ctx); err != nil {
		return nil, err
	}
	g.controllers(ctx)
	if t.workload() {
		g.Pod = decides(g.Snapshot)
	}
	switch {
	case g.Pod != nil && g.Pod.Spec.NodeName != "":
		g.nodeOf(ctx)
		g.logs(ctx)
	case g.Pod != nil:
		g.modulePods(ctx)
	}
	if g.Pod != nil && t.Kind == KindPod && !podReady(g.Pod) {
		g.template(ctx)
	}
	if g.Pod != nil {
		g.events(ctx, g.Pod.Namespace, "involvedObject.uid", string(g.Pod.UID))
	}
	if g.Node != nil {
		g.events(ctx, metav1.NamespaceDefault, "involvedObject.name", g.Node.Name)
	}
	return g.Snapshot, nil
}

type gatherer struct {
	client kubernetes.Interface
	*Snapshot
}

// unread notes what could not be read, unless it is only not there.
func (s *Snapshot) unread(what string, err error) {
	if err != nil && !apierrors.IsNotFound(err) {
		s.Unread = append(s.Unread, fmt.Sprintf("%s could not be read: %s", what, err))
	}
}

// read gives one request its time.
func read[T any](ctx context.Context, limit time.Duration, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

// get reads one object by its name.
func get[T any](ctx context.Context, do func(context.Context, string, metav1.GetOptions) (T, error), name string) (T, error) {
	return read(ctx, requestTime, func(ctx context.Context) (T, error) { return do(ctx, name, metav1.GetOptions{}) })
}

// list reads objects.
func list[T any](ctx context.Context, do func(context.Context, metav1.ListOptions) (T, error), o metav1.ListOptions) (T, error) {
	return read(ctx, requestTime, func(ctx context.Context) (T, error) { return do(ctx, o) })
}

// target reads what is asked about, and what it has made.
func (g *gatherer) target(ctx context.Context) (err error) {
	namespace, name := g.Target.Namespace, g.Target.Name
	apps := g.client.AppsV1()
	switch g.Target.Kind {
	case KindPod:
		g.Pod, err = get(ctx, g.client.CoreV1().Pods(namespace).Get, name)
	case KindNode:
		return g.node(ctx)
	case KindDeployment:
		if g.Deployment, err = get(ctx, apps.Deployments(namespace).Get, name); err == nil {
			g.made(ctx, g.Deployment, g.Deployment.Spec.Selector)
			g.replicaSets(ctx)
		}
	case KindDaemonSet:
		if g.DaemonSet, err = get(ctx, apps.DaemonSets(namespace).Get, name); err == nil {
			g.made(ctx, g.DaemonSet, g.DaemonSet.Spec.Selector)
		}
	case KindStatefulSet:
		if g.StatefulSet, err = get(ctx, apps.StatefulSets(namespace).Get, name); err == nil {
			g.made(ctx, g.StatefulSet, g.StatefulSet.Spec.Selector)
		}
	}
	if err == nil {
		return nil
	}
	return g.notFound(ctx, err)
}

// made reads Pods and Events of a workload.
func (g *gatherer) made(ctx context.Context, w metav1.Object, selector *metav1.LabelSelector) {
	g.events(ctx, w.GetNamespace(), "involvedObject.uid", string(w.GetUID()))
	found, err := list(ctx, g.client.CoreV1().Pods(w.GetNamespace()).List, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)})
	g.unread("its Pods", err)
	if err == nil {
		g.Pods = found.Items
	}
}

func (g *gatherer) replicaSets(ctx context.Context) {
	d := g.Deployment
	found, err := list(ctx, g.client.AppsV1().ReplicaSets(d.Namespace).List, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)})
	g.unread("its ReplicaSets", err)
	if err != nil {
		return
	}
	ours := map[string]appsv1.ReplicaSet{}
	for _, rs := range found.Items {
		if metav1.IsControlledBy(&rs, d) {
			g.ReplicaSets = append(g.ReplicaSets, rs)
			ours[string(rs.UID)] = rs
		}
	}
	var pods []corev1.Pod
	for _, pod := range g.Pods { // those of another Deployment may bear the same labels
		if owner := metav1.GetControllerOf(&pod); owner != nil && ours[string(owner.UID)].Name != "" {
			pods = append(pods, pod)
		}
	}
	g.Pods = pods
}

// template reads the template of the workload that owns the Pod. It is not essential, so an error is
// ignored.
func (g *gatherer) template(ctx context.Context) {
	apps, namespace := g.client.AppsV1(), g.Pod.Namespace
	if name, is := ownerOf(g.Pod, "ReplicaSet"); is {
		if rs, err := get(ctx, apps.ReplicaSets(namespace).Get, name); err == nil {
			g.Template = &rs.Spec.Template
		}
	}
	if name, is := ownerOf(g.Pod, "StatefulSet"); is {
		if ss, err := get(ctx, apps.StatefulSets(namespace).Get, name); err == nil {
			g.StatefulSet = ss
		}
	}
}

func (g *gatherer) bases(ctx context.Context) {
	found, err := list(ctx, g.client.CoreV1().Nodes().List, metav1.ListOptions{LabelSelector: labels.Component + "=" + labels.Vnode})
	g.unread("the Nodes of bases", err)
	if err == nil {
		g.Bases = found.Items
	}
}

func (g *gatherer) controllers(ctx context.Context) {
	found, err := list(ctx, g.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List,
		metav1.ListOptions{LabelSelector: labels.Component + "=" + labels.ControllerLease})
	g.unread("the Leases of module controllers", err)
	g.ControllersUnread = err != nil
	if err == nil {
		g.Controllers = found.Items
	}
}

// nodeOf reads the Node of the Pod, and the Pods beside it.
func (g *gatherer) nodeOf(ctx context.Context) {
	name := g.Pod.Spec.NodeName
	node, err := get(ctx, g.client.CoreV1().Nodes().Get, name)
	g.unread("its Node", err)
	if err != nil {
		return
	}
	g.Node = node
	beside, err := list(ctx, g.client.CoreV1().Pods("").List, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String()})
	g.unread("the Pods beside it", err)
	if err == nil {
		g.OnBases = beside.Items
	}
}

// modulePods reads the module Pods of all bases, in both spellings of their label: they take room.
func (g *gatherer) modulePods(ctx context.Context) {
	for _, key := range []string{labels.Component, labels.OlderComponent} {
		found, err := list(ctx, g.client.CoreV1().Pods("").List, metav1.ListOptions{LabelSelector: key + "=" + labels.Module})
		g.unread("the Pods of bases", err)
		if err != nil {
			continue
		}
		for _, pod := range found.Items {
			if key == labels.Component || pod.Labels[labels.Component] != labels.Module {
				g.OnBases = append(g.OnBases, pod)
			}
		}
	}
}

func (g *gatherer) events(ctx context.Context, namespace, field, value string) {
	found, err := list(ctx, g.client.CoreV1().Events(namespace).List, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(field, value).String()})
	g.unread("Events", err)
	if err == nil {
		g.Events = append(g.Events, found.Items...)
	}
}

// logs reads what kubectl logs has of the Pod's modules: commands and answers. The controller of a
// base has them; that of an ordinary Node's Pod would be the Pod's own.
func (g *gatherer) logs(ctx context.Context) {
	if g.Node == nil || !workload.IsBase(g.Node) {
		return
	}
	modules, _ := workload.Modules(g.Pod.Spec) // sidecars have no log
	for i, c := range modules {
		if i == logged {
			return
		}
		text, err := read(ctx, logTime, g.client.CoreV1().Pods(g.Pod.Namespace).GetLogs(g.Pod.Name,
			&corev1.PodLogOptions{Container: c.Name, TailLines: ptr.To[int64](logLines), LimitBytes: ptr.To[int64](logBytes)}).DoRaw)
		if err != nil {
			g.unread("the log of "+c.Name, err)
			return
		}
		if g.Logs == nil {
			g.Logs = map[string][]string{}
		}
		g.Logs[c.Name] = strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	}
}
