package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// answers: what a base says to a command, and what it never says.
func answers() []expectation {
	return slices.Concat(
		onBoth(expectation{Name: "answer/failed", Text: "a failed install leaves the Pod not Ready, with the base's message in its status", Source: errorCodes, Level: must}, answerFailed),
		onBoth(expectation{Name: "answer/retried", Text: "an install that failed once is tried again", Source: errorCodes, Level: should}, answerRetried),
		onBoth(expectation{Name: "answer/repeat", Text: "a module that the base has already makes the Pod Ready", Source: "protocol 6 (10)", Level: must}, answerRepeat),
		onBoth(expectation{Name: "answer/success-not-listed", Text: "a success is not believed while the list does not have the module", Source: lossless + " 4", Level: must}, answerNotListed),
		onBoth(expectation{Name: "answer/success-deactivated", Text: "a success is not believed while the list says deactivated", Source: "protocol 4.5", Level: must}, answerDeactivated),
		onBoth(expectation{Name: "answer/lost", Text: "an install whose answer is lost makes the Pod Ready by the list", Source: "protocol 3.3", Level: should}, answerLost),
		onBoth(expectation{Name: "answer/unknown-fields", Text: "unknown fields and nulls in answers do no harm", Source: "protocol 3.6", Level: must}, answerUnknownFields),
		onBoth(expectation{Name: "answer/not-found", Text: "an uninstall that finds no module counts as done", Source: "protocol 6 (17)", Level: must}, answerNotFound),
		onBoth(expectation{Name: "answer/conflict", Text: "an install that conflicts with a command under way is tried again", Source: "protocol 4.8", Level: should}, answerConflict),
		onBoth(expectation{Name: "answer/broken", Text: "a broken module that the base keeps is uninstalled and installed again", Source: "protocol 5.3", Level: should}, answerBroken),
		[]expectation{
			{Name: "answer/duplicate", Text: "an answer that comes twice does no harm", Source: "protocol 3.4 (QoS 1)", Level: must, Check: answerTwice},
			{Name: "answer/late", Text: "a Pod waits for a slow install and is Ready after it", Source: principle + " 运维流程 4", Level: must, Check: answerLate},
			{Name: "answer/command-lost", Text: "an install that never reached the base is sent again before its predecessor's grace period of 30 s ends", Source: lossless + " 4", Level: should, Check: answerCommandLost},
			{Name: "answer/foreign", Text: "an answer about another module does not count", Source: "protocol 3.6", Level: must, Check: answerForeign},
			{Name: "answer/garbage", Text: "an answer that is no JSON does no harm", Source: "protocol 3.5", Level: must, Check: answerGarbage},
			{Name: "answer/batch", Text: "an answer to a baseline with failed entries does no harm", Source: "protocol 3.6", Level: must, Check: answerBatch},
			{Name: "answer/hanging-base", Text: "a base that answers nothing does not hold up another", Source: "protocol 4.2", Level: must, Check: answerHangingBase},
		},
	)
}

// text is all that a Pod's status and Events say.
func (w *world) text(name string) string {
	p := w.get(name)
	if p == nil {
		return ""
	}
	var t strings.Builder
	for _, c := range p.Status.Conditions {
		fmt.Fprintln(&t, c.Reason, c.Message)
	}
	for _, c := range p.Status.ContainerStatuses {
		if s := c.State.Waiting; s != nil {
			fmt.Fprintln(&t, s.Reason, s.Message)
		}
		if s := c.State.Terminated; s != nil {
			fmt.Fprintln(&t, s.Reason, s.Message)
		}
	}
	return t.String() + w.eventsOf(name)
}

// eventsOf are the Events of an object of this world.
func (w *world) eventsOf(name string) string {
	events, err := w.events.Events(w.name).List(everything)
	if err != nil {
		return "" // the cache knows no error
	}
	var t strings.Builder
	for _, e := range events {
		if e.InvolvedObject.Name == name && e.Source.Component != "default-scheduler" {
			fmt.Fprintln(&t, e.Type, e.Reason, e.Message)
		}
	}
	return t.String()
}

// says waits until the status or an Event of a Pod has a text.
func (w *world) says(name, text string) {
	w.soon(fmt.Sprintf("Pod %s says %q", name, text), func() error {
		if all := w.text(name); !strings.Contains(all, text) {
			return fmt.Errorf("it says %q", all)
		}
		return nil
	})
}

