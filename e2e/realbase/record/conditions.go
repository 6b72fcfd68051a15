package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// condition is what is provoked, and by which steps or phases. Both tunnels take them
// unless only says which one.
type condition struct {
	name, text string
	base       recording.Settings
	apart      string // conditions of one name have a base for themselves
	jars       []string
	simulate   recording.Simulate
	only       recording.Tunnel
	steps      []step
	phases     []phase
}

// tunnels are those over which a condition is recorded.
func (c condition) tunnels() []recording.Tunnel {
	if c.only != "" {
		return []recording.Tunnel{c.only}
	}
	return []recording.Tunnel{recording.HTTP, recording.MQTT}
}

// step is one request; its fields are those of recording.Exchange.
type step struct {
	command, body, raw, web string
	silentHTTP              bool // nothing comes back over HTTP
	silentMQTT              bool // nor over MQTT
	background, join        bool
	await, until            string
	awaitDownload, release  bool
}

// The jars, and what differs from the module that Maven built: it has the
// classes of all of them.
var jars = map[string]recording.Manifest{
	"shop-1.0.0.jar": {},
	"shop-2.0.0.jar": {"Ark-Biz-Version": "2.0.0", "web-context-path": "shop-2.0.0"},
	"same-path.jar":  {"Ark-Biz-Version": "2.0.0"},
	"plain-1.jar":    named("plain", "1.0.0", "Plain"), // without an argument it does not wait
	"plain-2.jar":    named("plain", "2.0.0", "Plain"),
	"bare.jar":       named("bare", "1.0.0", "Bare"),
	"throwing.jar":   named("throwing", "1.0.0", "Throwing"), // nor does this one
	"early.jar":      early(),
	"stubborn.jar":   named("stubborn", "1.0.0", "Stubborn"),
	"greedy.jar":     named("greedy", "1.0.0", "Greedy"),
	"no-class.jar":   named("lost", "1.0.0", "Lost"),
	"no-main.jar":    {"Main-Class": "", "Start-Class": "", "Ark-Biz-Name": "plain"},
	"no-name.jar":    {"Ark-Biz-Name": ""},
	"no-version.jar": {"Ark-Biz-Version": ""},
	"no-jar.jar":     nil,
}

func named(name, version, class string) recording.Manifest {
	class = "koupsandbox.module." + class
	return recording.Manifest{"Ark-Biz-Name": name, "Ark-Biz-Version": version, "Main-Class": class, "Start-Class": class, "web-context-path": name}
}

// early goes before other modules in a batch.
func early() recording.Manifest {
	m := named("plain", "2.0.0", "Plain")
	m["priority"] = "50"
	return m
}

// The requests.

func install(name, version, jar string) step {
	return step{command: "installBiz", body: fmt.Sprintf(`{"bizName":%q,"bizVersion":%q,"bizUrl":"file://{modules}/%s"}`, name, version, jar)}
}

func installURL(url string) step {
	return step{command: "installBiz", body: fmt.Sprintf(`{"bizName":"plain","bizVersion":"1.0.0","bizUrl":%q}`, url)}
}

func waiting(version string) step {
	s := step{command: "installBiz", background: true}
	s.body = fmt.Sprintf(`{"bizName":"plain","bizVersion":%q,"bizUrl":"file://{modules}/plain-1.jar","args":["{modules}/go"]}`, version)
	return s
}

func on(command, name, version string) step {
	return step{command: command, body: fmt.Sprintf(`{"bizName":%q,"bizVersion":%q}`, name, version)}
}

func ask(command, body string) step { return step{command: command, body: body} }

// unanswered is a step that has no answer over MQTT.
func (s step) unanswered() step {
	s.silentMQTT = true
	return s
}

// noSpring is what an uninstall says of a module without a Spring context.
const noSpring = `com.alipay.sofa.koupleless.common.exception.BizRuntimeException: java.lang.NullPointerException: Cannot invoke ` +
	`"com.alipay.sofa.koupleless.common.model.ApplicationContextHolder.close()" because "this.applicationContext" is null`

