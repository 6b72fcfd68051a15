package traffic

import (
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// chunk is the number of records that are allocated together. Allocating records in chunks avoids copying them when
// the log grows.
const chunk = 4096

// requestLog stores every request of a stream. Its methods may be called concurrently.
type requestLog struct {
	start time.Time

	mu       sync.Mutex
	chunks   []*[chunk]Record // records; Result is empty while a request is in flight
	started  int
	finished int
	results  map[Result]int
	versions map[string]int
	late     time.Duration
	// reference is the time at which the pending reference request was sent; zero if no reference request is pending.
	reference time.Time
	slowest   time.Duration
	// latencies is a histogram of the latencies of OK requests in microseconds, with three significant digits.
	latencies *hdrhistogram.Histogram
}

func newRequestLog(start time.Time) *requestLog {
	// longest is the upper limit of the latencies. A latency is at most the timeout of a stream plus the delay of the
	// generator.
	const longest = 10 * time.Minute
	return &requestLog{
		start: start, results: map[Result]int{}, versions: map[string]int{},
		latencies: hdrhistogram.New(1, longest.Microseconds(), 3),
	}
}

// begin adds a request that is due, and returns its index in the log, from 0.
func (l *requestLog) begin(due time.Duration) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.started
	if n%chunk == 0 {
		l.chunks = append(l.chunks, new([chunk]Record))
	}
	l.started++
	*l.at(n) = Record{Seq: uint64(n + 1), Due: l.start.Add(due)} //nolint:gosec // it counts from 0
	return n
}

func (l *requestLog) at(n int) *Record { return &l.chunks[n/chunk][n%chunk] }

// lostSoFar returns the number of lost requests. The caller must hold l.mu.
func (l *requestLog) lostSoFar() int { return l.finished - l.results[OK] }

// finish records the result of request n. It returns the record with Seq and Due filled in, and the number of
// requests that were lost so far.
func (l *requestLog) finish(n int, r Record) (Record, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Seq, r.Due = l.at(n).Seq, l.at(n).Due
	*l.at(n) = r
	l.finished++
	l.results[r.Result]++
	l.late = max(l.late, r.Sent.Sub(r.Due))
	if r.Result == OK {
		latency := r.Done.Sub(r.Due)
		l.versions[r.Version]++
		l.slowest = max(l.slowest, latency)
		// RecordValue fails only above the maximum. Such a value is missing in the quantiles.
		_ = l.latencies.RecordValue(max(1, latency.Microseconds()))
	}
	return r, l.lostSoFar()
}

func (l *requestLog) summary() Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Summary{
		Sent: l.started, Open: l.started - l.finished, Lost: l.lostSoFar(),
		Results: maps.Clone(l.results), Versions: maps.Clone(l.versions),
		P50: l.quantile(50), P99: l.quantile(99), Max: l.slowest, Late: l.delay(), Started: l.start,
	}
}

func (l *requestLog) quantile(q float64) time.Duration {
	return min(time.Duration(l.latencies.ValueAtQuantile(q))*time.Microsecond, l.slowest)
}

// all yields the records in the order in which the requests were due. It omits in-flight requests.
func (l *requestLog) all() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		records := make([]Record, 0, chunk)
		for from := 0; ; from += chunk {
			records = l.slice(records[:0], from)
			for _, r := range records {
				if !yield(r) {
					return
				}
			}
			if l.len() <= from+chunk {
				return
			}
		}
	}
}

func (l *requestLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started
}

// slice appends the records of the completed requests in the chunk that starts at the index from.
func (l *requestLog) slice(to []Record, from int) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := from; n < min(from+chunk, l.started); n++ {
		if r := l.at(n); r.Result != "" {
			to = append(to, *r)
		}
	}
	return to
}

// lost returns the first lost requests, but at most MaxLost.
func (l *requestLog) lost() []Record {
	var out []Record
	for r := range l.all() {
		if r.Result != OK {
			out = append(out, r)
			if len(out) == MaxLost {
				break
			}
		}
	}
	return out
}

func count(r Record, sent, lost *int, versions *map[string]int) {
	*sent++
	if r.Result != OK {
		*lost++
		return
	}
	if *versions == nil {
		*versions = map[string]int{}
	}
	(*versions)[r.Version]++
}

// seconds returns the request counts for each second from the start of the stream, including seconds without
// requests.
func (l *requestLog) seconds() []Second {
	var out []Second
	for r := range l.all() {
		i := int(r.Due.Sub(l.start) / time.Second)
		for len(out) <= i {
			out = append(out, Second{Start: l.start.Add(time.Duration(len(out)) * time.Second)})
		}
		s := &out[i]
		count(r, &s.Sent, &s.Lost, &s.Versions)
	}
	return out
}

// maxBins is the maximum number of bins of a stream. A chart on a screen has no space for more bars.
const maxBins = 600

// bins returns the request counts for equal intervals of a stream that ran for length. width is the smallest of the
// predefined widths that needs at most maxBins bins. If the stream is too long for all of them, bins returns 0 and
// nil.
func (l *requestLog) bins(length time.Duration) (width time.Duration, out []Bin) {
	for _, ms := range []time.Duration{10, 20, 50, 100, 200, 500} {
		width = ms * time.Millisecond
		if length <= maxBins*width {
			break
		}
	}
	if length > maxBins*width {
		return 0, nil
	}
	for r := range l.all() {
		from := r.Due.Sub(l.start).Truncate(width)
		if n := len(out); n == 0 || out[n-1].From != from {
			out = append(out, Bin{From: from})
		}
		b := &out[len(out)-1]
		count(r, &b.Sent, &b.Lost, &b.Versions)
	}
	return width, out
}
