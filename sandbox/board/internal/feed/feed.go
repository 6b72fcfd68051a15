package feed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Options of a Feed.
type Options struct {
	// Epoch identifies this run of the server. Required.
	Epoch string
	// KeepFor and KeepBytes limit the history by age and by compressed size. Default: unlimited.
	KeepFor   time.Duration
	KeepBytes int64
	// ChunkFor is the maximum duration of a chunk of history, and ChunkBytes the uncompressed size at which it
	// is closed. Default: one minute, and 4 MiB.
	ChunkFor   time.Duration
	ChunkBytes int
	// Log is the number of newest log entries that a new subscriber gets. Default: 300.
	Log int
	// Waiting is the maximum number of queued messages of a subscriber. Default: 256.
	Waiting int
}

// Feed is a set of rows with its history. Its methods may be called concurrently.
type Feed struct {
	o Options

	mu      sync.Mutex
	seq     int64
	time    int64
	rows    tables
	log     []json.RawMessage
	subs    map[*Subscriber]struct{}
	history history
}

type tables map[string]map[string]json.RawMessage

// Update has changes of rows.
type Update struct {
	// Set has new and changed rows by kind and key, Del the keys of deleted rows by kind, and Log new log
	// entries.
	Set map[string]map[string]any
	Del map[string][]string
	Log []any
}

// Message is one message to a subscriber.
type Message struct {
	// Event is snapshot or changes.
	Event string
	Seq   int64
	Data  []byte
}

// snapshot and changes have the JSON form of board.Snapshot and board.Changes. Their rows are encoded.
type snapshot struct {
	Seq    int64             `json:"seq"`
	Time   int64             `json:"time"`
	Epoch  string            `json:"epoch"`
	Tables tables            `json:"tables"`
	Log    []json.RawMessage `json:"log,omitempty"`
}

type changes struct {
	Seq  int64               `json:"seq"`
	Time int64               `json:"time"`
	Set  tables              `json:"set,omitempty"`
	Del  map[string][]string `json:"del,omitempty"`
	Log  []json.RawMessage   `json:"log,omitempty"`
}

// New returns a Feed without rows.
func New(o Options) *Feed {
	o.ChunkFor, o.ChunkBytes = cmp.Or(o.ChunkFor, time.Minute), cmp.Or(o.ChunkBytes, 4<<20)
	o.Log, o.Waiting = cmp.Or(o.Log, 300), cmp.Or(o.Waiting, 256)
	return &Feed{o: o, rows: tables{}, subs: map[*Subscriber]struct{}{}}
}

// Put applies changes, stores them and sends them to subscribers. It ignores rows that are unchanged, and
// deleted rows that do not exist. If no change remains, it sends nothing. now must not be before the time of
// the previous Put.
func (f *Feed) Put(now time.Time, u Update) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := changes{Time: max(now.UnixMilli(), f.time)}
	for kind, rows := range u.Set {
		for key, row := range rows {
			text, err := json.Marshal(row)
			if err != nil {
				return fmt.Errorf("encoding the row %s %s: %w", kind, key, err)
			}
			if before, there := f.rows[kind][key]; !there || !bytes.Equal(before, text) {
				put(&c.Set, kind, key, text)
			}
		}
	}
	for kind, keys := range u.Del {
		for _, key := range keys {
			if _, there := f.rows[kind][key]; there {
				if c.Del == nil {
					c.Del = map[string][]string{}
				}
				c.Del[kind] = append(c.Del[kind], key)
			}
		}
		slices.Sort(c.Del[kind])
	}
	for _, e := range u.Log {
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encoding a log entry: %w", err)
		}
		c.Log = append(c.Log, text)
	}
	if len(c.Set) == 0 && len(c.Del) == 0 && len(c.Log) == 0 {
		return nil
	}
	return f.commit(c)
}

// commit numbers, stores and publishes changes. f.mu is held.
func (f *Feed) commit(c changes) error {
	if f.history.full(c.Time, f.o) {
		if err := f.history.begin(f.snapshot(c.Time), f.o); err != nil {
			return err
		}
	}
	f.seq++
	f.time, c.Seq = c.Time, f.seq
	for kind, rows := range c.Set {
		for key, row := range rows {
			put(&f.rows, kind, key, row)
		}
	}
	for kind, keys := range c.Del {
		for _, key := range keys {
			delete(f.rows[kind], key)
		}
	}
	f.log = append(f.log, c.Log...)
	if over := len(f.log) - f.o.Log; over > 0 {
		f.log = slices.Clone(f.log[over:])
	}
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	f.history.add(f.seq, c.Time, data)
	for s := range f.subs {
		select {
		case s.messages <- Message{"changes", f.seq, data}:
		default:
			f.remove(s)
		}
	}
	return nil
}

func put(t *tables, kind, key string, row json.RawMessage) {
	if *t == nil {
		*t = tables{}
	}
	if (*t)[kind] == nil {
		(*t)[kind] = map[string]json.RawMessage{}
	}
	(*t)[kind][key] = row
}

// snapshot returns all rows with a time. f.mu is held.
func (f *Feed) snapshot(at int64) snapshot {
	return snapshot{Seq: f.seq, Time: at, Epoch: f.o.Epoch, Tables: f.rows}
}

// Subscriber receives the changes of a Feed.
type Subscriber struct {
	feed     *Feed
	messages chan Message
}

// Subscribe returns a snapshot with the newest log entries, and a Subscriber that receives all later changes.
// The caller closes it.
func (f *Feed) Subscribe(now time.Time) (Message, *Subscriber, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.snapshot(max(now.UnixMilli(), f.time))
	all.Log = f.log
	data, err := json.Marshal(all)
	if err != nil {
		return Message{}, nil, fmt.Errorf("encoding a snapshot: %w", err)
	}
	s := &Subscriber{feed: f, messages: make(chan Message, f.o.Waiting)}
	f.subs[s] = struct{}{}
	return Message{"snapshot", f.seq, data}, s, nil
}

// Messages returns the channel of changes. It is closed if the subscriber is too slow, or by Close.
func (s *Subscriber) Messages() <-chan Message { return s.messages }

// Close ends the subscription. It may be called several times.
func (s *Subscriber) Close() {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.feed.remove(s)
}

// remove ends a subscription. f.mu is held.
func (f *Feed) remove(s *Subscriber) {
	if _, there := f.subs[s]; there {
		delete(f.subs, s)
		close(s.messages)
	}
}