// says is a fault with the exception of a module.
func says(code, biz, exception string) json.RawMessage {
	return fmt.Appendf(nil, `{"kind":"error","code":%q,"message":%q,"match":{"biz":%q}}`, code, exception, biz)
}

func fault(code, biz string) json.RawMessage {
	return fmt.Appendf(nil, `{"kind":"error","code":%q,"match":{"biz":%q}}`, code, biz)
}

var (
	list = ask("queryAllBiz", "{}")
	slow = recording.Simulate{Modules: []json.RawMessage{json.RawMessage(`{"name":"plain","version":"1.0.0","installTime":{"min":"700ms"}}`)}}
)

// lives are the conditions of installs and uninstalls that go as they should.
var lives = []condition{
	{name: "life", text: "a module is installed, listed and uninstalled", jars: []string{"plain-1.jar"},
		steps: []step{list, install("plain", "1.0.0", "plain-1.jar"), list, on("uninstallBiz", "plain", "1.0.0"), list}},
	{name: "life-web", text: "a web module is installed, listed and uninstalled", jars: []string{"shop-1.0.0.jar"},
		steps: []step{install("shop", "1.0.0", "shop-1.0.0.jar"), list, on("uninstallBiz", "shop", "1.0.0"), list}},
	{name: "install-over-http", text: "the jar comes over HTTP", jars: []string{"plain-1.jar"},
		steps: []step{installURL("{server}/plain-1.jar")}},
	{name: "install-nameless", text: "a request without name and version takes those of the jar", jars: []string{"plain-1.jar"},
		steps: []step{ask("installBiz", `{"bizUrl":"file://{modules}/plain-1.jar"}`), list}},
	{name: "install-other-name", text: "the jar decides who is installed, not the request", jars: []string{"plain-1.jar"},
		steps: []step{install("other", "9.9.9", "plain-1.jar"), list, on("uninstallBiz", "other", "9.9.9")}},
	{name: "install-twice", text: "a version that is installed already", jars: []string{"plain-1.jar"},
		steps: []step{install("plain", "1.0.0", "plain-1.jar"), install("plain", "1.0.0", "plain-1.jar"), list}},
	{name: "install-uninstall-first", text: "the strategy uninstallThenInstall", jars: []string{"plain-1.jar", "plain-2.jar"},
		steps: []step{install("plain", "1.0.0", "plain-1.jar"),
			ask("installBiz", `{"bizName":"plain","bizVersion":"2.0.0","bizUrl":"file://{modules}/plain-2.jar","installStrategy":"uninstallThenInstall"}`), list}},
	{name: "conflict", text: "a second command for a version that is being installed", jars: []string{"plain-1.jar"}, simulate: slow,
		steps: []step{waiting("1.0.0"),
			awaiting(`"resolved"`, install("plain", "1.0.0", "plain-1.jar")), on("uninstallBiz", "plain", "1.0.0"), list,
			{join: true, release: true}}},
	{name: "conflict-switch", text: "a switch to a version that is being installed under another name", jars: []string{"plain-1.jar"}, simulate: slow, only: recording.HTTP,
		steps: []step{waiting("9.9.9"), awaiting(`"resolved"`, on("switchBiz", "plain", "1.0.0")), on("uninstallBiz", "plain", "1.0.0"),
			{join: true, release: true}}},
	{name: "second-version", text: "a second version on a base without flags: the old one stays active until it is switched", jars: []string{"plain-1.jar", "plain-2.jar"},
		steps: []step{install("plain", "1.0.0", "plain-1.jar"), install("plain", "2.0.0", "plain-2.jar"), list,
			on("switchBiz", "plain", "2.0.0").unanswered(), list, on("switchBiz", "plain", "2.0.0").unanswered(),
			on("uninstallBiz", "plain", "2.0.0"), list}},
	{name: "second-version-new", text: "a second version with activate.new.module=true", base: recording.Settings{Activation: "new"}, jars: []string{"plain-1.jar", "plain-2.jar"},
		steps: []step{install("plain", "1.0.0", "plain-1.jar"), install("plain", "2.0.0", "plain-2.jar"), list,
			on("uninstallBiz", "plain", "1.0.0"), list}},
	{name: "second-version-multi", text: "a second version with sofa.ark.activate.multi.biz.version.enable=true", base: recording.Settings{Activation: "multi"}, jars: []string{"plain-1.jar", "plain-2.jar"},
		steps: []step{install("plain", "1.0.0", "plain-1.jar"), install("plain", "2.0.0", "plain-2.jar"), list}},
	{name: "async", text: "asynchronous commands and their records", jars: []string{"plain-1.jar"}, simulate: slow, only: recording.HTTP,
		steps: []step{ask("queryBizOps", `{"requestId":"none"}`), ask("queryBizOps", `{}`),
			ask("installBiz", `{"async":true,"requestId":"r1","bizName":"plain","bizVersion":"1.0.0","bizUrl":"file://{modules}/plain-1.jar","args":["{modules}/go"]}`),
			ask("installBiz", `{"async":true,"requestId":"r1","bizName":"plain","bizVersion":"1.0.0","bizUrl":"file://{modules}/plain-1.jar"}`),
			{release: true, until: `"endTime":`, command: "queryBizOps", body: `{"requestId":"r1"}`}}},
	{name: "async-fails", text: "an asynchronous install that fails", jars: []string{"throwing.jar"}, only: recording.HTTP,
		simulate: recording.Simulate{Faults: throwing.Faults, Modules: []json.RawMessage{json.RawMessage(`{"name":"throwing","installTime":{"min":"700ms"}}`)}},
		steps: []step{
			ask("installBiz", `{"async":true,"requestId":"r2","bizName":"throwing","bizVersion":"1.0.0","bizUrl":"file://{modules}/throwing.jar","args":["{modules}/go"]}`),
			awaiting(`"resolved"`, list),
			{release: true, until: `"endTime":`, command: "queryBizOps", body: `{"requestId":"r2"}`}, list}},
}

