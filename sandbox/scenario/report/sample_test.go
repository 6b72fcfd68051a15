package report_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// sampleStart is when the made-up reports start.
var sampleStart = time.Date(2026, 3, 4, 9, 30, 0, 0, time.UTC)

// sampleReport returns a report with four runs: a lossless rolling update, a DaemonSet
// that deletes first and loses requests, a run that was skipped, and one that
// could not be judged.
func sampleReport() *scenario.Report {
	return &scenario.Report{
		Sandbox: "koup", Provider: "embedded", Version: "v1.36.3", Seed: 42, Started: sampleStart, Elapsed: 9412 * time.Millisecond,
		Runs: []*scenario.Run{lossless(), lossy(), skipped(), errored()},
	}
}

// lossless is a rolling update of 4 bases during which the controller is killed.
func lossless() *scenario.Run {
	r := newRollout(sampleStart.Add(120*time.Millisecond), "base", 4)
	r.step("apply", "the module in version 1", 0, 900)
	for n := range 4 {
		r.install(n, 100+20*n, "1.0.0", fmt.Sprintf("stock-6b8f7c9d5-%c%c7x2", 'a'+n, 'k'+n))
	}
	r.step("wait", "it is everywhere", 900, 1150)
	r.step("traffic", "requests through the Service and to every base", 1150, 1160)
	r.step("parallel", "the rollout and its disturbance", 1160, 3300, r.child("patch", "version 2", 1160, 1190), r.child("controller", "kill", 1700, 1710))
	for n := range 4 {
		r.update(n, 1200+450*n, "1.0.0", "2.0.0", fmt.Sprintf("stock-79d4b5f6c8-%c%c4q", 'm'+n, 'b'+n))
	}
	r.component("module-controller", "running", "", 0)
	r.component("broker", "running", "", 0)
	r.component("module-controller", "exited", "signal: killed", 1705)
	r.component("module-controller", "running", "started again", 1960)
	r.step("assert", "only version 2 is left", 3300, 5100)
	r.step("traffic", "stop", 5100, 5120)
	run := r.run(5180)
	run.Scenario, run.File = "rolling-update", "scenarios/rolling-update.yaml"
	run.Description = "A Deployment on four bases takes a new version, and no request is lost although the controller is killed half-way."
	run.Source = "Module Controller V2 document 5.6"
	run.Cell, run.Labels = map[string]any{"tunnel": "mqtt", "bases": 4}, map[string]string{"area": "rollout"}
	run.Seed, run.Namespace = 42, "rolling-update-x7k2p"
	run.Checks = []scenario.Check{
		{Name: "activeVersion", Expect: "holds", Verdict: scenario.Passed, Summary: "4 bases changed their version; the shortest overlap was 0 ms", Compared: 4},
		{Name: "truth", Expect: "holds", Verdict: scenario.Passed, Summary: "38 times something became Ready; Ready without its module 4 times, the longest 12ms (allowed: 1s once the controller can know, 5s beside another version)", Compared: 38},
		{Name: "order", Expect: "holds", Verdict: scenario.Passed, Summary: "4 times the old Pod was Not Ready first, by 6 ms at least", Compared: 4},
		{Name: "installedOnce", Expect: "holds", Verdict: scenario.Passed, Summary: "8 installs, none twice", Compared: 8},
		{Name: "nothingLeft", Expect: "holds", Verdict: scenario.Passed, Summary: "4 bases have what Pods want, and nothing else", Compared: 4},
		{Name: "podWrites", Expect: "ignored", Verdict: scenario.Passed, Summary: "8 Pods, 5 writes at most, 4.3 on average", Compared: 8},
	}
	run.Traffic = []scenario.Traffic{
		r.traffic("service", traffic.RouteKubeProxy, 1155, 5110, 200, nil, 1900, "1.0.0", "2.0.0"),
		r.traffic("bases", traffic.RouteBases, 1155, 5110, 100, nil, 1900, "1.0.0", "2.0.0"),
	}
	run.Traffic[1].Note = "stopped by itself after 396 requests"
	return run
}

