package bench

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"golang.org/x/perf/benchfmt"
)

const requestMeasure = measureKey + "api_request"

// requestDuration is the API server histogram that measures the duration of each request until the end of the
// response.
const requestDuration = "apiserver_request_duration_seconds"

// longRunning lists long-running requests, such as watches, that are not measured, because their duration does not
// depend on the API server. clusterloader2 ignores the same requests. The API server reports some of the subresources
// with the verb CONNECT.
var longRunning = struct{ verbs, subresources []string }{
	[]string{"WATCH", "WATCHLIST", "CONNECT"}, []string{"log", "exec", "portforward", "attach", "proxy"},
}

type requestKind struct{ verb, resource, subresource, scope string }

// histogram holds the cumulative number of requests for each bucket. The keys are the upper bounds of the buckets, in
// seconds.
type histogram struct {
	count   float64
	buckets map[float64]float64
}

func requestCounts(m Metrics) map[requestKind]histogram {
	all := map[requestKind]histogram{}
	for _, metric := range m[requestDuration].GetMetric() {
		l := LabelsOf(metric)
		key := requestKind{l["verb"], l["resource"], l["subresource"], l["scope"]}
		if key.resource == "" || slices.Contains(longRunning.verbs, key.verb) ||
			slices.Contains(longRunning.subresources, key.subresource) {
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

func (h histogram) minus(before histogram) histogram {
	d := histogram{count: h.count - before.count, buckets: map[float64]float64{}}
	for bound, n := range h.buckets {
		d.buckets[bound] = n - before.buckets[bound]
	}
	return d
}

// quantile returns the quantile q in seconds. As in histogram_quantile of Prometheus, it interpolates linearly within
// a bucket, and returns the last bound if the quantile is above it.
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

// responsiveness returns the durations of the requests between the metrics before and after, with the slowest kinds
// of requests first. It returns false if a counter decreased, because the API server was restarted or another API
// server responded.
func responsiveness(before, after Metrics) (results []*benchfmt.Result, ok bool) {
	earlier, later := requestCounts(before), requestCounts(after)
	for key, h := range earlier {
		if later[key].count < h.count {
			return nil, false
		}
	}
	slowest := map[*benchfmt.Result]float64{}
	for key, h := range later {
		d := h.minus(earlier[key])
		if d.count == 0 {
			continue
		}
		r := percentiles(key.name(), milliseconds, int(d.count),
			func(share float64) float64 { return d.quantile(share/100) * 1e3 })
		slowest[r] = d.quantile(0.99)
		results = append(results, r)
	}
	slices.SortFunc(results, func(a, b *benchfmt.Result) int {
		return cmp.Or(cmp.Compare(slowest[b], slowest[a]), cmp.Compare(a.Name.String(), b.Name.String()))
	})
	return results, true
}

// name returns the part of a benchmark name that identifies the kind of request, such as
// /measure=api_request/verb=PATCH/resource=pods/subresource=status/scope=resource.
func (c requestKind) name() string {
	name := requestMeasure
	for _, part := range [][2]string{{"verb", c.verb}, {"resource", c.resource}, {"subresource", c.subresource},
		{"scope", c.scope}} {
		if part[1] != "" {
			name += "/" + part[0] + "=" + part[1]
		}
	}
	return name
}
