package traffic

import (
	"iter"
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// chunk is how many entries are allocated together: growing never copies.
const chunk = 4096

// entry is a request in the ledger, times from the start of the stream.
type entry struct {
	due, sent, done time.Duration
	who, text       uint32 // in ledger.whos, ledger.texts
	status          uint16
	result          uint8 // in Results, from 1; 0 = open
}

// who is everything about an answer that many requests have in common.
type who struct{ endpoint, pod, base, version string }

// ledger keeps every request of a stream. Its methods may be called concurrently.
type ledger struct {
	start time.Time

	mu       sync.Mutex
	chunks   []*[chunk]entry
	begun    int
	finished int
	results  [16]int // by entry.result
	versions map[string]int
	late     time.Duration
	slowest  time.Duration
	// latencies of OK answers in microseconds, at three digits.
	latencies *hdrhistogram.Histogram
	whos      table[who]
	texts     table[string]
}

// table gives equal values one number.
type table[T comparable] struct {
	values []T
	index  map[T]uint32
}

func (t *table[T]) put(v T) uint32 {
	if i, ok := t.index[v]; ok {
		return i
	}
	if t.index == nil {
		t.index = map[T]uint32{}
	}
	i := uint32(len(t.values)) //nolint:gosec // a table has fewer values than a ledger has requests
	t.values, t.index[v] = append(t.values, v), i
	return i
}

func newLedger(start time.Time) *ledger {
	// No latency is longer than a stream's timeout and the generator's own delay.
	const longest = 10 * time.Minute
	return &ledger{
		start: start, versions: map[string]int{},
		latencies: hdrhistogram.New(1, longest.Microseconds(), 3),
	}
}

// begin notes that a request is due and returns its number, from 0.
func (l *ledger) begin(due time.Duration) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.begun
	if n%chunk == 0 {
		l.chunks = append(l.chunks, new([chunk]entry))
	}
	l.begun++
	l.at(n).due = due
	return n
}

func (l *ledger) at(n int) *entry { return &l.chunks[n/chunk][n%chunk] }

// outcome is what became of a request.
type outcome struct {
	who
	result Result
	status int
	text   string
}

// finish notes what became of a request, and returns how many have been lost so far.
func (l *ledger) finish(n int, sent, done time.Time, o outcome) (lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.at(n)
	e.sent, e.done = sent.Sub(l.start), done.Sub(l.start)
	e.who, e.text, e.status = l.whos.put(o.who), l.texts.put(o.text), uint16(o.status) //nolint:gosec // a status of HTTP fits
	for i, r := range Results {
		if r == o.result {
			e.result = uint8(i + 1)
		}
	}
	l.finished++
	l.results[e.result]++
	l.late = max(l.late, e.sent-e.due)
	if o.result == OK {
		l.versions[o.version]++
		l.slowest = max(l.slowest, e.done-e.due)
		// Fails only for a value beyond the highest, which is then left out of the quantiles.
		_ = l.latencies.RecordValue(max(1, (e.done - e.due).Microseconds()))
	}
	return l.finished - l.results[1]
}

// summary counts what there is; the caller adds the name and the end.
func (l *ledger) summary() Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Summary{
		Sent: l.begun, Open: l.begun - l.finished, Lost: l.finished - l.results[1],
		Results: map[Result]int{}, Versions: map[string]int{},
		P50: l.quantile(50), P99: l.quantile(99), Max: l.slowest, Late: l.late, Started: l.start,
	}
	for i, r := range Results {
		if n := l.results[i+1]; n > 0 {
			s.Results[r] = n
		}
	}
	for v, n := range l.versions {
		s.Versions[v] = n
	}
	return s
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
		if e := l.at(n); e.result != 0 {
			to = append(to, l.record(n, e))
		}
	}
	return to
}

func (l *ledger) record(n int, e *entry) Record {
	w := l.whos.values[e.who]
	return Record{
		Seq: uint64(n + 1), Due: l.start.Add(e.due), Sent: l.start.Add(e.sent), Done: l.start.Add(e.done), //nolint:gosec // it counts from 0
		Endpoint: w.endpoint, Pod: w.pod, Base: w.base, Version: w.version,
		Result: Results[e.result-1], Status: int(e.status), Error: l.texts.values[e.text],
	}
}

// lost returns the first lost requests, at most MaxLost.
func (l *ledger) lost() []Record {
	var out []Record
	for r := range l.all() {
		if r.Result != OK {
			if out = append(out, r); len(out) == MaxLost {
				break
			}
		}
	}
	return out
}

// seconds counts by the second in which requests were due, from the start on and
// without gaps.
func (l *ledger) seconds() []Second {
	var out []Second
	for r := range l.all() {
		i := int(math.Floor(r.Due.Sub(l.start).Seconds()))
		for len(out) <= i {
			out = append(out, Second{Start: l.start.Add(time.Duration(len(out)) * time.Second)})
		}
		s := &out[i]
		s.Sent++
		if r.Result != OK {
			s.Lost++
			continue
		}
		if s.Versions == nil {
			s.Versions = map[string]int{}
		}
		s.Versions[r.Version]++
	}
	return out
}

// mostBins is how many a stream has: a screen shows no more bars of some pixels each.
const mostBins = 600

// bins counts by the shortest round time of which no more than mostBins make a length.
func (l *ledger) bins(length time.Duration) (width time.Duration, out []Bin) {
	for _, ms := range []time.Duration{10, 20, 50, 100, 200, 500} {
		if width = ms * time.Millisecond; length <= mostBins*width {
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
		b.Sent++
		if r.Result != OK {
			b.Lost++
			continue
		}
		if b.Versions == nil {
			b.Versions = map[string]int{}
		}
		b.Versions[r.Version]++
	}
	return width, out
}