// lossy is a DaemonSet that removes the old Pod before the new one is there.
func lossy() *scenario.Run {
	r := newRollout(sampleStart.Add(5400*time.Millisecond), "base", 1)
	r.component("module-controller", "running", "", 0)
	r.component("broker", "running", "", 0)
	r.step("apply", "the module in version 1", 0, 600)
	r.install(0, 80, "1.0.0", "stock-n2w8v")
	r.step("traffic", "requests to every base", 600, 605)
	r.step("fault", "installs take long", 605, 610)
	r.fault(0, "fault-1", "set", "delay 700ms of installBiz", 607)
	r.replace(0, 700, "1.0.0", "2.0.0", "stock-n2w8v", "stock-t5zzk")
	r.fault(0, "fault-1", "fired", "installBiz of stock:2.0.0 waits 700ms", 905)
	r.step("patch", "version 2", 690, 700)
	failed := r.step("traffic", "stop", 2900, 2904)
	failed.Verdict, failed.Message, failed.Line = scenario.Failed, "37 of 230 requests were lost; the judge says: lost == 0", 41
	lost := r.lost(907, 1697, 37)
	run := r.run(3004)
	run.Scenario, run.File = "daemonset-delete-first", "scenarios/daemonset-delete-first.yaml"
	run.Description = "A DaemonSet without maxSurge removes the old Pod first: the base is without the module for a while."
	run.Source, run.Namespace, run.Seed = "Module Controller V2 document 5.8", "daemonset-delete-first-b2m9q", 43
	run.Verdict, run.Attempt = scenario.Failed, 2
	run.Again = "koupsandbox scenario run --seed 42 --repeat 2 " + run.File
	run.Failure = `step "stop": 37 of 230 requests of "traffic" were lost (lost == 0), from 11:30:06.307 to 11:30:07.097`
	run.Checks = []scenario.Check{
		{Name: "activeVersion", Expect: "holds", Verdict: scenario.Failed, Summary: "1 base changed its version; the longest gap was 798 ms", Compared: 1,
			Violations: []scenario.Violation{{Time: r.at(903), Length: 798 * time.Millisecond, Base: "base-1", Pod: "stock-t5zzk",
				Message: "no active version of stock, which Pod stock-t5zzk wants"}}},
		{Name: "installedOnce", Expect: "holds", Verdict: scenario.Passed, Summary: "2 installs, none twice", Compared: 2},
	}
	run.Traffic = []scenario.Traffic{r.traffic("traffic", traffic.RouteGateway, 602, 2902, 100, lost, 1700, "1.0.0", "2.0.0")}
	run.Delay = 1200 * time.Millisecond
	run.Details = []scenario.Detail{
		{Title: "Diff of DaemonSet/stock", Text: "status.numberReady: want 1, have 0\nstatus.updatedNumberScheduled: 1"},
		{Title: "DaemonSet stock, last seen", Text: "apiVersion: apps/v1\nkind: DaemonSet\n" + strings.Repeat("# …\n", 40) + "status:\n  numberReady: 0"},
		{Title: "Events of Pod stock-t5zzk", Text: "Normal  Scheduled  assigned to vnode.c9a1\nNormal  Installing  installBiz of stock:2.0.0 <https://modules.example/stock-2.0.0-ark-biz.jar>"},
		{Title: "what the bases said last", Text: "09:30:06.303  uninstallBiz of stock:1.0.0 on base-1: ok\n09:30:07.101  installBiz of stock:2.0.0 on base-1: ok"},
	}
	return run
}

func skipped() *scenario.Run {
	return &scenario.Run{
		Scenario: "two-controllers", File: "scenarios/two-controllers.yaml", Description: "Two controllers share the bases, and one dies.",
		Attempt: 1, Verdict: scenario.Skipped, Started: sampleStart.Add(8500 * time.Millisecond), Failure: "an earlier run failed, and --fail-fast was given",
	}
}

func errored() *scenario.Run {
	at := sampleStart.Add(8600 * time.Millisecond)
	return &scenario.Run{
		Scenario: "metaspace-full", File: "scenarios/metaspace-full.yaml", Description: "A module that does not fit is refused.",
		Attempt: 1, Seed: 44, Again: "koupsandbox scenario run --seed 42 scenarios/metaspace-full.yaml", Namespace: "metaspace-full-7hh2c", Verdict: scenario.Errored, Started: at, Elapsed: 412 * time.Millisecond,
		Failure: `step "the big module": applying Deployment/big: the API server does not answer: dial tcp 127.0.0.1:43001: connection refused`,
		Steps: []*scenario.Step{{Name: "the big module", Action: "apply", Line: 17, Verdict: scenario.Errored, Started: at.Add(3 * time.Millisecond),
			Elapsed: 400 * time.Millisecond, Message: "dial tcp 127.0.0.1:43001: connection refused"}},
	}
}

// lost makes up n lost requests between two moments.
func (r *rollout) lost(from, to, n int) []traffic.Record {
	var records []traffic.Record
	for i := range n {
		at := r.at(from + (to-from)*i/n)
		records = append(records, traffic.Record{
			Seq: uint64(32 + i), Due: at, Sent: at, Done: at.Add(900 * time.Microsecond), Endpoint: "127.0.0.1:36511", Base: "base-1",
			Result: traffic.NotFound, Status: 404, Error: `404: no active biz "stock"`,
		})
	}
	return records
}
