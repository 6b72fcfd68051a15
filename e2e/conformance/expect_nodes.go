package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodes: a base becomes a Node, and the Node tells how the base is.
func nodes() []expectation {
	return slices.Concat(
		onBoth(expectation{Name: "node/appears", Text: "a base that sends a heartbeat gets a Ready Node", Source: principle, Level: must}, nodeAppears),
		onBoth(expectation{Name: "node/tunnel", Text: "a label names the base's tunnel", Source: principle, Level: must}, nodeTunnel),
		onBoth(expectation{Name: "node/silence", Text: "the Node of a silent base is not Ready any more, and goes", Source: "behaviour B6", Level: must}, nodeSilence),
		onBoth(expectation{Name: "node/heartbeat-lost", Text: "a base that lost its heartbeat and answers questions stays Ready", Source: "protocol 3.2", Level: must}, nodeMute),
		onBoth(expectation{Name: "node/offline", Text: "a heartbeat with another state than activated ends the Node at once", Source: "behaviour B1", Level: should}, nodeOffline),
		[]expectation{
			{Name: "node/name", Text: "the Node's name begins with vnode. and holds the identity", Source: principle, Level: must, Check: nodeName},
			{Name: "node/name-with-env", Text: "the Node's name is vnode.<identity>.<env>", Source: "behaviour A8", Level: original, Check: nodeNameWithEnv},
			{Name: "node/labels", Text: "labels name component, environment, base name and base version", Source: principle, Level: must, Check: nodeLabels},
			{Name: "node/labels-older", Text: "the labels of the documents' other versions are there too", Source: "behaviour A1-A3", Level: should, Check: nodeOlderLabels},
			{Name: "node/taints", Text: "two NoExecute taints keep ordinary Pods and other environments away", Source: principle, Level: must, Check: nodeTaints},
			{Name: "node/addresses", Text: "InternalIP is the base's", Source: principle, Level: must, Check: nodeAddresses},
			{Name: "node/memory", Text: "the metaspace's capacity is the Node's memory, and its usage shows there", Source: principle + " 运维流程 5", Level: must, Check: nodeMemory},
			{Name: "node/memory-unlimited", Text: "a metaspace without a limit takes Pods that request memory", Source: "behaviour B3", Level: should, Check: nodeUnlimited},
			{Name: "node/ordinary-pods", Text: "a Pod that is no module is not put on a base", Source: principle, Level: must, Check: nodeOrdinaryPod},
			{Name: "node/other-environment", Text: "a module of another environment is not put on a base", Source: principle, Level: must, Check: nodeOtherEnv},
			{Name: "node/clock-skew", Text: "a base whose clock is a minute behind gets a Node", Source: "protocol 3.5", Level: should, Check: nodeSkew},
			{Name: "node/older-heartbeat", Text: "the heartbeat of a runtime before 1.3.3 makes a Node", Source: "protocol 1", Level: should, Check: nodeOlderHeartbeat},
			{Name: "node/unknown-fields", Text: "unknown fields in a heartbeat do no harm", Source: "protocol 3.5", Level: must, Check: nodeUnknownFields},
			{Name: "node/garbage", Text: "messages that are no JSON do no harm", Source: "protocol 3.5", Level: must, Check: nodeGarbage},
			{Name: "node/wrong-identity", Text: "a heartbeat with the identity of another base makes no Node", Source: "protocol 3.6", Level: should, Check: nodeWrongIdentity},
			{Name: "node/new-version", Text: "a base that comes back with another version has that version in its labels", Source: together, Level: must, Check: nodeNewVersion},
			{Name: "node/deleted", Text: "a deleted Node of a living base is there again", Source: "behaviour B8", Level: should, Check: nodeDeleted},
			{Name: "node/intervals", Text: "a base is asked for health and modules about as often as the controller says", Source: "behaviour B5", Level: should, Check: nodeIntervals},
			{Name: "node/conditions", Text: "conditions have times, and say that nothing is short", Source: "behaviour B4", Level: should, Check: nodeConditions},
		},
	)
}

func nodeAppears(w *world, tunnel string) {
	n, took := w.nodeReady(w.base(tunnel))
	w.saw("Node %s is Ready after %s", n.Name, took.Round(time.Millisecond))
}