func awaiting(text string, s step) step {
	s.await = text
	return s
}

// failures are those of installs, uninstalls and switches.
var failures = []condition{
	{name: "url-missing", text: "no bizUrl", steps: []step{on("installBiz", "plain", "1.0.0"), ask("installBiz", `{"bizName":"","bizVersion":null,"bizUrl":" "}`)}},
	{name: "half-a-name", text: "a name without a version", steps: []step{ask("installBiz", `{"bizName":"plain","bizUrl":"http://{refused}/x.jar"}`)}},
	{name: "async-without-id", text: "async without a requestId", steps: []step{ask("installBiz", `{"async":true}`), ask("uninstallBiz", `{"async":true}`), ask("uninstallBiz", `{"async":true,"bizName":"plain","bizVersion":"1.0.0"}`)}},
	{name: "not-a-url", text: "a bizUrl that is no URL", steps: []step{installURL("nonsense"), installURL("oci://registry.example/x")}},
	{name: "pull-missing-file", text: "a file that is not there", steps: []step{installURL("file://{modules}/missing.jar")}},
	{name: "pull-not-found", text: "404", steps: []step{installURL("{server}/missing.jar")}},
	{name: "pull-refused", text: "nobody listens", steps: []step{installURL("http://{refused}/x.jar")}},
	{name: "pull-unknown-host", text: "a host that does not exist", steps: []step{installURL("http://no-such-host.invalid/x.jar")}},
	{name: "pull-hangs", text: "a server that does not answer, until it does: the install waits, with its lock", jars: []string{"plain-1.jar"}, steps: []step{
		hangs, {awaitDownload: true, command: "installBiz", body: hangs.body}, list,
		{join: true, release: true}, install("plain", "1.0.0", "plain-1.jar")}},
	{name: "disk-full", text: "no room for the download", base: recording.Settings{Disk: 4}, jars: []string{"plain-1.jar"},
		simulate: recording.Simulate{Faults: []json.RawMessage{fault("User.DiskFull", "plain")}},
		steps:    []step{install("plain", "1.0.0", "plain-1.jar"), installURL("{server}/plain-1.jar"), list}},
	{name: "pull-nameless", text: "no name, and no jar to take it from", steps: []step{ask("installBiz", `{"bizUrl":"file://{modules}/missing.jar"}`)}},
	{name: "no-jar", text: "a file that is no jar", jars: []string{"no-jar.jar"}, steps: []step{install("plain", "1.0.0", "no-jar.jar"), list}},
	{name: "jar-without-name", text: "a jar that is no module", jars: []string{"no-name.jar"}, steps: []step{install("plain", "1.0.0", "no-name.jar"), list}},
	{name: "jar-without-version", text: "a module without a version", jars: []string{"no-version.jar"}, steps: []step{install("shop", "1.0.0", "no-version.jar"), list}},
	{name: "jar-without-main-class", text: "a module whose manifest names no main class", jars: []string{"no-main.jar"}, steps: []step{install("plain", "1.0.0", "no-main.jar"), list}},
	{name: "main-class-not-found", text: "a module whose main class is not in the jar", jars: []string{"no-class.jar"},
		simulate: recording.Simulate{Faults: []json.RawMessage{fault("Arklet.InstallBizFailed", "lost")}},
		steps:    []step{install("lost", "1.0.0", "no-class.jar"), list}},
	{name: "main-throws", text: "a module whose main throws", jars: []string{"throwing.jar"}, simulate: throwing,
		steps: []step{install("throwing", "1.0.0", "throwing.jar"), list}},
	{name: "main-throws-kept", text: "the same with sofa.ark.auto.uninstall.when.failed.enable=false", base: recording.Settings{KeepFailed: true}, jars: []string{"throwing.jar"},
		simulate: recording.Simulate{Faults: append([]json.RawMessage{says("Arklet.UninstallBizFailed", "throwing", noSpring)}, throwing.Faults...)},
		steps: []step{install("throwing", "1.0.0", "throwing.jar"), list, install("throwing", "1.0.0", "throwing.jar"),
			on("switchBiz", "throwing", "1.0.0").unanswered(), on("uninstallBiz", "throwing", "1.0.0"), list}},
	{name: "same-web-path", text: "two versions of a web module with one web context path", base: recording.Settings{Activation: "new"}, jars: []string{"shop-1.0.0.jar", "same-path.jar"},
		simulate: recording.Simulate{Modules: []json.RawMessage{json.RawMessage(`{"name":"shop","web":true}`)}},
		steps:    []step{install("shop", "1.0.0", "shop-1.0.0.jar"), install("shop", "2.0.0", "same-path.jar"), list}},
	{name: "other-web-path", text: "two versions of a web module with a web context path each", base: recording.Settings{Activation: "new"}, jars: []string{"shop-1.0.0.jar", "shop-2.0.0.jar"},
		simulate: recording.Simulate{Modules: []json.RawMessage{json.RawMessage(`{"name":"shop","web":true}`)}},
		steps:    []step{install("shop", "1.0.0", "shop-1.0.0.jar"), install("shop", "2.0.0", "shop-2.0.0.jar"), list}},
	{name: "metaspace-exhausted", text: "no metaspace is left", base: recording.Settings{MaxMetaspace: 80}, jars: []string{"greedy.jar"},
		simulate: recording.Simulate{Faults: []json.RawMessage{fault("User.MetaspaceFull", "greedy")}},
		steps:    []step{install("greedy", "1.0.0", "greedy.jar"), list}},
	{name: "stop-handler-throws", text: "a module whose stop handler throws", jars: []string{"stubborn.jar"},
		simulate: stubborn, steps: []step{install("stubborn", "1.0.0", "stubborn.jar"), on("uninstallBiz", "stubborn", "1.0.0"), list}},
	{name: "uninstall-without-spring", text: "an uninstall of a module that has no Spring context", jars: []string{"bare.jar"},
		simulate: recording.Simulate{Faults: []json.RawMessage{says("Arklet.UninstallBizFailed", "bare", noSpring)}},
		steps:    []step{install("bare", "1.0.0", "bare.jar"), on("uninstallBiz", "bare", "1.0.0"), list}},
	{name: "uninstall-unknown", text: "an uninstall of what is not there", steps: []step{on("uninstallBiz", "plain", "1.0.0")}},
	{name: "uninstall-master", text: "an uninstall of the base itself", steps: []step{on("uninstallBiz", "realbase", "1.0.0")}},
	{name: "uninstall-nameless", text: "an uninstall without name or version", steps: []step{ask("uninstallBiz", `{"bizVersion":"1.0.0"}`), ask("uninstallBiz", `{"bizName":"plain"}`)}},
	{name: "switch-unknown", text: "a switch to what is not there", steps: []step{on("switchBiz", "plain", "1.0.0").unanswered()}},
	{name: "switch-nameless", text: "a switch without name or version", only: recording.HTTP,
		steps: []step{ask("switchBiz", `{"bizVersion":"1.0.0"}`), ask("switchBiz", `{"bizName":"plain"}`)}},
}