func answerFailed(w *world, tunnel string) {
	const cause = "java.io.FileNotFoundException: https://modules.example/m.jar"
	b := w.ready(tunnel)
	b.obey(func(command) reply { return thrown(cause) })
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.says("m", "FileNotFoundException")
	w.neverReady("m", time.Second)
	w.saw("%s", describe(w.get("m")))
}

// lostFor is how long the command of a release may be lost: Kubernetes gives a Pod 30 s to end.
const lostFor = 30 * time.Second

func answerCommandLost(w *world) {
	b := w.ready(overMQTT)
	b.obey(func(c command) reply {
		if len(b.gotName(installBiz)) == 1 {
			return silence
		}
		return b.do(c)
	})
	w.create(w.barePod("m", module("m", "1.0.0")))
	took := w.within(lostFor, "the Pod is Ready", w.isPod("m", isReady))
	w.saw("Ready after %s", took.Round(100*time.Millisecond))
}

func answerRetried(w *world, tunnel string) {
	b := w.ready(tunnel)
	b.obey(func(c command) reply {
		if len(b.gotName(installBiz)) == 1 {
			return thrown("java.net.ConnectException: Connection refused")
		}
		return b.do(c)
	})
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.readyPod("m")
	list := b.gotName(installBiz)
	w.saw("the second installBiz came %s after the first", list[1].at.Sub(list[0].at).Round(time.Millisecond))
}

func answerRepeat(w *world, tunnel string) {
	b := w.ready(tunnel)
	b.put("m", "1.0.0", activated, "STARTED", "")
	w.served("m")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
	w.saw("sent: %d commands", len(b.got(nil)))
}

func answerNotListed(w *world, tunnel string) {
	b := w.ready(tunnel)
	b.obey(func(c command) reply {
		m := biz{name: c.BizName, version: c.BizVersion}
		return success("Install Biz: m:1.0.0 success", m.info(activated))
	})
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("it is installed", func() error {
		if len(b.gotName(installBiz)) == 0 {
			return errNone
		}
		return nil
	})
	w.neverReady("m", 2*w.listEvery)
	w.saw("%d times installBiz, never Ready", len(b.gotName(installBiz)))
}

func answerDeactivated(w *world, tunnel string) {
	b := w.ready(tunnel, func(b *base) { b.activation = first })
	b.put("m", "0.9.0", activated, "STARTED", "") // somebody's, which stays active
	b.obey(func(c command) reply {
		if c.name != installBiz {
			return refused(c.name, "ILLEGAL_STATE_BIZ", "not now")
		}
		return b.do(c)
	})
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("it is installed", modulesAre(b, "m:0.9.0 ACTIVATED", "m:1.0.0 DEACTIVATED"))
	w.neverReady("m", 2*w.listEvery)
	w.saw("%s", describe(w.get("m")))
}

func answerLost(w *world, tunnel string) {
	b := w.ready(tunnel)
	pass, open := w.gate()
	b.obey(func(c command) reply {
		b.resolve(c)
		pass()
		b.start(c)
		return silence
	})
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("it is being installed", modulesAre(b, "m:1.0.0 RESOLVED"))
	w.neverReady("m", time.Second) // what is asked at the start of a base is answered by then
	open()
	took := w.within(2*w.listEvery+w.patience, "the Pod is Ready by the list", w.isPod("m", isReady))
	w.saw("Ready after %s", took.Round(100*time.Millisecond))
}

func answerUnknownFields(w *world, tunnel string) {
	b := w.ready(tunnel)
	b.obey(func(c command) reply {
		r := b.do(c)
		r.data["newer"], r.data["none"] = []any{1, object{"x": nil}}, nil
		return r
	})
	w.served("m")
	w.remove("m")
	w.goneWithin("m", "", 2*w.patience)
	w.hasModules(b)
}

func answerNotFound(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	b.obey(func(c command) reply {
		if c.name == uninstallBiz {
			b.drop(c.BizName, c.BizVersion) // somebody was faster
		}
		return b.do(c)
	})
	w.remove("m")
	took := w.goneWithin("m", "", 2*w.patience)
	if n := len(b.gotName(uninstallBiz)); n > 1 {
		w.fail("uninstallBiz was sent %d times", n)
	}
	w.saw("the Pod is gone after %s", took.Round(100*time.Millisecond))
}

