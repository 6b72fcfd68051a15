package feed

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
)

// Chunk describes a history chunk, which GET /api/history/ID returns. A chunk consists of JSON lines: a snapshot,
// followed by changes.
type Chunk struct {
	ID int64 `json:"id"`
	// First is the sequence number of the snapshot, and Last the sequence number of the last change in the chunk. From
	// and To are the times of the snapshot and of this change.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	// Bytes is the approximate compressed size of the chunk.
	Bytes int64 `json:"bytes"`
	// Closed reports whether the chunk is complete.
	Closed bool `json:"closed"`
}

// chunk holds JSON lines. The lines are compressed when the chunk is closed.
type chunk struct {
	Chunk
	content []byte
}

// history holds the chunks, oldest first. Only the last chunk grows.
type history struct {
	ids    int64
	chunks []*chunk
}

// needsNewChunk reports whether changes with the time now must go into a new chunk.
func (h *history) needsNewChunk(now int64, o Options) bool {
	if len(h.chunks) == 0 {
		return true
	}
	last := h.chunks[len(h.chunks)-1]
	return now-last.From >= o.ChunkFor.Milliseconds() || len(last.content) >= o.ChunkBytes
}

// begin closes the last chunk and starts a new chunk with the snapshot all. It deletes old chunks that exceed the age
// and size limits.
func (h *history) begin(all snapshot, o Options) error {
	if n := len(h.chunks); n > 0 {
		if err := h.chunks[n-1].close(); err != nil {
			return err
		}
	}
	line, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding a snapshot: %w", err)
	}
	h.ids++
	c := &chunk{Chunk: Chunk{ID: h.ids, First: all.Seq, From: all.Time}}
	c.add(all.Seq, all.Time, line)
	h.chunks = append(h.chunks, c)
	h.forget(all.Time, o)
	return nil
}

// forget deletes the oldest chunks until the history is within the age and size limits. It never deletes the last
// chunk.
func (h *history) forget(now int64, o Options) {
	var bytes int64
	for _, c := range h.chunks {
		bytes += c.Bytes
	}
	for len(h.chunks) > 1 {
		c := h.chunks[0]
		old := o.KeepFor > 0 && now-c.To > o.KeepFor.Milliseconds()
		much := o.KeepBytes > 0 && bytes > o.KeepBytes
		if !old && !much {
			return
		}
		bytes -= c.Bytes
		h.chunks[0] = nil
		h.chunks = h.chunks[1:]
	}
}

func (h *history) add(seq, now int64, line []byte) { h.chunks[len(h.chunks)-1].add(seq, now, line) }

func (c *chunk) add(seq, now int64, line []byte) {
	c.content = append(append(c.content, line...), '\n')
	c.Last, c.To, c.Bytes = seq, now, int64(len(c.content))
}

// close compresses the content of the chunk and marks the chunk as complete.
func (c *chunk) close() error {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed) // fast, because it blocks all other messages
	if err == nil {
		_, err = w.Write(c.content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("compressing a chunk of history: %w", err)
	}
	c.content, c.Bytes, c.Closed = bytes.Clone(b.Bytes()), int64(b.Len()), true
	return nil
}

// Chunks returns descriptions of the stored chunks, oldest first.
func (f *Feed) Chunks() []Chunk {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]Chunk, len(f.history.chunks))
	for i, c := range f.history.chunks {
		list[i] = c.Chunk
	}
	return list
}

// Chunk returns the JSON lines of a chunk. If the chunk is closed, the lines are compressed with gzip. Chunk returns
// false if the chunk was deleted.
func (f *Feed) Chunk(id int64) (content []byte, compressed, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.history.chunks {
		if c.ID == id {
			// Returning the buffer is safe: a growing chunk is only appended to.
			return c.content[:len(c.content):len(c.content)], c.Closed, true
		}
	}
	return nil, false, false
}