var stubborn = recording.Simulate{Faults: []json.RawMessage{says("Arklet.UninstallBizFailed", "stubborn", "java.lang.IllegalStateException: the module does not let go")}}

// hangs is an install whose download does not come.
var hangs = func() step {
	s := installURL("{server}/hanging/plain-1.jar")
	s.background = true
	return s
}()

var throwing = recording.Simulate{Faults: []json.RawMessage{fault("User.InstallBizUserError", "throwing")}}

// questions are help, health, and requests that cannot be understood.
var questions = []condition{
	{name: "help", text: "the list of commands", steps: []step{ask("help", "{}").unanswered()}},
	{name: "batch-install", text: "batchInstallBiz", steps: []step{ask("batchInstallBiz", `{"bizList":[]}`).unanswered()}},
	{name: "unknown-command", text: "a command that does not exist", steps: []step{ask("nothing", "{}").unanswered()}},
	{name: "empty-path", text: "no command", only: recording.HTTP, steps: []step{ask("", "{}"), ask("nothing/at/all", "{}"), {command: "nothing", body: "no JSON", silentHTTP: true}}},
	{name: "query-string", text: "a command with a query", only: recording.HTTP, steps: []step{ask("queryAllBiz?x=1", "{}")}},
	{name: "wrong-method", text: "GET", only: recording.HTTP, steps: []step{{raw: "GET /help HTTP/1.1\r\nHost: base\r\n\r\n"}}},
	{name: "oversized", text: "a body of more than 1 MiB", only: recording.HTTP,
		steps: []step{{raw: "POST /queryAllBiz HTTP/1.1\r\nHost: base\r\nContent-Length: 1048577\r\n\r\n{oversized}"}}},
	{name: "bad-json", text: "bodies that are no JSON object", steps: []step{
		{command: "queryAllBiz", body: "{bad", silentHTTP: true}, {command: "installBiz", body: "{bad", silentHTTP: true, silentMQTT: true},
		{command: "installBiz", body: "[]", silentHTTP: true, silentMQTT: true}, {command: "health", body: "7", silentHTTP: true, silentMQTT: true}}},
	{name: "empty-body", text: "empty bodies", steps: []step{ask("queryAllBiz", ""), ask("health", ""), ask("installBiz", "").unanswered(),
		ask("uninstallBiz", "").unanswered(), ask("switchBiz", "").unanswered(), ask("queryBizOps", "").unanswered()}},
	{name: "wrong-types", text: "fields that do not convert", only: recording.HTTP, steps: []step{ask("installBiz", `{"bizName":"plain","args":{}}`), ask("uninstallBiz", `{"bizName":["plain"]}`)}},
	{name: "health", text: "health without conditions", steps: []step{ask("health", "{}")}},
	{name: "health-metrics", text: "some metrics, and one that does not exist", steps: []step{ask("health", `{"type":"system","metrics":["jvm"]}`), ask("health", `{"type":"system"}`), ask("health", `{"metrics":["disk"]}`)}},
	{name: "health-biz", text: "health of a module", jars: []string{"plain-1.jar"}, steps: []step{install("plain", "1.0.0", "plain-1.jar"),
		ask("health", `{"type":"biz","bizName":"plain","bizVersion":"1.0.0"}`), ask("health", `{"type":"biz","bizName":"plain"}`), ask("health", `{"type":"biz"}`), ask("health", `{}`),
		ask("health", `{"bizName":"plain","bizVersion":"1.0.0"}`), ask("health", `{"bizName":"plain"}`), ask("health", `{"bizName":"koupleless-base-plugin"}`)}},
	{name: "health-unknown", text: "health of what is not there", steps: []step{ask("health", `{"type":"biz","bizName":"none"}`), ask("health", `{"type":"biz","bizName":"none","bizVersion":"1.0.0"}`),
		ask("health", `{"type":"plugin","bizName":"none"}`), ask("health", `{"bizName":"none","bizVersion":"1.0.0"}`)}},
	{name: "health-plugin", text: "health of plugins", steps: []step{ask("health", `{"type":"plugin"}`), ask("health", `{"type":"plugin","bizName":"koupleless-base-plugin"}`)}},
	{name: "health-bad-type", text: "a type of health that does not exist", steps: []step{ask("health", `{"type":"weather"}`).unanswered()}},
}

