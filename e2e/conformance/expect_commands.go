package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// commands: what a base is sent.
func commands() []expectation {
	return slices.Concat(
		onBoth(expectation{Name: "command/install", Text: "a Pod on a base becomes one installBiz with name, version and URL of its container", Source: principle + " vPod", Level: must}, commandInstall),
		onBoth(expectation{Name: "command/uninstall", Text: "a deleted Pod becomes one uninstallBiz with name and version", Source: takeDown, Level: must}, commandUninstall),
		onBoth(expectation{Name: "command/containers", Text: "each container of a Pod is a module; the Pod is Ready when all are activated", Source: "behaviour C11", Level: must}, commandContainers),
		onBoth(expectation{Name: "command/baseline", Text: "a base that asks for its baseline gets an array of the modules of peer workloads", Source: "behaviour G31", Level: should}, commandBaseline),
		[]expectation{
			{Name: "command/topics", Text: "commands come to koupleless_<env>/<identity>/<command>", Source: "protocol 3.4", Level: must, Check: commandTopics},
			{Name: "command/qos", Text: "commands that change modules come with QoS 1", Source: "protocol 3.4", Level: should, Check: commandQoS},
			{Name: "command/not-retained", Text: "a base that connects again finds no command retained", Source: "protocol 3.4", Level: should, Check: commandRetained},
			{Name: "command/retained", Text: "commands are retained by the broker", Source: "protocol 3.4", Level: original, Check: commandIsRetained},
			{Name: "command/json", Text: "all commands have a body that is a JSON object, but baselines, which are arrays", Source: "protocol 4.2", Level: must, Phase: atTheEnd, Check: commandJSON},
			{Name: "command/known", Text: "no base was sent a command that its tunnel does not know", Source: "protocol 3.3, 4.4", Level: must, Phase: atTheEnd, Check: commandKnown},
			{Name: "command/post", Text: "every request over HTTP is a POST", Source: "protocol 4.2", Level: must, Phase: atTheEnd, Check: commandPost},
			{Name: "command/one-at-a-time", Text: "a module is sent no command while another for it is under way", Source: "protocol 4.8", Level: should, Check: commandOneAtATime},
			{Name: "command/version-by-field", Text: "BIZ_VERSION may come from an annotation of the Pod", Source: replacing, Level: should, Check: commandVersionByField},
		},
	)
}

func commandInstall(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	if err := sameCommands(b, "installBiz m:1.0.0"); err != nil {
		w.fail("%v", err)
	}
	got := object{}
	w.must(json.Unmarshal(b.gotName(installBiz)[0].body, &got))
	want := object{"bizName": "m", "bizVersion": "1.0.0", "bizUrl": jar("m", "1.0.0")}
	for key, value := range want {
		if got[key] != value {
			w.fail("%s is %v, want %v", key, got[key], value)
		}
	}
	if async, there := got["async"]; there && async != false {
		w.fail("async is %v: over MQTT its answer says nothing", async)
	}
	w.saw("%s", b.gotName(installBiz)[0].body)
}

func commandUninstall(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	w.remove("m")
	w.goneWithin("m", "", 2*w.patience)
	if err := sameCommands(b, "installBiz m:1.0.0", "uninstallBiz m:1.0.0"); err != nil {
		w.fail("%v", err)
	}
	w.hasModules(b)
	w.saw("%s", b.gotName(uninstallBiz)[0].body)
}

func commandContainers(w *world, tunnel string) {
	b := w.ready(tunnel)
	pass, open := w.gate()
	b.obey(func(c command) reply {
		if c.BizName == "second" {
			pass()
		}
		return b.do(c)
	})
	w.create(w.barePod("two", module("first", "1.0.0"), module("second", "2.0.0")))
	w.soon("the first is installed", modulesAre(b, "first:1.0.0 ACTIVATED"))
	w.neverReady("two", w.listEvery+time.Second)
	open()
	w.readyPod("two")
	w.hasModules(b, "first:1.0.0 ACTIVATED", "second:2.0.0 ACTIVATED")
}

func commandTopics(w *world) {
	b := w.ready(overMQTT)
	w.served("m")
	root := "koupleless_" + w.env + "/" + b.identity + "/"
	seen := map[string]bool{}
	for _, c := range b.got(func(c command) bool { return c.name != baseline }) {
		seen[c.topic] = true
	}
	for _, name := range []string{installBiz, health, queryAllBiz} {
		if !seen[root+name] {
			w.fail("nothing came to %s; topics were %v", root+name, slices.Sorted(maps.Keys(seen)))
		}
	}
	w.saw("%v", slices.Sorted(maps.Keys(seen)))
}

func commandQoS(w *world) {
	b := w.ready(overMQTT)
	w.served("m")
	for _, c := range b.got(nil) {
		if c.qos != 1 {
			w.fail("%s came with QoS %d", c, c.qos)
		}
	}
}

