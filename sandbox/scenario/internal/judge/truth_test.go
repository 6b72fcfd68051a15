package judge

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

var truthCases = map[string]checkCase{
	"truth: a lossless update": {
		events: rolling,
		want:   Result{Compared: 6, Excused: findings{ready(1020, 10).replaced(), endpoint(1020, 20).replaced()}},
	},
	"truth: Ready too early, and a request fails": {
		events: script(vpod(10, "p1", "1@a", "ready"), lost(15, "a"), lost(15, "b"), installed(20, "1@a")),
		want:   Result{Compared: 1, Violations: findings{ready(10, 20).failed(1)}},
	},
	"truth: Ready too long": {
		events: script(up, uninstalled(1000, "1@a"), vpod(2001, "p1", "1@a")),
		want:   Result{Compared: 1, Violations: findings{ready(1000, 1001)}},
	},
	"truth: Ready without the module within the tolerance": {
		events: script(up, uninstalled(1000, "1@a"), vpod(2000, "p1", "1@a")),
		want:   Result{Compared: 1, Excused: findings{ready(1000, 1000)}},
	},
	"truth: the endpoint stays ready": {
		events: script(up, endpoints(50, "p1@a"), uninstalled(1000, "1@a"), vpod(1010, "p1", "1@a")),
		want:   Result{Compared: 2, Violations: findings{endpoint(1000, 59_000)}, Excused: findings{ready(1000, 10)}},
	},
	"truth: a Pod that is being deleted": {
		events: script(up, vpod(900, "p1", "1@a", "ready", "deleting"), uninstalled(1000, "1@a")),
		want:   Result{Compared: 1},
	},
	"truth: a Service with publishNotReadyAddresses": {
		events: script(host(0, "a", "up"), host(1, "a", "ready"), vpod(10, "p1", "1@a"), published(20, false),
			lost(2500, "a"), installed(3000, "1@a"),
			vpod(3010, "p1", "1@a", "ready"), endpoints(3015, "p1@a"), vpod(4000, "p1", "1@a", "deleting"),
			published(4010, true), uninstalled(4100, "1@a")),
		want: Result{Compared: 2, Published: []string{"svc"}},
	},
	"truth: Ready without the module, and a Service with publishNotReadyAddresses": {
		events: script(up, published(50, false), uninstalled(1000, "1@a"), vpod(2001, "p1", "1@a")),
		want:   Result{Compared: 1, Published: []string{"svc"}, Violations: findings{ready(1000, 1001)}},
	},
	"truth: the base crashes": {
		events: script(up, host(1000, "a", "down"), lost(2000, "a"), vpod(26000, "p1", "1@a")),
		want:   Result{Compared: 1, Excused: findings{ready(1000, 25_000).failed(1).allowed(25_000)}},
	},
	"truth: an endpoint turns ready after the base restarted": {
		events: script(up, host(1000, "a", "down"), host(1100, "a", "ready"), endpoints(1200, "p1@a"), lost(1300, "a"),
			vpod(3000, "p1", "1@a"), endpoints(3010)),
		want: Result{Compared: 2, Excused: findings{
			ready(1000, 2000).failed(1).allowed(2000), endpoint(1200, 1810).failed(1).allowed(1810),
		}},
	},
	"truth: the Pod turns Not Ready in time, and its endpoint follows": {
		events: script(up, endpoints(50, "p1@a"), host(1000, "a", "down"), host(1100, "a", "ready"),
			vpod(18_000, "p1", "1@a"), lost(18_800, "a"), endpoints(19_000)),
		want: Result{Compared: 2, Excused: findings{
			ready(1000, 17_000).allowed(17_000), endpoint(1000, 18_000).failed(1).allowed(17_600),
		}},
	},
	"truth: a command uninstalls the module of an endpoint": {
		events: script(up, endpoints(50, "p1@a"), vpod(990, "p1", "1@a"), uninstalled(1000, "1@a"), lost(1100, "a"),
			endpoints(1200)),
		want: Result{Compared: 2, Violations: findings{endpoint(1000, 200).failed(1)}},
	},
	"truth: an endpoint turns ready after an uninstall": {
		events: script(up, uninstalled(1000, "1@a"), endpoints(1500, "p1@a"), vpod(1900, "p1", "1@a"), endpoints(2600)),
		want:   Result{Compared: 2, Violations: findings{endpoint(1500, 1100)}, Excused: findings{ready(1000, 900)}},
	},
	"truth: an endpoint turns ready after a module disappeared": {
		events: script(up, removed(1000, "1@a"), endpoints(2000, "p1@a"), lost(3000, "a"), vpod(19500, "p1", "1@a"),
			endpoints(19501)),
		want: Result{
			Compared:   2,
			Violations: findings{endpoint(2000, 17_501).failed(1).known(16_500)},
			Excused:    findings{ready(1000, 18_500).failed(1).known(17_500)},
		},
	},
	"truth: an endpoint turns ready when the controller detects the mismatch": {
		events: script(up, host(1000, "a", "down"), endpoints(26500, "p1@a"), vpod(27000, "p1", "1@a"),
			endpoints(27500)),
		want: Result{Compared: 2, Excused: findings{
			ready(1000, 26_000).allowed(26_000), endpoint(26_500, 1000).allowed(500),
		}},
	},
	"truth: an endpoint turns ready after the controller detects the mismatch": {
		events: script(up, host(1000, "a", "down"), lost(27200, "a"), endpoints(27500, "p1@a"),
			vpod(27900, "p1", "1@a"), endpoints(28500)),
		want: Result{
			Compared:   2,
			Violations: findings{ready(1000, 26_900).failed(1).allowed(26_000)},
			Excused:    findings{endpoint(27_500, 1000)},
		},
	},
	"truth: a request in flight": {
		events: script(up, uninstalled(1000, "1@a"), vpod(1020, "p1", "1@a"),
			events.Event{Time: at(1500),
				Request: &events.RequestEvent{Base: "a", Module: events.ModuleRef{Name: "biz"},
					Elapsed: 490 * time.Millisecond}}),
		want: violated(ready(1000, 20).failed(1)),
	},
	"truth: a request without a response": {
		events: script(up, uninstalled(1000, "1@a"), vpod(1020, "p1", "1@a"),
			events.Event{Time: at(1500),
				Request: &events.RequestEvent{Base: "a", Module: events.ModuleRef{Name: "biz"}, Result: "timeout",
					Elapsed: 490 * time.Millisecond}}),
		want: excused(ready(1000, 20)),
	},
	"truth: a later request": {
		events: script(up, uninstalled(1000, "1@a"), vpod(1020, "p1", "1@a"),
			events.Event{Time: at(1500),
				Request: &events.RequestEvent{Base: "a", Module: events.ModuleRef{Name: "biz"},
					Elapsed: 470 * time.Millisecond}}),
		want: excused(ready(1000, 20)),
	},
	"truth: the base crashes while its module is missing": {
		events: script(up, uninstalled(1000, "1@a"), host(1010, "a", "down"), vpod(26000, "p1", "1@a")),
		want:   Result{Compared: 1, Excused: findings{ready(1000, 25_000).allowed(24_990)}},
	},
	"truth: an endpoint that is not ready": {
		events: script(vpod(10, "p1", "1@a"),
			events.Event{Time: at(20),
				Endpoints: &events.EndpointsEvent{Service: "svc",
					Endpoints: []events.Endpoint{{Pod: "p1", Base: "a", Serving: true, Terminating: true}}}}),
		want: Result{},
	},
	"truth: Ready long after a switch": {
		events: script(up, switched(1000, "a"), vpod(6000, "p1", "1@a")),
		want:   Result{Compared: 1, Excused: findings{ready(1000, 5000).replaced()}},
	},
	"truth: Ready too long after a switch": {
		events: script(up, switched(1000, "a"), vpod(6001, "p1", "1@a")),
		want:   Result{Compared: 1, Violations: findings{ready(1000, 5001).replaced()}},
	},
	"truth: the other active version disappears": {
		events: script(up, switched(1000, "a"), removed(1200, "2@a"), lost(1250, "a"), vpod(1300, "p1", "1@a")),
		want:   excused(ready(1000, 200).replaced(), ready(1200, 100).failed(1).known(17_500)),
	},
	"truth: the other active version is uninstalled": {
		events: script(up, switched(1000, "a"), uninstalled(1200, "2@a"), lost(1250, "a"), vpod(1300, "p1", "1@a")),
		want: Result{
			Compared:   1,
			Violations: findings{ready(1200, 100).failed(1)},
			Excused:    findings{ready(1000, 200).replaced()},
		},
	},
	"truth: superseded during a long install": {
		events: script(up, vpod(900, "p2", "2@a"), switched(1000, "a"), vpod(1000, "p2", "2@a", "deleting"),
			vpod(36_000, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 35_000).replaced()}},
	},
	"truth: superseded for too long": {
		events: script(up, vpod(900, "p2", "2@a"), switched(1000, "a"), vpod(1000, "p2", "2@a", "deleting"),
			vpod(36_001, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 35_001).replaced()}},
	},
	"truth: superseded, until a Pod requests the active version": {
		events: script(up, vpod(900, "p2", "2@a"), switched(1000, "a"), vpod(1000, "p2", "2@a", "deleting"),
			vpod(2000, "p3", "2@a"), vpod(7001, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 6001).replaced()}},
	},
	"truth: no version is active after a while": {
		events: script(up, switched(1000, "a"), uninstalled(1500, "2@a"), vpod(2501, "p1", "1@a")),
		want: Result{
			Compared:   1,
			Violations: findings{ready(1500, 1001)},
			Excused:    findings{ready(1000, 500).replaced()},
		},
	},
	"truth: the controller is unavailable": {
		events: script(up, component(500, "module-controller", "exited"), uninstalled(1000, "1@a"),
			component(3000, "module-controller", "running"), vpod(36_500, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 35_500).allowed(35_000)}},
	},
	"truth: the controller recovers too slowly": {
		events: script(up, component(500, "module-controller", "exited"), uninstalled(1000, "1@a"),
			component(3000, "module-controller", "running"), vpod(37_500, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 36_500).allowed(35_000)}},
	},
	"truth: the controller recovered and received a list": {
		events: script(up, component(500, "module-controller", "exited"), uninstalled(1000, "1@a"),
			component(3000, "module-controller", "running"), asked(4000, "a"), asked(8000, "b"),
			vpod(10_000, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 9000).allowed(8000)}},
	},
	"truth: the controller received a list after its recovery and is too slow": {
		events: script(up, component(500, "module-controller", "exited"), uninstalled(1000, "1@a"),
			component(3000, "module-controller", "running"), asked(4000, "a"), asked(8000, "a"),
			vpod(10_001, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 9001).allowed(8000)}},
	},
	"truth: a list does not end the recovery of the API server": {
		events: script(up, component(500, "kube-apiserver", "exited"), uninstalled(1000, "1@a"),
			component(3000, "kube-apiserver", "running"), asked(4000, "a"), vpod(20_000, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 19_000).allowed(19_000)}},
	},
	"truth: the process of a killed API server exits late": {
		events: script(up, component(500, "kube-apiserver", "stopping"), uninstalled(1000, "1@a"),
			component(15_000, "kube-apiserver", "exited"), component(16_000, "kube-apiserver", "running"),
			vpod(20_000, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 19_000).allowed(19_000)}},
	},
	"truth: another base is disconnected": {
		events: script(up, host(500, "b", "disconnected"), uninstalled(1000, "1@a"), vpod(2500, "p1", "1@a")),
		want:   Result{Compared: 1, Violations: findings{ready(1000, 1500)}},
	},
	"truth: the base is disconnected twice": {
		events: script(up, uninstalled(1000, "1@a"), host(1100, "a", "disconnected"), host(1200, "a", "connected"),
			host(2000, "a", "disconnected"), host(3000, "a", "connected"), vpod(23_800, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 22_800).allowed(21_900)}},
	},
	"truth: the controller has an outdated view of the API": {
		events: script(up, apiFaultEvent(500, "holdWatch", "set"), apiFaultEvent(600, "holdWatch", "fired"),
			uninstalled(1000, "1@a"),
			apiFaultEvent(3000, "holdWatch", "cleared"), vpod(9000, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 8000).allowed(7000)}},
	},
	"truth: the view of the API was current again for a long time": {
		events: script(up, apiFaultEvent(500, "holdWatch", "set"), uninstalled(1000, "1@a"), apiFaultEvent(3000,
			"holdWatch", "cleared"),
			vpod(9001, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 8001).allowed(7000)}},
	},
	"truth: an API fault that is not triggered is no excuse": {
		events: script(up, apiFaultEvent(500, "refuse", "set"), uninstalled(1000, "1@a"), vpod(2001, "p1", "1@a")),
		want:   Result{Compared: 1, Violations: findings{ready(1000, 1001)}},
	},
	"truth: the status write is rejected": {
		events: script(up, apiFaultEvent(500, "refuse", "set"), uninstalled(1000, "1@a"), apiFaultEvent(1000, "refuse",
			"fired"),
			apiFaultEvent(1000, "refuse", "cleared"), vpod(7000, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 6000).allowed(5000)}},
	},
	"truth: the broker connection of the base is paused": {
		events: script(up, mqttFaultEvent(500, "a", "hold", "set"), uninstalled(1000, "1@a"), mqttFaultEvent(3000, "a",
			"hold", "cleared"),
			vpod(23_000, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 22_000).allowed(22_000)}},
	},
	"truth: the broker connection of another base is paused": {
		events: script(up, mqttFaultEvent(500, "b", "hold", "set"), uninstalled(1000, "1@a"), mqttFaultEvent(3000, "b",
			"hold", "cleared"),
			vpod(2001, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 1001)}},
	},
	"truth: messages of the controllers are only counted": {
		events: script(up, mqttFaultEvent(500, "", "note", "set"), uninstalled(1000, "1@a"), mqttFaultEvent(1000, "",
			"note", "fired"),
			vpod(2001, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 1001)}},
	},
	"truth: the broker never returns": {
		events: script(up, component(500, "broker", "exited"), uninstalled(1000, "1@a")),
		want:   Result{Compared: 1, Excused: findings{ready(1000, 59_000).allowed(59_000)}},
	},
	"truth: the base crashes, and the controller does not detect it": {
		events: script(up, host(1000, "a", "down"), vpod(28_001, "p1", "1@a")),
		want:   Result{Compared: 1, Violations: findings{ready(1000, 27_001).allowed(26_000)}},
	},
	"truth: the base restarts immediately, and a list arrives": {
		events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"),
			vpod(20_000, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 19_000).allowed(18_000)}},
	},
	"truth: the base restarts immediately, and lists are ignored": {
		events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"),
			biz(2000, "1@a", "RESOLVED"), vpod(20_001, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 19_001).allowed(18_000)}},
	},
	"truth: a base with another identity does not end the outage": {
		events: script(identity("x", host(0, "a", "up")), onNode("vnode.x", up), host(1000, "a", "down"),
			identity("y", host(1500, "a", "up")), identity("y", host(1500, "a", "ready")),
			onNode("vnode.x", list{vpod(28_000, "p1", "1@a")})),
		want: excused(ready(1000, 27_000).allowed(26_000)),
	},
	"truth: the module disappears, and a list arrives": {
		events: script(up, removed(1000, "1@a"), lost(18_000, "a"), vpod(19_500, "p1", "1@a")),
		want:   Result{Compared: 1, Excused: findings{ready(1000, 18_500).failed(1).known(17_500)}},
	},
	"truth: the module disappears, and lists are ignored": {
		events: script(up, removed(1000, "1@a"), vpod(19_501, "p1", "1@a")),
		want:   Result{Compared: 1, Violations: findings{ready(1000, 18_501).known(17_500)}},
	},
	"truth: the module disappears while another version is being installed": {
		events: script(up, removed(1000, "1@a"), lost(1500, "a"), biz(2000, "2@a", "ACTIVATED"),
			command(2000, "2@a", "installBiz", "", 1800*time.Millisecond), vpod(2400, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 1400).failed(1).known(1000)}},
	},
	"truth: a request fails after the response of that install": {
		events: script(up, removed(1000, "1@a"),
			command(2000, "2@a", "installBiz", "User.DiskFull", 1800*time.Millisecond), lost(2200, "a"),
			vpod(2400, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 1400).failed(1).known(1000)}},
	},
	"truth: an install removes the earlier version": {
		events: script(up, removed(1000, "1@a"), command(1040, "2@a", "installBiz", "", 800*time.Millisecond),
			lost(1500, "a"), vpod(1600, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 600).failed(1)}},
	},
	"truth: a request for another module fails": {
		events: script(up, uninstalled(1000, "1@a"),
			events.Event{Time: at(1010),
				Request: &events.RequestEvent{Base: "a", Module: events.ModuleRef{Name: "other"}}},
			vpod(1020, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 20)}},
	},
	"truth: the Pod event arrives after its module disappeared": {
		o: Options{Delay: 500 * time.Millisecond},
		events: script(installed(0, "1@a"), removed(1000, "1@a"), vpod(1200, "p1", "1@a", "ready"), lost(1300, "a"),
			vpod(5000, "p1", "1@a")),
		want: Result{Compared: 1},
	},
	"truth: a Pod turns Ready after its module disappeared": {
		o: Options{Delay: 100 * time.Millisecond},
		events: script(installed(0, "1@a"), removed(1000, "1@a"), vpod(1200, "p1", "1@a", "ready"), lost(1300, "a"),
			vpod(5000, "p1", "1@a")),
		want: violated(ready(1200, 3800).failed(1)),
	},
	"truth: a request fails after the list": {
		events: script(up, removed(1000, "1@a"), lost(18_600, "a"), vpod(18_700, "p1", "1@a")),
		want:   Result{Compared: 1, Violations: findings{ready(1000, 17_700).failed(1).known(17_500)}},
	},
	"truth: the list interval of the options": {
		o: Options{ListInterval: 2 * time.Second}, events: script(up, removed(1000, "1@a"), vpod(5201, "p1", "1@a")),
		want: violated(ready(1000, 4201).known(3200)),
	},
	"truth: the unreachable timeout of the options": {
		o:      Options{UnreachableAfter: 4 * time.Second},
		events: script(up, host(1000, "a", "down"), vpod(7001, "p1", "1@a")),
		want:   violated(ready(1000, 6001).allowed(5000)),
	},
	"truth: the base stays disconnected, and the controller does not detect it": {
		events: script(up, host(500, "a", "disconnected"), uninstalled(1000, "1@a"), vpod(27_501, "p1", "1@a")),
		want:   Result{Compared: 1, Violations: findings{ready(1000, 26_501).allowed(25_500)}},
	},
	"truth: most bases crash": {
		events: script(up, host(0, "b", "up"), host(0, "c", "up"), host(1000, "a", "down"), host(1000, "b", "down"),
			vpod(50_000, "p1", "1@a")),
		want: Result{Compared: 1, Excused: findings{ready(1000, 49_000).allowed(49_000)}},
	},
	"truth: most bases crashed, and one restarts": {
		events: script(up, host(0, "b", "up"), host(0, "c", "up"), host(1000, "a", "down"), host(1000, "b", "down"),
			host(20_000, "b", "up"), vpod(47_001, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 46_001).allowed(45_000)}},
	},
	"truth: one of two controllers is unavailable": {
		events: script(up, component(400, "module-controller-2", "running"),
			component(500, "module-controller", "exited"), uninstalled(1000, "1@a"), vpod(34_501, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 33_501).allowed(32_500)}},
	},
	"truth: the scheduler is unavailable": {
		events: script(up, component(500, "kube-scheduler", "exited"), uninstalled(1000, "1@a"),
			vpod(2001, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{ready(1000, 1001)}},
	},
	"truth: a late event that may have been in time": {
		o:      Options{Delay: 1200 * time.Millisecond},
		events: script(up, uninstalled(1000, "1@a"), vpod(2700, "p1", "1@a")),
		want:   Result{Compared: 1, Doubtful: findings{ready(1000, 1700).late(1200)}},
	},
	"truth: a late event that was not in time": {
		o:      Options{Delay: 600 * time.Millisecond},
		events: script(up, uninstalled(1000, "1@a"), vpod(2700, "p1", "1@a")),
		want:   violated(ready(1000, 1700)),
	},
	"truth: a late event of an endpoint that may have turned not ready before": {
		o: Options{Delay: 400 * time.Millisecond},
		events: script(up, endpoints(500, "p1@a"), vpod(900, "p1", "1@a"), uninstalled(1000, "1@a"), lost(1020, "a"),
			biz(1060, "1@a", "ACTIVATED"),
			endpoints(1300)),
		want: Result{Compared: 2},
	},
	"truth: a late event of an endpoint that was ready when a request failed": {
		o: Options{Delay: 250 * time.Millisecond},
		events: script(up, endpoints(500, "p1@a"), vpod(900, "p1", "1@a"), uninstalled(1000, "1@a"), lost(1020, "a"),
			biz(1060, "1@a", "ACTIVATED"),
			endpoints(1300)),
		want: Result{Compared: 2, Violations: findings{endpoint(1000, 60).failed(1)}},
	},
	"truth: a late event, and a request failed before it": {
		o:      Options{Delay: 1700 * time.Millisecond},
		events: script(up, uninstalled(1000, "1@a"), lost(2000, "a"), vpod(2700, "p1", "1@a")),
		want:   Result{Compared: 1, Doubtful: findings{ready(1000, 1700).failed(1).late(1700)}},
	},
	"truth: a Pod without a version": {
		events: script(installed(20, "1@a"), vpod(40, "p1", "@a", "ready")),
		want:   Result{Compared: 1},
	},
}