// baselines are answers to the question of a base what to install.
var baselines = []condition{
	{name: "baseline-empty", text: "a baseline without modules", only: recording.MQTT, steps: []step{ask(baseline, "[]"), list}},
	{name: "baseline", text: "a baseline of one module", jars: []string{"plain-1.jar"}, only: recording.MQTT, steps: []step{baselineOf("plain-1.jar"), list}},
	{name: "baseline-several", text: "a baseline of two versions: that of the higher priority starts first, and stays active", jars: []string{"plain-1.jar", "early.jar"}, only: recording.MQTT,
		steps: []step{baselineOf("plain-1.jar", "early.jar"), list}},
	{name: "baseline-broken", text: "a baseline of three modules: the main of one throws, one has no main class", jars: []string{"plain-1.jar", "throwing.jar", "no-main.jar"}, only: recording.MQTT,
		simulate: throwing, steps: []step{baselineOf("plain-1.jar", "throwing.jar", "no-main.jar"), list}},
	{name: "baseline-installed", text: "a baseline of what is installed", jars: []string{"plain-1.jar"}, only: recording.MQTT,
		steps: []step{install("plain", "1.0.0", "plain-1.jar"), baselineOf("plain-1.jar"), list}},
}

func baselineOf(files ...string) step {
	var items []string
	for _, jar := range files {
		items = append(items, fmt.Sprintf(`{"bizName":%q,"bizVersion":%q,"bizUrl":"file://{modules}/%s"}`,
			jars[jar]["Ark-Biz-Name"], cmp.Or(jars[jar]["Ark-Biz-Version"], "1.0.0"), jar))
	}
	return ask(baseline, "["+strings.Join(items, ",")+"]")
}

