package traffic

import (
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// chunk is the number of records that are allocated together, so that growing copies nothing.
const chunk = 4096

// ledger keeps every request of a stream. Its methods may be called concurrently.
type ledger struct {
	start time.Time

	mu       sync.Mutex
	chunks   []*[chunk]Record // a Result is empty while its request is open
	begun    int
	finished int
	results  map[Result]int
	versions map[string]int
	late     time.Duration
	// reference is when the reference request was sent that is not back yet; zero if there is none.
	reference time.Time
	slowest   time.Duration
	// latencies of OK answers in microseconds, with three digits.
	latencies *hdrhistogram.Histogram
}

func newLedger(start time.Time) *ledger {
	// No latency is longer than a stream's timeout and the generator's own delay.
	const longest = 10 * time.Minute
	return &ledger{
		start: start, results: map[Result]int{}, versions: map[string]int{},
		latencies: hdrhistogram.New(1, longest.Microseconds(), 3),
	}
}

// begin records that a request is due, and returns its number, from 0.
func (l *ledger) begin(due time.Duration) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.begun
	if n%chunk == 0 {
		l.chunks = append(l.chunks, new([chunk]Record))
	}
	l.begun++
	*l.at(n) = Record{Seq: uint64(n + 1), Due: l.start.Add(due)} //nolint:gosec // it counts from 0
	return n
}

func (l *ledger) at(n int) *Record { return &l.chunks[n/chunk][n%chunk] }

// lostSoFar is the number of requests that were lost. l.mu is held.
func (l *ledger) lostSoFar() int { return l.finished - l.results[OK] }

// finish records the result of a request, to which it adds Seq and Due. It returns the number of requests that
// were lost so far.
func (l *ledger) finish(n int, r Record) (Record, int) {
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
		// Fails only for a value beyond the highest, which is then left out of the quantiles.
		_ = l.latencies.RecordValue(max(1, latency.Microseconds()))
	}
	return r, l.lostSoFar()
}

func (l *ledger) summary() Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Summary{
		Sent: l.begun, Open: l.begun - l.finished, Lost: l.lostSoFar(),
		Results: maps.Clone(l.results), Versions: maps.Clone(l.versions),
		P50: l.quantile(50), P99: l.quantile(99), Max: l.slowest, Late: l.delay(), Started: l.start,
	}
}

func (l *ledger) quantile(q float64) time.Duration {
	return min(time.Duration(l.latencies.ValueAtQuantile(q))*time.Microsecond, l.slowest)
}

// all yields the records in the order in which they were due, without those that
// are open.
func (l *ledger) all() iter.Seq[Record] {
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

func (l *ledger) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

// slice appends the finished ones of a chunk.
func (l *ledger) slice(to []Record, from int) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := from; n < min(from+chunk, l.begun); n++ {
		if r := l.at(n); r.Result != "" {
			to = append(to, *r)
		}
	}
	return to
}

// lost returns the first lost requests, at most MaxLost.
func (l *ledger) lost() []Record {
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

// seconds counts by the second in which requests were due, from the start on and
// without gaps.
func (l *ledger) seconds() []Second {
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

// mostBins is how many a stream has: a screen shows no more bars of some pixels each.
const mostBins = 600

// bins counts by the shortest round time of which no more than mostBins make a length.
func (l *ledger) bins(length time.Duration) (width time.Duration, out []Bin) {
	for _, ms := range []time.Duration{10, 20, 50, 100, 200, 500} {
		width = ms * time.Millisecond
		if length <= mostBins*width {
			break
		}
	}
	if length > mostBins*width {
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
