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

// Options configures a Feed.
type Options struct {
	// Epoch identifies one run of the server; subscribers discard their data when it changes. Required.
	Epoch string
	// KeepFor and KeepBytes limit the age and the compressed size of the history. Default: unlimited.
	KeepFor   time.Duration
	KeepBytes int64
	// ChunkFor is the maximum duration of a history chunk. ChunkBytes is the uncompressed size at which a chunk is
	// closed. Default: one minute, and 4 MiB.
	ChunkFor   time.Duration
	ChunkBytes int
	// Log is the maximum number of log entries in the snapshot for a new subscriber. The snapshot contains the newest
	// entries. Default: 300.
	Log int
	// Waiting is the maximum number of messages that are queued for a subscriber. Default: 256.
	Waiting int
}

// Feed holds the current rows and their history. Its methods are safe for concurrent use.
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

// Update describes changes of rows.
type Update struct {
	// Set holds new and changed rows, by kind and key. Del lists the keys of deleted rows, by kind. Log lists new log
	// entries.
	Set map[string]map[string]any
	Del map[string][]string
	Log []any
}

// Message is a message to a subscriber.
type Message struct {
	// Event is the type of the message: snapshot or changes.
	Event string
	Seq   int64
	Data  []byte
}

// snapshot and changes have the same JSON form as board.Snapshot and board.Changes. Their rows are already encoded as
// JSON.
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

// Put applies changes to the rows, stores the changes in the history and sends them to subscribers. It ignores rows
// that are unchanged, and deleted rows that do not exist. If no changes remain, it sends nothing. now must not be
// earlier than the time of the previous Put.
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

// commit assigns the next sequence number to the changes, adds them to the history and sends them to subscribers. The
// caller must hold f.mu.
func (f *Feed) commit(c changes) error {
	if f.history.needsNewChunk(c.Time, f.o) {
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

// snapshot returns a snapshot of all rows at the time now. The caller must hold f.mu.
func (f *Feed) snapshot(at int64) snapshot {
	return snapshot{Seq: f.seq, Time: at, Epoch: f.o.Epoch, Tables: f.rows}
}

// Subscriber receives the changes of a Feed.
type Subscriber struct {
	feed     *Feed
	messages chan Message
}

// Subscribe returns a snapshot that contains the newest log entries, and a Subscriber that receives all later
// changes. The caller must close the Subscriber.
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

// Messages returns the channel that delivers the changes. The channel is closed when the queue of the subscriber is
// full, or when Close is called.
func (s *Subscriber) Messages() <-chan Message { return s.messages }

// Close ends the subscription. It may be called several times.
func (s *Subscriber) Close() {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.feed.remove(s)
}

// remove ends a subscription. The caller must hold f.mu.
func (f *Feed) remove(s *Subscriber) {
	if _, there := f.subs[s]; there {
		delete(f.subs, s)
		close(s.messages)
	}
}