// actuators are questions to Spring's actuator.
var actuators = []condition{
	{name: "actuator", apart: "actuator", text: "health of the base and its probes, without a module and with one", jars: []string{"plain-1.jar"}, only: recording.HTTP,
		steps: []step{get("/actuator/health"), get("/actuator/health/liveness"), get("/actuator/health/readiness"), get("/actuator/info"),
			install("plain", "1.0.0", "plain-1.jar"),
			get("/actuator/health"), get("/actuator/health/liveness"), get("/actuator/health/readiness"), get("/actuator/info")}},
	{name: "actuator-starting", apart: "actuator", text: "health of the base while a module starts", jars: []string{"plain-1.jar"}, simulate: slow, only: recording.HTTP,
		steps: []step{waiting("1.0.0"), awaiting(`"resolved"`, get("/actuator/health")), get("/actuator/health/readiness"), {join: true, release: true}}},
	{name: "actuator-failed", apart: "actuator", text: "health of the base when a module could not start", jars: []string{"throwing.jar"}, simulate: throwing, only: recording.HTTP,
		steps: []step{install("throwing", "1.0.0", "throwing.jar"), get("/actuator/health"), get("/actuator/health/readiness")}},
	{name: "actuator-without-spring", apart: "actuator", text: "health of the base with a module that has no Spring context", jars: []string{"bare.jar"}, only: recording.HTTP,
		steps: []step{install("bare", "1.0.0", "bare.jar"), get("/actuator/health"), get("/actuator/health/readiness")}},
	// The last, because the base is not what it was.
	{name: "actuator-stop-handler", apart: "actuator", text: "health of the base when the stop handler of a module has thrown", jars: []string{"stubborn.jar"}, only: recording.HTTP,
		simulate: stubborn, steps: []step{install("stubborn", "1.0.0", "stubborn.jar"), on("uninstallBiz", "stubborn", "1.0.0"), get("/actuator/health"), get("/actuator/health/readiness")}},
}