func nodeTunnel(w *world, tunnel string) {
	w.labelled(w.ready(tunnel), map[string]string{tunnelLabel: tunnel + "_tunnel_provider"})
}

// labelled checks labels of a base's Node.
func (w *world) labelled(b *base, want map[string]string) {
	w.soon("the labels of the Node", w.isNode(b, func(n *corev1.Node) error {
		var errs []error
		for key, value := range want {
			if got, ok := n.Labels[key]; !ok || got != value {
				errs = append(errs, fmt.Errorf("%s is %q, want %q", key, got, value))
			}
		}
		return errors.Join(errs...)
	}))
	w.saw("%v", want)
}

func nodeSilence(w *world, tunnel string) {
	b := w.ready(tunnel)
	b.disconnect()
	start := time.Now()
	w.within(w.unreachable+w.patience, "the Node is not Ready", func() error {
		n := w.node(b)
		if n != nil && nodeCondition(n, corev1.NodeReady) == corev1.ConditionTrue {
			return fmt.Errorf("node %s is Ready", n.Name)
		}
		return nil
	})
	w.saw("not Ready %s after the last message", time.Since(start).Round(100*time.Millisecond))
	w.within(w.dead+w.patience, "the Node is gone", func() error {
		if n := w.node(b); n != nil {
			return fmt.Errorf("node %s is there, Ready %q", n.Name, nodeCondition(n, corev1.NodeReady))
		}
		return nil
	})
	w.saw("gone after %s", time.Since(start).Round(100*time.Millisecond))
}

func nodeMute(w *world, tunnel string) {
	b := w.ready(tunnel, func(b *base) { b.mute = true })
	w.throughout(w.dead+2*time.Second, "the Node is Ready", w.isNode(b, func(n *corev1.Node) error {
		if s := nodeCondition(n, corev1.NodeReady); s != corev1.ConditionTrue {
			return fmt.Errorf("ready is %q", s)
		}
		return nil
	}))
	w.saw("one heartbeat, %d answers, Ready for %s", len(b.gotName(health)), w.dead+2*time.Second)
}

func nodeOffline(w *world, tunnel string) {
	b := w.ready(tunnel, func(b *base) { b.mute, b.mumble = true, true })
	bye := b.heart()
	bye["state"] = "deactivated"
	b.send(map[string]string{overMQTT: "heart", overHTTP: "heartbeat"}[tunnel], bye)
	took := w.within(w.unreachable-time.Second, "the Node is gone or not Ready", func() error {
		if n := w.node(b); n != nil && nodeCondition(n, corev1.NodeReady) == corev1.ConditionTrue {
			return fmt.Errorf("node %s is Ready", n.Name)
		}
		return nil
	})
	w.saw("after %s", took.Round(time.Millisecond))
}

func nodeName(w *world) {
	b := w.ready(overMQTT)
	if name := w.node(b).Name; !strings.HasPrefix(name, "vnode.") || !strings.Contains(name, b.identity) {
		w.fail("the Node of base %s is %s", b.identity, name)
	}
	w.saw("%s", w.node(b).Name)
}

func nodeNameWithEnv(w *world) {
	b := w.ready(overMQTT)
	if got, want := w.node(b).Name, "vnode."+b.identity+"."+w.env; got != want {
		w.fail("it is %s", got)
	}
}

func nodeLabels(w *world) {
	w.labelled(w.ready(overMQTT), map[string]string{componentLabel: "vnode", envLabel: w.env, nameLabel: w.name, versionLabel: "1.0.0"})
}

func nodeOlderLabels(w *world) {
	b := w.ready(overMQTT)
	w.labelled(b, map[string]string{
		"vnode.koupleless.io/name": w.name, "vnode.koupleless.io/version": "1.0.0", "base.koupleless.io/stack": "java",
		"base.koupleless.io/cluster-name": w.name, corev1.LabelHostname: b.host,
	})
	if w.node(b).Labels[corev1.LabelTopologyZone] == "" {
		w.fail("there is no label %s, by which the sample of guide 5.2 spreads", corev1.LabelTopologyZone)
	}
}

