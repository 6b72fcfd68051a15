package bench

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
)

// requestDuration is the API server's histogram of the time from a request to the end of its answer.
const requestDuration = "apiserver_request_duration_seconds"

// longRunning are requests whose time says nothing of the server, as clusterloader2 leaves them out; CONNECT
// is how the server counts some of the subresources.
var longRunning = struct{ verbs, subresources []string }{
	[]string{"WATCH", "WATCHLIST", "CONNECT"}, []string{"log", "exec", "portforward", "attach", "proxy"},
}

// call is a kind of request.
type call struct{ verb, resource, subresource, scope string }

// histogram counts requests by the upper bounds of their time in seconds; each count has those of the
// smaller bounds in it.
type histogram struct {
	count   float64
	buckets map[float64]float64
}

// calls reads the histograms of requests for resources.
func calls(m Metrics) map[call]histogram {
	all := map[call]histogram{}
	for _, metric := range m[requestDuration].GetMetric() {
		l := LabelsOf(metric)
		key := call{l["verb"], l["resource"], l["subresource"], l["scope"]}
		if key.resource == "" || slices.Contains(longRunning.verbs, key.verb) || slices.Contains(longRunning.subresources, key.subresource) {
			continue
		}
		h, known := all[key]
		if !known {
			h.buckets = map[float64]float64{}
		}
		h.count += float64(metric.GetHistogram().GetSampleCount())
		for _, b := range metric.GetHistogram().GetBucket() {
			h.buckets[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
		all[key] = h
	}
	return all
}

// minus is what was counted after before.
func (h histogram) minus(before histogram) histogram {
	d := histogram{count: h.count - before.count, buckets: map[float64]float64{}}
	for bound, n := range h.buckets {
		d.buckets[bound] = n - before.buckets[bound]
	}
	return d
}

// quantile is that of Prometheus' histogram_quantile, in seconds: within a bucket the requests are taken to
// lie evenly, and what is above the last bound counts as that bound.
func (h histogram) quantile(q float64) float64 {
	rank := q * h.count
	lower, below := 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(h.buckets)) {
		if math.IsInf(bound, 1) {
			break
		}
		if n := h.buckets[bound]; n >= rank && n > below {
			return lower + (bound-lower)*(rank-below)/(n-below)
		}
		lower, below = bound, h.buckets[bound]
	}
	return lower
}

// responsiveness is how long the requests took that came between two looks at the API server, the slowest
// kinds first. It is false if a counter went back: the server began anew, or another one answered.
func responsiveness(before, after Metrics) (items []Item, ok bool) {
	earlier, later := calls(before), calls(after)
	for key, h := range earlier {
		if later[key].count < h.count {
			return nil, false
		}
	}
	for key, h := range later {
		d := h.minus(earlier[key])
		if d.count == 0 {
			continue
		}
		item := Item{Measurement: Responsiveness, Unit: milliseconds, Data: map[string]float64{}, Labels: map[string]string{
			verbLabel: key.verb, resourceLabel: key.resource, subLabel: key.subresource, scopeLabel: key.scope,
			countLabel: strconv.FormatFloat(d.count, 'f', -1, 64)}}
		for _, p := range shares {
			item.Data[p.name] = math.Round(d.quantile(p.share/100)*1e6) / 1e3 // whole µs: no digits that mean nothing
		}
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(b.Data[Perc99], a.Data[Perc99]), cmp.Compare(a.Name(), b.Name()))
	})
	return items, true
}