func answerConflict(w *world, tunnel string) {
	b := w.ready(tunnel)
	b.obey(func(c command) reply {
		if len(b.gotName(installBiz)) == 1 {
			return conflict(c)
		}
		return b.do(c)
	})
	w.served("m")
	w.saw("%d times installBiz", len(b.gotName(installBiz)))
}

func answerBroken(w *world, tunnel string) {
	b := w.ready(tunnel)
	b.obey(func(c command) reply {
		if c.name == installBiz && len(b.gotName(installBiz)) == 1 {
			b.put("m", "1.0.0", broken, "INSTALL_FAILED", "java.lang.IllegalStateException")
			return thrown("java.lang.reflect.InvocationTargetException")
		}
		return b.do(c)
	})
	w.served("m")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
	if len(b.gotName(uninstallBiz)) == 0 {
		w.fail("the broken module was not uninstalled")
	}
}

func answerTwice(w *world) {
	b := w.ready(overMQTT)
	b.obey(func(c command) reply {
		r := b.do(c)
		b.send("bizOperation", object{"command": c.name, "bizName": c.BizName, "bizVersion": c.BizVersion, "response": r.output()})
		return r
	})
	w.served("m")
	w.remove("m")
	w.goneWithin("m", "", 2*w.patience)
	if err := sameCommands(b, "installBiz m:1.0.0", "uninstallBiz m:1.0.0"); err != nil {
		w.fail("%v", err)
	}
}

func answerLate(w *world) {
	b := w.ready(overMQTT)
	pass, open := w.gate()
	b.obey(func(c command) reply {
		b.resolve(c)
		pass()
		return b.start(c)
	})
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("it is being installed", modulesAre(b, "m:1.0.0 RESOLVED"))
	w.neverReady("m", w.listEvery+time.Second)
	open()
	w.readyPod("m")
	if err := sameCommands(b, "installBiz m:1.0.0"); err != nil {
		w.fail("%v", err)
	}
}

func answerForeign(w *world) {
	b := w.ready(overMQTT)
	b.obey(func(c command) reply {
		r := success("Install Biz: success")
		for _, id := range [][2]string{{"other", "1.0.0"}, {"m", "9.9.9"}} {
			b.send("bizOperation", object{"command": c.name, "bizName": id[0], "bizVersion": id[1], "response": r.output()})
		}
		return silence
	})
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("it was told to install", func() error { return sameCommands(b, "installBiz m:1.0.0") })
	w.neverReady("m", 2*w.listEvery)
}

func answerGarbage(w *world) {
	b := w.ready(overMQTT)
	b.obey(func(c command) reply {
		b.send("bizOperation", json.RawMessage(`{"data":{"command":"installBiz","response":[]}`))
		return b.do(c)
	})
	w.served("m")
}

func answerBatch(w *world) {
	b := w.ready(overMQTT)
	b.send("batchInstallBizResponse", object{"command": "batchInstallBiz", "response": object{
		"code": "FAILED", "message": "install biz not success!", "data": object{
			"code": "FAILED", "message": "batch install failed", "elapsedSpace": -5, "bizUrlToResponse": object{
				"file:///m/biz2.jar": object{"code": "REPEAT_BIZ", "message": "Biz: biz2:1.0.0 has been installed or registered."},
			},
		},
	}})
	b.send("batchInstallBizResponse", object{"command": "batchInstallBiz", "response": thrown("bizList is null").output()})
	w.served("m")
}

func answerHangingBase(w *world) {
	dumb := w.ready(overHTTP)
	dumb.obey(func(command) reply { return silence })
	stuck := w.barePod("stuck", module("stuck", "1.0.0"))
	w.create(stuck)
	w.soon("the base hangs", func() error {
		if len(dumb.got(nil)) == 0 {
			return errNone
		}
		return nil
	})
	b := w.ready(overHTTP, func(b *base) { b.version = "2.0.0" })
	t := w.templateFor("2.0.0", module("m", "1.0.0"))
	t.Name = "m"
	w.create(&corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec})
	w.readyPod("m")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
}
