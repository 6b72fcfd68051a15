package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"

	levels "github.com/koupleless/koupsandbox/sandbox/bench"
)

// writes counts writes to the API by what was written, such as "PATCH pods/status": those that the
// controller has sent, and all that the API server has got.
type writes struct {
	controller, total map[string]float64
}

// writesOf reads the counters.
func (b *bench) writesOf(ctx context.Context, client kubernetes.Interface) (writes, error) {
	sent, err := b.ControllerMetrics(ctx)
	if err != nil {
		return writes{}, err
	}
	got, err := levels.APIMetrics(ctx, client.Discovery().RESTClient())
	return writes{count(sent, "module_controller_api_requests_total", "method"), count(got, "apiserver_request_total", "verb")}, err
}

// writing are the verbs that change something.
var writing = []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}

// count adds a counter up by verb and what it is about.
func count(m levels.Metrics, name, verb string) map[string]float64 {
	counts := map[string]float64{}
	for _, metric := range m[name].GetMetric() {
		labels := levels.LabelsOf(metric)
		if slices.Contains(writing, labels[verb]) {
			about := strings.TrimSuffix(labels["resource"]+"/"+labels["subresource"], "/")
			counts[labels[verb]+" "+about] += metric.GetCounter().GetValue()
		}
	}
	return counts
}

// since is what was written after before.
func (w writes) since(before writes) writes {
	return writes{minus(w.controller, before.controller), minus(w.total, before.total)}
}

func minus(a, b map[string]float64) map[string]float64 {
	left := map[string]float64{}
	for k, v := range a {
		if v > b[k] {
			left[k] = v - b[k]
		}
	}
	return left
}

// upkeep is written whether anything changes or not, or tells what has changed:
// it is shown, and left out of the writes that a Pod costs.
var upkeep = []string{
	"PUT leases", "PATCH leases", "POST leases", "POST events", "PATCH events", "POST subjectaccessreviews", "POST tokenreviews",
	"POST selfsubjectaccessreviews",
}

// noteWrites adds figures of writes for each of n things: the sum without upkeep, and each kind.
func (b *bench) noteWrites(who string, counts map[string]float64, n float64, each string) {
	costs := maps.Clone(counts)
	maps.DeleteFunc(costs, func(kind string, _ float64) bool { return slices.Contains(upkeep, kind) })
	b.note(fmt.Sprintf("API writes %s, without leases and events", who), sum(costs)/n, each)
	b.noteKinds(counts, n, 0.01, each)
}

// noteKinds adds a figure for each kind of write of which there are at least
// least for each of n things, the most frequent first.
func (b *bench) noteKinds(counts map[string]float64, n, least float64, each string) {
	kinds := slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
	for _, kind := range kinds {
		if counts[kind]/n >= least {
			b.note("  "+kind, counts[kind]/n, each)
		}
	}
}

func sum(counts map[string]float64) float64 {
	total := 0.0
	for _, v := range counts {
		total += v
	}
	return total
}