func nodeTaints(w *world) {
	n := w.node(w.ready(overMQTT))
	for _, want := range []corev1.Taint{
		{Key: virtualNode, Value: "True", Effect: corev1.TaintEffectNoExecute},
		{Key: nodeEnv, Value: w.env, Effect: corev1.TaintEffectNoExecute},
	} {
		if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&want) && t.Value == want.Value }) {
			w.fail("there is no taint %s; there are %v", want.ToString(), n.Spec.Taints)
		}
	}
	w.saw("%d taints", len(n.Spec.Taints))
}

func nodeAddresses(w *world) {
	b := w.ready(overMQTT)
	got := map[corev1.NodeAddressType]string{}
	for _, a := range w.node(b).Status.Addresses {
		got[a.Type] = a.Address
	}
	if got[corev1.NodeInternalIP] != b.ip {
		w.fail("the addresses are %v, the base's is %s", got, b.ip)
	}
	w.saw("%v", got)
}

func nodeMemory(w *world) {
	b := w.ready(overMQTT)
	var free int64
	w.soon("the capacity is the metaspace", w.isNode(b, func(n *corev1.Node) error {
		free = n.Status.Allocatable.Memory().Value()
		if m := n.Status.Capacity.Memory().Value(); m != b.metaspace {
			return fmt.Errorf("memory is %d, the metaspace %d", m, b.metaspace)
		}
		return nil
	}))
	b.setMetaspace(250 << 20) // so much that a controller that writes Nodes seldom has to say it
	w.within(w.healthEvery+w.patience, "usage lessens what is allocatable", w.isNode(b, func(n *corev1.Node) error {
		if m := n.Status.Allocatable.Memory().Value(); m >= free-(100<<20) {
			return fmt.Errorf("186 MiB more are in use; %d are allocatable, %d before", m, free)
		}
		return nil
	}))
	n := w.node(b)
	w.saw("capacity 256 MiB; allocatable %d MiB with 64 MiB in use, %d MiB with 250 MiB", free>>20, n.Status.Allocatable.Memory().Value()>>20)
	w.saw("MemoryPressure is %s then", nodeCondition(n, corev1.NodeMemoryPressure))
}

func nodeUnlimited(w *world) {
	w.ready(overMQTT, func(b *base) { b.metaspace = -1 })
	p := w.barePod("m", module("m", "1.0.0"))
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *quantity(64 << 20)}
	w.create(p)
	w.readyPod("m")
}

func nodeOrdinaryPod(w *world) {
	b := w.ready(overMQTT)
	p := w.barePod("ordinary", module("m", "1.0.0"))
	p.Labels, p.Spec.Tolerations = nil, nil
	w.create(p)
	w.unscheduled("ordinary")
	if err := sameCommands(b); err != nil {
		w.fail("%v", err)
	}
}

// unscheduled waits for the scheduler to say that it has no Node for a Pod, and checks that it
// stays so for a moment.
func (w *world) unscheduled(name string) {
	waits := w.isPod(name, func(p *corev1.Pod) bool {
		return p.Spec.NodeName == "" && conditionOf(p, corev1.PodScheduled) == corev1.ConditionFalse
	})
	w.soon("the scheduler has no Node for it", waits)
	w.throughout(time.Second, "it is not scheduled", waits)
	for _, c := range w.get(name).Status.Conditions {
		if c.Type == corev1.PodScheduled {
			w.saw("%s: %s", c.Reason, c.Message)
		}
	}
}

func nodeOtherEnv(w *world) {
	w.ready(overMQTT)
	p := w.barePod("other", module("m", "1.0.0"))
	p.Spec.Tolerations = []corev1.Toleration{tolerate(virtualNode, "True"), tolerate(nodeEnv, "of-somebody-else")}
	w.create(p)
	w.unscheduled("other")
}

func nodeSkew(w *world) {
	_, took := w.nodeReady(w.base(overMQTT, func(b *base) { b.skew = -time.Minute }))
	w.saw("Ready after %s", took.Round(time.Millisecond))
	w.served("m")
}