// retainedAfterInstall are the retained messages that a base finds when it connects again.
func retainedAfterInstall(w *world) []string {
	b := w.ready(overMQTT)
	w.served("m")
	b.disconnect()
	asked := len(b.gotName(health))
	b.reconnect()
	w.within(w.healthEvery+w.patience, "it is asked again", func() error {
		if len(b.gotName(health)) == asked {
			return errNone
		}
		return nil
	})
	found := []string{}
	for _, c := range b.got(func(c command) bool { return c.retained }) {
		found = append(found, c.String())
	}
	return found
}

func commandRetained(w *world) {
	if found := retainedAfterInstall(w); len(found) > 0 {
		w.fail("retained: %v", found)
	}
}

func commandIsRetained(w *world) {
	if found := retainedAfterInstall(w); len(found) == 0 {
		w.fail("none is")
	}
}

// everyCommand looks at all that all bases were sent.
func (w *world) everyCommand(look func(b *base, c command) error) {
	n := 0
	for _, b := range w.everyone() {
		for _, c := range b.got(func(command) bool { return true }) {
			n++
			w.must(look(b, c))
		}
	}
	if n == 0 {
		w.skip("no base was sent a command: run it together with others")
	}
	w.saw("%d commands to %d bases", n, len(w.everyone()))
}

func commandJSON(w *world) {
	w.everyCommand(func(_ *base, c command) error {
		if c.name == baseline {
			return json.Unmarshal(c.body, &[]object{})
		}
		if err := json.Unmarshal(c.body, &object{}); err != nil {
			return fmt.Errorf("%s has the body %q: %w", c.name, c.body, err)
		}
		return nil
	})
}

func commandKnown(w *world) {
	common := []string{installBiz, uninstallBiz, health, queryAllBiz}
	knows := map[string][]string{
		overMQTT: append([]string{baseline}, common...),
		overHTTP: append([]string{"help", "batchInstallBiz", switchBiz, "queryBizOps"}, common...),
	}
	w.everyCommand(func(b *base, c command) error {
		if !slices.Contains(knows[b.tunnel], c.name) {
			return fmt.Errorf("a base was sent %q over %s", c.name, b.tunnel)
		}
		return nil
	})
}

func commandPost(w *world) {
	w.everyCommand(func(b *base, c command) error {
		if b.tunnel == overHTTP && c.method != "POST" {
			return fmt.Errorf("%s %s", c.method, c.name)
		}
		return nil
	})
}

func commandOneAtATime(w *world) {
	b := w.ready(overMQTT)
	open := w.installing(b)
	w.throughout(2*w.listEvery, "nothing else is sent for it", func() error { return sameCommands(b, "installBiz m:1.0.0") })
	open()
	w.readyPod("m")
}

func commandVersionByField(w *world) {
	b := w.ready(overMQTT)
	p := w.barePod("m", module("m", ""))
	p.Annotations = map[string]string{"version": "3.0.0"}
	p.Spec.Containers[0].Env[0] = fieldVersion()
	w.create(p)
	w.readyPod("m")
	w.hasModules(b, "m:3.0.0 ACTIVATED")
}

// fieldVersion takes BIZ_VERSION from the annotation version: an environment variable of a Pod
// can't change, an annotation can.
func fieldVersion() corev1.EnvVar {
	return corev1.EnvVar{Name: versionEnv, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['version']"}}}
}

// commandBaseline: a base that restarts asks for its baseline and gets the modules of a peer
// Deployment.
func commandBaseline(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.peer("m", 1)
	w.soon("the base has the module", modulesAre(b, "m:1.0.0 ACTIVATED"))
	var got []byte
	if tunnel == overHTTP {
		l, ok := b.link.(*httpLink)
		if !ok {
			w.fail("the base is not over HTTP")
		}
		var err error
		got, err = l.post(w.heartbeats[0]+"/queryBaseline", encode(b.metadata()))
		w.must(err)
	} else {
		had := len(b.gotName(baseline))
		b.send("queryBaseline", b.metadata())
		w.soon("the baseline comes", func() error {
			if len(b.gotName(baseline)) == had {
				return errNone
			}
			return nil
		})
		c := b.gotName(baseline)[had]
		if want := "koupleless_" + w.env + "/" + b.identity + "/base/baseline"; c.topic != want {
			w.fail("the baseline came to %s", c.topic)
		}
		got = c.body
	}
	var items []command
	if err := json.Unmarshal(got, &items); err != nil {
		w.fail("the baseline is %s: %v", got, err)
	}
	if len(items) != 1 || items[0].BizName != "m" || items[0].BizVersion != "1.0.0" || items[0].BizURL != jar("m", "1.0.0") {
		w.fail("the baseline is %s", got)
	}
	w.saw("%s", got)
}

// installing makes Pod m, whose install is under way until open is called.
func (w *world) installing(b *base) (open func()) {
	pass, open := w.gate()
	b.obey(func(c command) reply {
		if _, ok := b.resolve(c); c.name == installBiz && ok {
			pass()
			return b.start(c)
		}
		return b.do(c)
	})
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("it is being installed", modulesAre(b, "m:1.0.0 RESOLVED"))
	return open
}
