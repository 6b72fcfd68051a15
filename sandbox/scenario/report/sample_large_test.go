package report_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// largeRun returns a run with about that many events for each base, spread over a
// time: modules that change their state, Pods, commands, endpoints and requests
// that are lost.
func largeRun(bases, perBase int, length time.Duration) *scenario.Run {
	r := newRollout(sampleStart, "base", bases)
	total := int(length.Milliseconds())
	rounds := max(1, perBase/10) // an update and its removal are ten events that stay with their base
	for n := range bases {
		for i := range rounds {
			ms := 100 + n*7 + (total-400)*i/rounds
			version := fmt.Sprintf("1.0.%d", i%12)
			pod := fmt.Sprintf("stock-%d-%d", n+1, i)
			r.pod(n, ms, pod, version, func(*events.PodState) {})
			r.pod(n, ms+1, pod, version, bound(n, false, "Installing"))
			r.command(n, ms+1, 1, "installBiz", version)
			r.module(n, ms+1, version, "RESOLVED", "ACTIVATED")
			r.pod(n, ms+3, pod, version, bound(n, true, ""))
			r.remove(n, ms+4, 1, version, pod)
		}
	}
	for ms := 0; ms < total; ms += 50 {
		r.endpoint(ms/50%bases%64, ms, "stock", ms%100 == 0)
	}
	lost := r.lost(1000, total, 1000)
	run := r.run(total)
	run.Scenario, run.File, run.Description, run.Namespace = "large", "large.yaml", "Many bases and many events.", "large-aaaaa"
	run.Traffic = []scenario.Traffic{r.traffic("traffic", traffic.RouteGateway, 0, total, 500, lost, total/2, "1.0.0", "1.0.1")}
	run.Verdict, run.Failure = scenario.Failed, "1000 requests were lost"
	return run
}

func sortEvents(all []events.Event) {
	slices.SortStableFunc(all, func(a, b events.Event) int { return a.Time.Compare(b.Time) })
}