func nodeOlderHeartbeat(w *world) {
	b := w.base(overMQTT, func(b *base) {
		b.decorate = func(kind string, data object) { // generation B
			if kind == "heart" {
				data["masterBizInfo"] = object{"name": b.name, "version": b.version}
				data["networkInfo"] = object{"localIP": b.ip, "localHostName": b.host}
				data["state"] = activated
				for _, newer := range []string{"baseMetadata", "localIP", "localHostName", "port"} {
					delete(data, newer)
				}
			}
		}
	})
	w.nodeReady(b)
	w.labelled(b, map[string]string{nameLabel: w.name, versionLabel: "1.0.0"})
}

func nodeUnknownFields(w *world) {
	w.ready(overMQTT, func(b *base) {
		b.decorate = func(_ string, data object) {
			data["newerField"] = object{"a": []any{1, nil, "x"}}
		}
	})
	w.served("m")
}

func nodeGarbage(w *world) {
	b := w.ready(overMQTT)
	for _, kind := range []string{"heart", "health", "simpleBiz", "bizOperation", "queryBaseline", "batchInstallBizResponse", "nobodyKnows"} {
		for _, text := range []string{"", "{", "[]", `{"data":null}`, `{"data":17,"publishTimestamp":"x"}`, "\x00\xff"} {
			b.send(kind, json.RawMessage(text))
		}
	}
	w.served("m")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
	w.saw("42 bad messages, and a module is installed after them")
}

func nodeWrongIdentity(w *world) {
	other := "conf-nobody-" + w.name
	b := w.ready(overMQTT)
	h := b.heart()
	h["localIP"], h["localHostName"] = "198.19.99.99", other
	h["baseMetadata"] = object{"identity": other, "name": other, "version": "1.0.0", "clusterName": other}
	b.send("heart", h)
	w.throughout(2*time.Second, "there is no Node of it", func() error {
		nodes, err := w.nodeList.List(labelIs(nameLabel, other))
		if err == nil && len(nodes) > 0 {
			err = fmt.Errorf("there is Node %s", nodes[0].Name)
		}
		return err
	})
}

func nodeNewVersion(w *world) {
	b := w.ready(overMQTT)
	b.disconnect()
	b.version = "2.0.0"
	b.connect()
	w.labelled(b, map[string]string{versionLabel: "2.0.0"})
}

func nodeDeleted(w *world) {
	b := w.ready(overMQTT)
	old := w.node(b)
	w.must(w.client.CoreV1().Nodes().Delete(w.ctx, old.Name, metav1.DeleteOptions{}))
	w.within(w.patience+2*w.healthEvery, "there is another Node", w.isNode(b, func(n *corev1.Node) error {
		if n.UID == old.UID || nodeCondition(n, corev1.NodeReady) != corev1.ConditionTrue {
			return fmt.Errorf("node %s is the old one, or not Ready", n.Name)
		}
		return nil
	}))
}

func nodeIntervals(w *world) {
	b := w.ready(overMQTT)
	for name, every := range map[string]time.Duration{health: w.healthEvery, queryAllBiz: w.listEvery} {
		const times = 3
		had := len(b.gotName(name))
		start := time.Now()
		w.within(times*every+w.patience, fmt.Sprintf("it is asked for %s %d times more", name, times), func() error {
			if n := len(b.gotName(name)) - had; n < times {
				return fmt.Errorf("%d times", n)
			}
			return nil
		})
		took := time.Since(start)
		if took < times*every/3 {
			w.fail("%s was asked %d times in %s, at an interval of %s", name, times, took, every)
		}
		w.saw("%s %d times in %s", name, times, took.Round(100*time.Millisecond))
	}
}

func nodeConditions(w *world) {
	n := w.node(w.ready(overMQTT))
	for kind, want := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeMemoryPressure: corev1.ConditionFalse,
		corev1.NodeDiskPressure: corev1.ConditionFalse, corev1.NodePIDPressure: corev1.ConditionFalse,
	} {
		if got := nodeCondition(n, kind); got != want {
			w.fail("%s is %q, want %q", kind, got, want)
		}
	}
	for _, c := range n.Status.Conditions {
		if c.LastTransitionTime.IsZero() || c.LastHeartbeatTime.IsZero() {
			w.fail("condition %s has no times", c.Type)
		}
	}
}
