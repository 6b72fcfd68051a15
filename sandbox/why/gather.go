package why

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// gatherTimeout limits the total time of all requests of Gather.
	gatherTimeout = 30 * time.Second
	// logTimeout limits the time of the log requests, which only a running controller answers.
	logTimeout = 3 * time.Second
	// logLines and logBytes limit how much of each log is read. logged is the maximum number of containers whose logs
	// are read.
	logLines, logBytes, logged = 20, 32 << 10, 3
)

// Gather reads the objects that are needed to explain a target, with at most 20 requests. If the target does not
// exist, the error wraps ErrNotFound and suggests similar names. Snapshot.Unread lists all other objects that could
// not be read. Gather blocks for at most 30 seconds.
func Gather(ctx context.Context, client kubernetes.Interface, t Target) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, gatherTimeout)
	defer cancel()
	g := &gatherer{client: client, Snapshot: &Snapshot{Target: t}}
	g.bases(ctx)
	if err := g.target(ctx); err != nil {
		return nil, err
	}
	g.controllers(ctx)
	if t.workload() {
		g.Pod = blockingPod(g.Snapshot)
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

// unread records in Snapshot.Unread that an object could not be read because of err. If err means that the object
// does not exist, unread records nothing.
func (s *Snapshot) unread(object string, err error) {
	if err != nil && !apierrors.IsNotFound(err) {
		s.Unread = append(s.Unread, fmt.Sprintf("%s could not be read: %s", object, err))
	}
}

// target reads the target and, for a workload, the objects that belong to the workload.
func (g *gatherer) target(ctx context.Context) (err error) {
	namespace, name := g.Target.Namespace, g.Target.Name
	apps, o := g.client.AppsV1(), metav1.GetOptions{}
	switch g.Target.Kind {
	case KindPod:
		g.Pod, err = g.client.CoreV1().Pods(namespace).Get(ctx, name, o)
	case KindNode:
		return g.node(ctx)
	case KindDeployment:
		g.Deployment, err = apps.Deployments(namespace).Get(ctx, name, o)
		if err == nil {
			g.podsOf(ctx, g.Deployment, g.Deployment.Spec.Selector)
			g.replicaSets(ctx)
		}
	case KindDaemonSet:
		g.DaemonSet, err = apps.DaemonSets(namespace).Get(ctx, name, o)
		if err == nil {
			g.podsOf(ctx, g.DaemonSet, g.DaemonSet.Spec.Selector)
		}
	case KindStatefulSet:
		g.StatefulSet, err = apps.StatefulSets(namespace).Get(ctx, name, o)
		if err == nil {
			g.podsOf(ctx, g.StatefulSet, g.StatefulSet.Spec.Selector)
		}
	}
	if err == nil {
		return nil
	}
	return g.notFound(ctx, err)
}

// podsOf reads the Pods and the Events of a workload.
func (g *gatherer) podsOf(ctx context.Context, w metav1.Object, selector *metav1.LabelSelector) {
	g.events(ctx, w.GetNamespace(), "involvedObject.uid", string(w.GetUID()))
	g.Pods = g.pods(ctx, "its Pods", w.GetNamespace(),
		metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)})
}

// pods lists Pods. If the request fails, it returns no Pods and records the error under title.
func (g *gatherer) pods(ctx context.Context, title, namespace string, o metav1.ListOptions) []corev1.Pod {
	found, err := g.client.CoreV1().Pods(namespace).List(ctx, o)
	g.unread(title, err)
	if err != nil {
		return nil
	}
	return found.Items
}

// replicaSets reads the ReplicaSets of the Deployment. It removes Pods that belong to other Deployments with the same
// labels.
func (g *gatherer) replicaSets(ctx context.Context) {
	d := g.Deployment
	found, err := g.client.AppsV1().ReplicaSets(d.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)})
	g.unread("its ReplicaSets", err)
	if err != nil {
		return
	}
	ours := map[string]bool{}
	for _, rs := range found.Items {
		if metav1.IsControlledBy(&rs, d) {
			g.ReplicaSets = append(g.ReplicaSets, rs)
			ours[string(rs.UID)] = true
		}
	}
	g.Pods = slices.DeleteFunc(g.Pods, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		return owner == nil || !ours[string(owner.UID)]
	})
}

// template reads the Pod template of the workload that owns the Pod. It ignores errors, because no answer depends on
// the template alone.
func (g *gatherer) template(ctx context.Context) {
	apps, namespace := g.client.AppsV1(), g.Pod.Namespace
	if name, is := ownerOf(g.Pod, "ReplicaSet"); is {
		if rs, err := apps.ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			g.Template = &rs.Spec.Template
		}
	}
	if name, is := ownerOf(g.Pod, "StatefulSet"); is {
		if set, err := apps.StatefulSets(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			g.StatefulSet = set
		}
	}
}

func (g *gatherer) bases(ctx context.Context) {
	found, err := g.client.CoreV1().Nodes().List(ctx,
		metav1.ListOptions{LabelSelector: labels.Component + "=" + labels.Vnode})
	g.unread("the Nodes of bases", err)
	if err == nil {
		g.Bases = found.Items
	}
}

func (g *gatherer) controllers(ctx context.Context) {
	found, err := g.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx,
		metav1.ListOptions{LabelSelector: labels.Component + "=" + labels.ControllerLease})
	g.unread("the Leases of module controllers", err)
	g.ControllersUnread = err != nil
	if err == nil {
		g.Controllers = found.Items
	}
}

// nodeOf reads the Node to which the Pod is bound, and the other Pods on this Node.
func (g *gatherer) nodeOf(ctx context.Context) {
	name := g.Pod.Spec.NodeName
	node, err := g.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	g.unread("its Node", err)
	if err != nil {
		return
	}
	g.Node = node
	g.OnBases = g.pods(ctx, "the other Pods on its Node", "",
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String()})
}

// modulePods reads the module Pods on all bases. It searches for both keys of the label that marks module Pods.
func (g *gatherer) modulePods(ctx context.Context) {
	for _, key := range []string{labels.Component, labels.OlderComponent} {
		for _, pod := range g.pods(ctx, "the Pods of bases", "",
			metav1.ListOptions{LabelSelector: key + "=" + labels.Module}) {
			if key == labels.Component || pod.Labels[labels.Component] != labels.Module {
				g.OnBases = append(g.OnBases, pod)
			}
		}
	}
}

func (g *gatherer) events(ctx context.Context, namespace, field, value string) {
	found, err := g.client.CoreV1().Events(namespace).List(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(field, value).String()})
	g.unread("Events", err)
	if err == nil {
		g.Events = append(g.Events, found.Items...)
	}
}

// logs reads the logs of the Pod's modules, which contain the commands and their responses. Only Pods on a base have
// such logs.
func (g *gatherer) logs(ctx context.Context) {
	if g.Node == nil || !workload.IsBase(g.Node) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	g.Logs = map[string][]string{}
	modules, _ := workload.Modules(g.Pod.Spec) // sidecars have no log
	for _, c := range modules[:min(len(modules), logged)] {
		text, err := g.client.CoreV1().Pods(g.Pod.Namespace).GetLogs(g.Pod.Name,
			&corev1.PodLogOptions{Container: c.Name, TailLines: ptr.To[int64](logLines),
				LimitBytes: ptr.To[int64](logBytes)}).DoRaw(ctx)
		if err != nil {
			g.unread("the log of "+c.Name, err)
			return
		}
		g.Logs[c.Name] = strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	}
}
