package feed

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// rows returns an Update that sets rows of one kind.
func rows(pairs ...string) map[string]map[string]any {
	set := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		set[pairs[i]] = pairs[i+1]
	}
	return map[string]map[string]any{"base": set}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// drain returns all messages in the queue of a subscriber.
func drain(s *Subscriber) (all []string) {
	for {
		select {
		case m, ok := <-s.Messages():
			if !ok {
				return append(all, "closed")
			}
			all = append(all, fmt.Sprintf("%s %d %s", m.Event, m.Seq, m.Data))
		default:
			return all
		}
	}
}

func TestOnlyChangesAreSent(t *testing.T) {
	f := New(Options{Epoch: "e"})
	must(t, f.Put(start, Update{Set: rows("a", "1", "b", "1"), Log: []any{"first"}}))
	first, s, err := f.Subscribe(start.Add(time.Second))
	must(t, err)
	want := `{"seq":1,"time":1767323046000,"epoch":"e","tables":{"base":{"a":"1","b":"1"}},"log":["first"]}`
	if diff := cmp.Diff(want, string(first.Data)); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	must(t, f.Put(start.Add(2*time.Second),
		Update{Set: rows("a", "1", "b", "1"), Del: map[string][]string{"base": {"c"}, "pod": {"x"}}}))
	must(t, f.Put(start.Add(3*time.Second),
		Update{Set: rows("a", "2", "b", "1"), Del: map[string][]string{"base": {"b"}}, Log: []any{"second"}}))
	must(t, f.Put(start, Update{Log: []any{"third, late"}}))
	wantMessages := []string{
		`changes 2 {"seq":2,"time":1767323048000,"set":{"base":{"a":"2"}},"del":{"base":["b"]},"log":["second"]}`,
		`changes 3 {"seq":3,"time":1767323048000,"log":["third, late"]}`,
	}
	if diff := cmp.Diff(wantMessages, drain(s)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	s.Close()
	s.Close()
	if diff := cmp.Diff([]string{"closed"}, drain(s)); diff != "" {
		t.Errorf("after Close (-want +got):\n%s", diff)
	}
}

func TestSlowSubscriberIsRemovedWithoutBlocking(t *testing.T) {
	f := New(Options{Epoch: "e", Waiting: 2, Log: 3})
	_, slow, err := f.Subscribe(start)
	must(t, err)
	for i := range 4 {
		must(t, f.Put(start, Update{Log: []any{i}}))
	}
	got := drain(slow)
	if len(got) != 3 || got[2] != "closed" {
		t.Errorf("the slow reader got %q, want two messages and the end", got)
	}
	first, _, err := f.Subscribe(start)
	must(t, err)
	if want := `{"seq":4,"time":1767323045000,"epoch":"e","tables":{},"log":[1,2,3]}`; string(first.Data) != want {
		t.Errorf("a new subscriber gets\n%s\nwant\n%s", first.Data, want)
	}
}

// lines returns the JSON lines of a chunk, decoded.
func lines(t *testing.T, f *Feed, id int64) []map[string]any {
	t.Helper()
	content, compressed, ok := f.Chunk(id)
	if !ok {
		t.Fatalf("chunk %d was deleted", id)
	}
	var r io.Reader = bytes.NewReader(content)
	if compressed {
		z, err := gzip.NewReader(r)
		must(t, err)
		r = z
	}
	var all []map[string]any
	for s := bufio.NewScanner(r); s.Scan(); {
		var m map[string]any
		must(t, json.Unmarshal(s.Bytes(), &m))
		all = append(all, m)
	}
	return all
}

// TestHistoryEqualsLiveState restores each point in time from a chunk: from its snapshot and the changes that follow.
// The restored state must be equal to the state of a live subscriber.
func TestHistoryEqualsLiveState(t *testing.T) {
	f := New(Options{Epoch: "e", ChunkFor: 5 * time.Second, ChunkBytes: 2000})
	live := map[int64]string{}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		key := fmt.Sprint(random.IntN(20))
		u := Update{Set: rows(key, fmt.Sprint(random.IntN(5)))}
		if random.IntN(3) == 0 {
			u = Update{Del: map[string][]string{"base": {key}}}
		}
		must(t, f.Put(start.Add(time.Duration(i)*100*time.Millisecond), u))
		live[f.seq] = asText(t, f.rows["base"])
	}
	chunks := f.Chunks()
	compared := 0
	for i, c := range chunks {
		if i > 0 && c.First != chunks[i-1].Last {
			t.Errorf("chunk %d begins with %d, and the one before ends with %d", c.ID, c.First, chunks[i-1].Last)
		}
		if closed := i < len(chunks)-1; c.Closed != closed {
			t.Errorf("chunk %d of %d: closed is %v", i, len(chunks), c.Closed)
		}
		table := map[string]any{}
		for n, m := range lines(t, f, c.ID) {
			if n == 0 {
				table = at(m, "tables", "base")
			}
			for key, row := range at(m, "set", "base") {
				table[key] = row
			}
			if del, ok := m["del"].(map[string]any); ok {
				for _, key := range del["base"].([]any) {
					delete(table, key.(string))
				}
			}
			seq := int64(m["seq"].(float64))
			if want, known := live[seq]; known {
				compared++
				if got := asText(t, table); got != want {
					t.Fatalf("at %d in chunk %d:\n%s\nlive it was\n%s", seq, c.ID, got, want)
				}
			}
		}
	}
	if len(chunks) < 5 || compared < 200 {
		t.Errorf("only %d chunks and %d moments were compared", len(chunks), compared)
	}
}

func at(m map[string]any, field, kind string) map[string]any {
	tables, _ := m[field].(map[string]any)
	table, _ := tables[kind].(map[string]any)
	if table == nil {
		return map[string]any{}
	}
	return table
}

func asText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return string(text)
}

func TestThePastIsBounded(t *testing.T) {
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('a' + rand.IntN(26))
		}
		return string(b)
	}
	for name, c := range map[string]struct {
		o     Options
		check func(chunks []Chunk, now int64) bool
	}{
		"by time": {Options{KeepFor: 10 * time.Second},
			func(all []Chunk, now int64) bool { return all[0].To >= now-11_000 }},
		"by bytes": {Options{KeepBytes: 20_000},
			func(all []Chunk, _ int64) bool { return size(all[:len(all)-1]) <= 20_000 }},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Epoch, c.o.ChunkFor = "e", time.Second
			f := New(c.o)
			var now time.Time
			for i := range 200 {
				now = start.Add(time.Duration(i) * 250 * time.Millisecond)
				must(t, f.Put(now, Update{Set: rows("a", noise(1000))}))
			}
			all := f.Chunks()
			if len(all) < 3 || len(all) > 40 || !c.check(all, now.UnixMilli()) {
				t.Errorf("%d chunks, %d bytes, the oldest ends %d ms ago", len(all), size(all),
					now.UnixMilli()-all[0].To)
			}
			if _, _, ok := f.Chunk(1); ok {
				t.Error("the first chunk is there still")
			}
		})
	}
}

func size(all []Chunk) (sum int64) {
	for _, c := range all {
		sum += c.Bytes
	}
	return sum
}