func get(path string) step { return step{web: path} }

// worlds are conditions of what is around a base. Heartbeats come every 10 s over MQTT and every
// 12 s over HTTP: phases end between them, with room for requests.
var worlds = []condition{
	{name: "start", text: "a base starts, and is told its baseline", jars: []string{"plain-1.jar"}, only: recording.MQTT, phases: []phase{
		{event: recording.Start, seconds: 25, steps: []step{baselineOf("plain-1.jar"), list}}}},
	{name: "start", text: "a base starts", only: recording.HTTP, phases: []phase{{event: recording.Start, seconds: 30, steps: []step{list}}}},
	{name: "start-without-broker", text: "a base starts when there is no broker, and never looks for one again", only: recording.MQTT, phases: []phase{
		{event: recording.BrokerStops}, {event: recording.Start, seconds: 20}, {event: recording.BrokerReturns, seconds: 30}}},
	{name: "connection-breaks", text: "a connection breaks and comes back between two heartbeats", jars: []string{"plain-1.jar"}, only: recording.MQTT, phases: []phase{
		{event: recording.Start, seconds: 2, steps: []step{install("plain", "1.0.0", "plain-1.jar")}},
		{event: recording.ConnectionBreaks, seconds: 23, steps: []step{list}}}},
	{name: "outage", text: "the broker is away when a heartbeat is due: it was the last of the process, but commands are answered", jars: []string{"plain-1.jar"}, only: recording.MQTT, phases: []phase{
		{event: recording.Start, seconds: 2, steps: []step{install("plain", "1.0.0", "plain-1.jar")}},
		{event: recording.BrokerStops, seconds: 13},
		{event: recording.BrokerReturns, seconds: 40, steps: []step{list, ask("health", `{"type":"biz"}`), on("uninstallBiz", "plain", "1.0.0")}},
		{event: recording.Kill, seconds: 1}, {event: recording.Start, seconds: 15}}},
	{name: "outage", text: "nobody takes heartbeats, for two of them: they go on when somebody does again", jars: []string{"plain-1.jar"}, only: recording.HTTP, phases: []phase{
		{event: recording.Start, seconds: 4, steps: []step{install("plain", "1.0.0", "plain-1.jar")}},
		{event: recording.ControllerStops, seconds: 24, steps: []step{list}},
		{event: recording.ControllerReturns, seconds: 26, steps: []step{list}}}},
	{name: "controller-hangs", text: "heartbeats are not answered: the base gives each up after 10 s", only: recording.HTTP, phases: []phase{
		{event: recording.Start, seconds: 4}, {event: recording.ControllerHangs, seconds: 24, steps: []step{list}},
		{event: recording.ControllerReturns, seconds: 26}}},
	{name: "controller-fails", text: "heartbeats are answered with 500", only: recording.HTTP, phases: []phase{
		{event: recording.Start, seconds: 4}, {event: recording.ControllerFails, seconds: 24}, {event: recording.ControllerReturns, seconds: 14}}},
	{name: "restart", text: "the process is killed and starts again: nothing is said, nothing is left", jars: []string{"plain-1.jar"}, phases: []phase{
		{event: recording.Start, seconds: 2, steps: []step{install("plain", "1.0.0", "plain-1.jar"), list}},
		{event: recording.Kill, seconds: 3},
		{event: recording.Start, seconds: 2, steps: []step{list, install("plain", "1.0.0", "plain-1.jar")}}}},
}

func conditions() []condition {
	return slices.Concat(lives, failures, questions, baselines, actuators, worlds)
}
