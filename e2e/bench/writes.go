package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
)

// writes counts writes to the API by who counted them and what was written, such as "PATCH pods/status".
type writes struct {
	controller, total map[string]float64
}

// writesOf reads what the controller has sent so far and what the API server has got.
func (b *bench) writesOf(ctx context.Context, client kubernetes.Interface) (writes, error) {
	sent, err := b.ControllerMetrics(ctx)
	if err != nil {
		return writes{}, err
	}
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return writes{}, fmt.Errorf("asking the API server for its metrics: %w", err)
	}
	got, err := box.ParseMetrics(bytes.NewReader(text))
	if err != nil {
		return writes{}, err
	}
	return writes{
		controller: count(sent, "module_controller_api_requests_total", "method", "resource"),
		total:      count(got, "apiserver_request_total", "verb", "resource", "subresource"),
	}, nil
}

// writing are the verbs that change something.
var writing = []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}

// count adds a counter up by verb and what it is about.
func count(m box.Metrics, name, verb string, about ...string) map[string]float64 {
	counts := map[string]float64{}
	m.Sum(name, func(labels map[string]string) bool {
		if !slices.Contains(writing, labels[verb]) {
			return false
		}
		key := labels[verb] + " " + labels[about[0]]
		if len(about) > 1 && labels[about[1]] != "" {
			key += "/" + labels[about[1]]
		}
		if _, seen := counts[key]; !seen {
			counts[key] = m.Sum(name, func(other map[string]string) bool {
				same := other[verb] == labels[verb]
				for _, label := range about {
					same = same && other[label] == labels[label]
				}
				return same
			})
		}
		return true
	})
	return counts
}

// since is what was written after before; what was not written is left out.
func (w writes) since(before writes) writes {
	return writes{minus(w.controller, before.controller), minus(w.total, before.total)}
}

func minus(a, b map[string]float64) map[string]float64 {
	left := map[string]float64{}
	for k, v := range a {
		if d := v - b[k]; d > 0 {
			left[k] = d
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
	sum := 0.0
	for kind, v := range counts {
		if !slices.Contains(upkeep, kind) {
			sum += v
		}
	}
	b.note(fmt.Sprintf("API writes %s, without leases and events", who), sum/n, each)
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
