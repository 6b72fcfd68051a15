package judge

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// What the check allows, by the defaults.
const (
	allowed = " (allowed: 1s once the controller can know, 5s beside another version)"
)

var truthCases = map[string]checkCase{
	"truth: a lossless update": {
		check: Truth, events: rolling,
		want: want{6, nil, []string{
			"1.02s a p1: Pod p1 is Ready, and a has no active biz:1 for 10ms, where another version serves",
			"1.02s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 20ms, where another version serves",
		}, "6 times something became Ready; Ready without its module 2 times, the longest 20ms" + allowed, nil},
	},
	"truth: Ready too early, and a request is lost": {
		check: Truth, events: script(vpod(10, "p1", "1@a", "ready"), lost(15, "a"), lost(15, "b"), installed(20, "1@a")),
		want: want{1, []string{"10ms a p1: Pod p1 is Ready, and a has no active biz:1 for 20ms, in which 1 request failed"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 20ms" + allowed, nil},
	},
	"truth: Ready too long": {
		check: Truth, events: script(up, uninstalled(1000, "1@a"), vpod(2001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.001s"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 1.001s" + allowed, nil},
	},
	"truth: Ready as long as is allowed": {
		check: Truth, events: script(up, uninstalled(1000, "1@a"), vpod(2000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1s"},
			"1 time something became Ready; Ready without its module 1 time, the longest 1s" + allowed, nil},
	},
	"truth: the endpoint stays ready": {
		check: Truth, events: script(up, endpoints(50, "p1@a"), uninstalled(1000, "1@a"), vpod(1010, "p1", "1@a")),
		want: want{2, []string{"1s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 59s"},
			[]string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 10ms"},
			"2 times something became Ready; Ready without its module 2 times, the longest 59s" + allowed, nil},
	},
	"truth: a Pod that is being deleted is in no Service": {
		check: Truth, events: script(up, vpod(900, "p1", "1@a", "ready", "deleting"), uninstalled(1000, "1@a")),
		want: want{1, nil, nil, "1 time something became Ready, always with its module", nil},
	},
	"truth: a Service that publishes Pods that are not Ready": {
		check: Truth, events: script(host(0, "a", "up"), host(1, "a", "ready"), vpod(10, "p1", "1@a"), published(20, false), lost(2500, "a"), installed(3000, "1@a"),
			vpod(3010, "p1", "1@a", "ready"), endpoints(3015, "p1@a"), vpod(4000, "p1", "1@a", "deleting"), published(4010, true), uninstalled(4100, "1@a")),
		want: want{2, nil, nil, "2 times something became Ready, always with its module" +
			"; endpoints of Pods that are not Ready are ignored, because publishNotReadyAddresses is set in Service svc", nil},
	},
	"truth: a Pod that is Ready without its module, in a Service that publishes all": {
		check: Truth, events: script(up, published(50, false), uninstalled(1000, "1@a"), vpod(2001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.001s"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 1.001s" + allowed +
				"; endpoints of Pods that are not Ready are ignored, because publishNotReadyAddresses is set in Service svc", nil},
	},
	"truth: the base crashes": {
		check: Truth, events: script(up, host(1000, "a", "down"), lost(2000, "a"), vpod(26000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 25s, in which 1 request failed, 25s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 25s" + allowed, nil},
	},
	"truth: an endpoint is made when the base has crashed and is back": {
		check: Truth, events: script(up, host(1000, "a", "down"), host(1100, "a", "ready"), endpoints(1200, "p1@a"), lost(1300, "a"),
			vpod(3000, "p1", "1@a"), endpoints(3010)),
		want: want{2, nil, []string{
			"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 2s, in which 1 request failed, 2s of it during an outage",
			"1.2s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 1.81s, in which 1 request failed, 1.81s of it during an outage",
		}, "2 times something became Ready; Ready without its module 2 times, the longest 2s" + allowed, nil},
	},
	"truth: the Pod turns Not Ready in time, and its endpoint follows": {
		check: Truth, events: script(up, endpoints(50, "p1@a"), host(1000, "a", "down"), host(1100, "a", "ready"), vpod(18_000, "p1", "1@a"), lost(18_800, "a"), endpoints(19_000)),
		want: want{2, nil, []string{
			"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 17s, 17s of it during an outage",
			"1s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 18s, in which 1 request failed, 17.6s of it during an outage",
		}, "2 times something became Ready; Ready without its module 2 times, the longest 18s" + allowed, nil},
	},
	"truth: a command takes the module of an endpoint": {
		check: Truth, events: script(up, endpoints(50, "p1@a"), vpod(990, "p1", "1@a"), uninstalled(1000, "1@a"), lost(1100, "a"), endpoints(1200)),
		want: want{2, []string{"1s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 200ms, in which 1 request failed"}, nil,
			"2 times something became Ready; Ready without its module 1 time, the longest 200ms" + allowed, nil},
	},
	"truth: an endpoint is made when the base has lost its module": {
		check: Truth, events: script(up, uninstalled(1000, "1@a"), endpoints(1500, "p1@a"), vpod(1900, "p1", "1@a"), endpoints(2600)),
		want: want{2, []string{"1.5s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 1.1s"},
			[]string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 900ms"},
			"2 times something became Ready; Ready without its module 2 times, the longest 1.1s" + allowed, nil},
	},
	"truth: an endpoint is made when a module has gone by itself": {
		check: Truth, events: script(up, removed(1000, "1@a"), endpoints(2000, "p1@a"), lost(3000, "a"), vpod(19500, "p1", "1@a"), endpoints(19501)),
		want: want{2, []string{"2s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 17.501s, in which 1 request failed (the controller could know within 16.5s)"},
			[]string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 18.5s, in which 1 request failed (the controller could know within 17.5s)"},
			"2 times something became Ready; Ready without its module 2 times, the longest 18.5s" + allowed, nil},
	},
	"truth: an endpoint is made when the controller should know": {
		check: Truth, events: script(up, host(1000, "a", "down"), endpoints(26500, "p1@a"), vpod(27000, "p1", "1@a"), endpoints(27500)),
		want: want{2, nil, []string{
			"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 26s, 26s of it during an outage",
			"26.5s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 1s, 500ms of it during an outage",
		}, "2 times something became Ready; Ready without its module 2 times, the longest 26s" + allowed, nil},
	},
	"truth: an endpoint is made after the controller should have known": {
		check: Truth, events: script(up, host(1000, "a", "down"), lost(27200, "a"), endpoints(27500, "p1@a"), vpod(27900, "p1", "1@a"), endpoints(28500)),
		want: want{2, []string{
			"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 26.9s, in which 1 request failed, 26s of it during an outage",
		}, []string{
			"27.5s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 1s",
		}, "2 times something became Ready; Ready without its module 2 times, the longest 26.9s" + allowed, nil},
	},
	"truth: a request that was under way": {
		check: Truth, events: script(up, uninstalled(1000, "1@a"), vpod(1020, "p1", "1@a"),
			events.Event{Time: at(1500), Request: &events.RequestEvent{Base: "a", Module: events.ModuleRef{Name: "biz"}, Elapsed: 490 * time.Millisecond}}),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 20ms, in which 1 request failed"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 20ms" + allowed, nil},
	},
	"truth: a request that was never answered": {
		check: Truth, events: script(up, uninstalled(1000, "1@a"), vpod(1020, "p1", "1@a"),
			events.Event{Time: at(1500), Request: &events.RequestEvent{Base: "a", Module: events.ModuleRef{Name: "biz"}, Result: "timeout", Elapsed: 490 * time.Millisecond}}),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 20ms"},
			"1 time something became Ready; Ready without its module 1 time, the longest 20ms" + allowed, nil},
	},
	"truth: a request from afterwards": {
		check: Truth, events: script(up, uninstalled(1000, "1@a"), vpod(1020, "p1", "1@a"),
			events.Event{Time: at(1500), Request: &events.RequestEvent{Base: "a", Module: events.ModuleRef{Name: "biz"}, Elapsed: 470 * time.Millisecond}}),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 20ms"},
			"1 time something became Ready; Ready without its module 1 time, the longest 20ms" + allowed, nil},
	},
	"truth: the base crashes while its module is missing": {
		check: Truth, events: script(up, uninstalled(1000, "1@a"), host(1010, "a", "down"), vpod(26000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 25s, 24.99s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 25s" + allowed, nil},
	},
	"truth: an endpoint that is not ready says nothing": {
		check: Truth, events: script(vpod(10, "p1", "1@a"), events.Event{Time: at(20), Endpoints: &events.EndpointsEvent{Service: "svc", Endpoints: []events.Endpoint{{Pod: "p1", Base: "a", Serving: true, Terminating: true}}}}),
		want: want{0, nil, nil, "0 times something became Ready, always with its module", nil},
	},
	"truth: Ready long after a switch": {
		check: Truth, events: script(up, switched(1000, "a"), vpod(6000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 5s, where another version serves"},
			"1 time something became Ready; Ready without its module 1 time, the longest 5s" + allowed, nil},
	},
	"truth: Ready too long after a switch": {
		check: Truth, events: script(up, switched(1000, "a"), vpod(6001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 5.001s, where another version serves"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 5.001s" + allowed, nil},
	},
	"truth: what serves in its place is gone by itself": {
		check: Truth, events: script(up, switched(1000, "a"), removed(1200, "2@a"), lost(1250, "a"), vpod(1300, "p1", "1@a")),
		want: want{1, nil, []string{
			"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 200ms, where another version serves",
			"1.2s a p1: Pod p1 is Ready, and a has no active biz:1 for 100ms, in which 1 request failed (the controller could know within 17.5s)",
		}, "1 time something became Ready; Ready without its module 2 times, the longest 200ms" + allowed, nil},
	},
	"truth: what serves in its place is uninstalled": {
		check: Truth, events: script(up, switched(1000, "a"), uninstalled(1200, "2@a"), lost(1250, "a"), vpod(1300, "p1", "1@a")),
		want: want{1, []string{"1.2s a p1: Pod p1 is Ready, and a has no active biz:1 for 100ms, in which 1 request failed"},
			[]string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 200ms, where another version serves"},
			"1 time something became Ready; Ready without its module 2 times, the longest 200ms" + allowed, nil},
	},
	"truth: overtaken, while an install takes long": {
		check: Truth, events: script(up, vpod(900, "p2", "2@a"), switched(1000, "a"), vpod(1000, "p2", "2@a", "deleting"), vpod(36_000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 35s, where another version serves"},
			"1 time something became Ready; Ready without its module 1 time, the longest 35s" + allowed, nil},
	},
	"truth: overtaken for too long": {
		check: Truth, events: script(up, vpod(900, "p2", "2@a"), switched(1000, "a"), vpod(1000, "p2", "2@a", "deleting"), vpod(36_001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 35.001s, where another version serves"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 35.001s" + allowed, nil},
	},
	"truth: overtaken, and then a Pod comes for what serves": {
		check: Truth, events: script(up, vpod(900, "p2", "2@a"), switched(1000, "a"), vpod(1000, "p2", "2@a", "deleting"), vpod(2000, "p3", "2@a"), vpod(7001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 6.001s, where another version serves"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 6.001s" + allowed, nil},
	},
	"truth: after a while no version serves": {
		check: Truth, events: script(up, switched(1000, "a"), uninstalled(1500, "2@a"), vpod(2501, "p1", "1@a")),
		want: want{1, []string{"1.5s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.001s"},
			[]string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 500ms, where another version serves"},
			"1 time something became Ready; Ready without its module 2 times, the longest 1.001s" + allowed, nil},
	},
	"truth: the controller is away": {
		check: Truth, events: script(up, component(500, "module-controller", "exited"), uninstalled(1000, "1@a"), component(3000, "module-controller", "running"), vpod(36_500, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 35.5s, 35s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 35.5s" + allowed, nil},
	},
	"truth: the controller was away, and takes too long": {
		check: Truth, events: script(up, component(500, "module-controller", "exited"), uninstalled(1000, "1@a"), component(3000, "module-controller", "running"), vpod(37_500, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 36.5s, 35s of it during an outage"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 36.5s" + allowed, nil},
	},
	"truth: the controller was away, and has had a list": {
		check: Truth, events: script(up, component(500, "module-controller", "exited"), uninstalled(1000, "1@a"), component(3000, "module-controller", "running"), asked(4000, "a"), asked(8000, "b"), vpod(10_000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 9s, 8s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 9s" + allowed, nil},
	},
	"truth: the controller was away, has had a list, and takes too long": {
		check: Truth, events: script(up, component(500, "module-controller", "exited"), uninstalled(1000, "1@a"), component(3000, "module-controller", "running"), asked(4000, "a"), asked(8000, "a"), vpod(10_001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 9.001s, 8s of it during an outage"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 9.001s" + allowed, nil},
	},
	"truth: the API server was away, and a list changes nothing": {
		check: Truth, events: script(up, component(500, "kube-apiserver", "exited"), uninstalled(1000, "1@a"), component(3000, "kube-apiserver", "running"), asked(4000, "a"), vpod(20_000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 19s, 19s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 19s" + allowed, nil},
	},
	"truth: another base is disconnected": {
		check: Truth, events: script(up, host(500, "b", "disconnected"), uninstalled(1000, "1@a"), vpod(2500, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.5s"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 1.5s" + allowed, nil},
	},
	"truth: the base is disconnected twice": {
		check: Truth, events: script(up, uninstalled(1000, "1@a"), host(1100, "a", "disconnected"), host(1200, "a", "connected"), host(2000, "a", "disconnected"), host(3000, "a", "connected"), vpod(23_800, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 22.8s, 21.9s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 22.8s" + allowed, nil},
	},
	"truth: the controller does not see the API as it is": {
		check: Truth, events: script(up, rule(500, "holdWatch", "set"), rule(600, "holdWatch", "fired"), uninstalled(1000, "1@a"), rule(3000, "holdWatch", "cleared"), vpod(9000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 8s, 7s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 8s" + allowed, nil},
	},
	"truth: the controller has seen the API again for long": {
		check: Truth, events: script(up, rule(500, "holdWatch", "set"), uninstalled(1000, "1@a"), rule(3000, "holdWatch", "cleared"), vpod(9001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 8.001s, 7s of it during an outage"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 8.001s" + allowed, nil},
	},
	"truth: a rule that waits for requests excuses nothing": {
		check: Truth, events: script(up, rule(500, "refuse", "set"), uninstalled(1000, "1@a"), vpod(2001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.001s"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 1.001s" + allowed, nil},
	},
	"truth: the write that says so is refused": {
		check: Truth, events: script(up, rule(500, "refuse", "set"), uninstalled(1000, "1@a"), rule(1000, "refuse", "fired"), rule(1000, "refuse", "cleared"), vpod(7000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 6s, 5s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 6s" + allowed, nil},
	},
	"truth: the way of its base to the broker is held": {
		check: Truth, events: script(up, way(500, "a", "hold", "set"), uninstalled(1000, "1@a"), way(3000, "a", "hold", "cleared"), vpod(23_000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 22s, 22s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 22s" + allowed, nil},
	},
	"truth: the way of another base is held": {
		check: Truth, events: script(up, way(500, "b", "hold", "set"), uninstalled(1000, "1@a"), way(3000, "b", "hold", "cleared"), vpod(2001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.001s"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 1.001s" + allowed, nil},
	},
	"truth: messages of the controllers are only counted": {
		check: Truth, events: script(up, way(500, "", "note", "set"), uninstalled(1000, "1@a"), way(1000, "", "note", "fired"), vpod(2001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.001s"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 1.001s" + allowed, nil},
	},
	"truth: the broker never returns": {
		check: Truth, events: script(up, component(500, "broker", "exited"), uninstalled(1000, "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 59s, 59s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 59s" + allowed, nil},
	},
	"truth: the base crashes, and nobody notices its silence": {
		check: Truth, events: script(up, host(1000, "a", "down"), vpod(28_001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 27.001s, 26s of it during an outage"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 27.001s" + allowed, nil},
	},
	"truth: the base is back at once, and a list tells": {
		check: Truth, events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"), vpod(20_000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 19s, 18s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 19s" + allowed, nil},
	},
	"truth: the base is back at once, and no list counts": {
		check: Truth, events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"), biz(2000, "1@a", "RESOLVED"), vpod(20_001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 19.001s, 18s of it during an outage"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 19.001s" + allowed, nil},
	},
	"truth: a base of another identity says nothing of the one before": {
		check: Truth, events: script(identity("x", host(0, "a", "up")), onNode("vnode.x", up), host(1000, "a", "down"),
			identity("y", host(1500, "a", "up")), identity("y", host(1500, "a", "ready")), onNode("vnode.x", list{vpod(28_000, "p1", "1@a")})),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 27s, 26s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 27s" + allowed, nil},
	},
	"truth: the module goes without a word, until a list tells": {
		check: Truth, events: script(up, removed(1000, "1@a"), lost(18_000, "a"), vpod(19_500, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 18.5s, in which 1 request failed (the controller could know within 17.5s)"},
			"1 time something became Ready; Ready without its module 1 time, the longest 18.5s" + allowed, nil},
	},
	"truth: the module goes without a word, and no list counts": {
		check: Truth, events: script(up, removed(1000, "1@a"), vpod(19_501, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 18.501s (the controller could know within 17.5s)"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 18.501s" + allowed, nil},
	},
	"truth: the module goes without a word, while another version is being installed": {
		check: Truth, events: script(up, removed(1000, "1@a"), lost(1500, "a"), biz(2000, "2@a", "ACTIVATED"), command(2000, "2@a", "installBiz", "", 1800*time.Millisecond), vpod(2400, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.4s, in which 1 request failed (the controller could know within 1s)"},
			"1 time something became Ready; Ready without its module 1 time, the longest 1.4s" + allowed, nil},
	},
	"truth: the answer to that install has told, and a request is lost": {
		check: Truth, events: script(up, removed(1000, "1@a"), command(2000, "2@a", "installBiz", "User.DiskFull", 1800*time.Millisecond), lost(2200, "a"), vpod(2400, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.4s, in which 1 request failed (the controller could know within 1s)"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 1.4s" + allowed, nil},
	},
	"truth: an install takes the version before away": {
		check: Truth, events: script(up, removed(1000, "1@a"), command(1040, "2@a", "installBiz", "", 800*time.Millisecond), lost(1500, "a"), vpod(1600, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 600ms, in which 1 request failed"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 600ms" + allowed, nil},
	},
	"truth: a request for another module is lost": {
		check: Truth, events: script(up, uninstalled(1000, "1@a"), events.Event{Time: at(1010), Request: &events.RequestEvent{Base: "a", Module: events.ModuleRef{Name: "other"}}}, vpod(1020, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 20ms"},
			"1 time something became Ready; Ready without its module 1 time, the longest 20ms" + allowed, nil},
	},
	"truth: the watch tells of the Pod when its module has gone without a word": {
		check: Truth, o: Options{Delay: 500 * time.Millisecond}, events: script(installed(0, "1@a"), removed(1000, "1@a"), vpod(1200, "p1", "1@a", "ready"), lost(1300, "a"), vpod(5000, "p1", "1@a")),
		want: want{1, nil, nil, "1 time something became Ready, always with its module", nil},
	},
	"truth: a Pod turns Ready when its module has gone without a word": {
		check: Truth, o: Options{Delay: 100 * time.Millisecond}, events: script(installed(0, "1@a"), removed(1000, "1@a"), vpod(1200, "p1", "1@a", "ready"), lost(1300, "a"), vpod(5000, "p1", "1@a")),
		want: want{1, []string{"1.2s a p1: Pod p1 is Ready, and a has no active biz:1 for 3.8s, in which 1 request failed"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 3.8s" + allowed, nil},
	},
	"truth: a request is lost after the list": {
		check: Truth, events: script(up, removed(1000, "1@a"), lost(18_600, "a"), vpod(18_700, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 17.7s, in which 1 request failed (the controller could know within 17.5s)"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 17.7s" + allowed, nil},
	},
	"truth: lists are as often as the controller asks": {
		check: Truth, o: Options{ListEvery: 2 * time.Second}, events: script(up, removed(1000, "1@a"), vpod(5201, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 4.201s (the controller could know within 3.2s)"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 4.201s" + allowed, nil},
	},
	"truth: silence counts as the controller does": {
		check: Truth, o: Options{SilentAfter: 4 * time.Second}, events: script(up, host(1000, "a", "down"), vpod(7001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 6.001s, 5s of it during an outage"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 6.001s" + allowed, nil},
	},
	"truth: the base stays disconnected, and nobody notices": {
		check: Truth, events: script(up, host(500, "a", "disconnected"), uninstalled(1000, "1@a"), vpod(27_501, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 26.501s, 25.5s of it during an outage"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 26.501s" + allowed, nil},
	},
	"truth: half of the bases die": {
		check: Truth, events: script(up, host(0, "b", "up"), host(0, "c", "up"), host(0, "d", "up"), host(1000, "a", "down"), host(1000, "b", "down"), vpod(50_000, "p1", "1@a")),
		want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 49s, 49s of it during an outage"},
			"1 time something became Ready; Ready without its module 1 time, the longest 49s" + allowed, nil},
	},
	"truth: half of the bases were dead, and one stays so": {
		check: Truth, events: script(up, host(0, "b", "up"), host(0, "c", "up"), host(0, "d", "up"), host(1000, "a", "down"), host(1000, "b", "down"), host(20_000, "b", "up"), vpod(47_001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 46.001s, 45s of it during an outage"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 46.001s" + allowed, nil},
	},
	"truth: a controller is away beside another one": {
		check: Truth, events: script(up, component(400, "module-controller-2", "running"), component(500, "module-controller", "exited"), uninstalled(1000, "1@a"), vpod(34_501, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 33.501s, 32.5s of it during an outage"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 33.501s" + allowed, nil},
	},
	"truth: the scheduler writes no status": {
		check: Truth, events: script(up, component(500, "kube-scheduler", "exited"), uninstalled(1000, "1@a"), vpod(2001, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.001s"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 1.001s" + allowed, nil},
	},
	"truth: the watch was late, and it may have been in time": {
		check: Truth, o: Options{Delay: 1200 * time.Millisecond}, events: script(up, uninstalled(1000, "1@a"), vpod(2700, "p1", "1@a")),
		want: want{compared: 1, doubtful: []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.7s; events were up to 1.2s late, and with their earliest times it is no violation"},
			summary: "1 time something became Ready; Ready without its module 1 time, the longest 1.7s" + allowed},
	},
	"truth: the watch was late, and it was not in time all the same": {
		check: Truth, o: Options{Delay: 600 * time.Millisecond}, events: script(up, uninstalled(1000, "1@a"), vpod(2700, "p1", "1@a")),
		want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.7s"}, nil,
			"1 time something became Ready; Ready without its module 1 time, the longest 1.7s" + allowed, nil},
	},
	"truth: the watch tells when the module is back that the endpoint may have gone before": {
		check: Truth, o: Options{Delay: 400 * time.Millisecond}, events: script(up, endpoints(500, "p1@a"), vpod(900, "p1", "1@a"), uninstalled(1000, "1@a"), lost(1020, "a"), biz(1060, "1@a", "ACTIVATED"),
			endpoints(1300)),
		want: want{2, nil, nil, "2 times something became Ready, always with its module", nil},
	},
	"truth: and that it was there when a request failed": {
		check: Truth, o: Options{Delay: 250 * time.Millisecond}, events: script(up, endpoints(500, "p1@a"), vpod(900, "p1", "1@a"), uninstalled(1000, "1@a"), lost(1020, "a"), biz(1060, "1@a", "ACTIVATED"),
			endpoints(1300)),
		want: want{2, []string{"1s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 60ms, in which 1 request failed"}, nil,
			"2 times something became Ready; Ready without its module 1 time, the longest 60ms" + allowed, nil},
	},
	"truth: the watch was late, and a request failed meanwhile": {
		check: Truth, o: Options{Delay: 1700 * time.Millisecond}, events: script(up, uninstalled(1000, "1@a"), lost(2000, "a"), vpod(2700, "p1", "1@a")),
		want: want{compared: 1, doubtful: []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.7s, in which 1 request failed; events were up to 1.7s late, and with their earliest times it is no violation"},
			summary: "1 time something became Ready; Ready without its module 1 time, the longest 1.7s" + allowed},
	},
	"truth: a version that the Pod does not name": {
		check: Truth, events: script(installed(20, "1@a"), vpod(40, "p1", "@a", "ready")),
		want: want{1, nil, nil, "1 time something became Ready, always with its module", nil},
	},
}
