package board

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/koupleless/koupsandbox/sandbox/board/internal/access"
	"github.com/koupleless/koupsandbox/sandbox/board/internal/feed"
)

//go:embed web/dist
var dist embed.FS

// pingEvery is the interval at which the server sends comments to keep an event stream open.
const pingEvery = 15 * time.Second

// handler returns the HTTP handler that serves the page and its data.
func (b *Board) handler() http.Handler {
	page, err := fs.Sub(dist, "web/dist")
	if err != nil {
		panic(err) // the name is constant
	}
	mux := http.NewServeMux()
	mux.Handle("/", b.guard.Public(withRevalidation(gzhttp.GzipHandler(http.FileServerFS(page)))))
	mux.Handle("POST /api/session", b.guard.Begin())
	for pattern, serve := range map[string]http.HandlerFunc{
		"GET /api/events": b.events, "GET /api/history": b.history, "GET /api/history/{id}": b.chunk,
		"GET /api/why": b.why, "POST /api/actions/{id}": b.acts.serve,
		"/api/": func(w http.ResponseWriter, r *http.Request) {
			access.Deny(w, http.StatusNotFound, "unknown path "+r.URL.Path)
		},
	} {
		mux.Handle(pattern, b.guard.Data(serve))
	}
	return mux
}

// withRevalidation makes browsers revalidate the page before they use a cached copy.
func withRevalidation(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			access.Deny(w, http.StatusMethodNotAllowed, "the page supports only GET and HEAD")
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

// events handles a request for server-sent events. It sends a snapshot, followed by changes.
func (b *Board) events(w http.ResponseWriter, r *http.Request) {
	first, subscriber, err := b.feed.Subscribe(b.now())
	if err != nil {
		access.Deny(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer subscriber.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	stream := http.NewResponseController(w)
	send := func(m feed.Message) error {
		if err := stream.SetWriteDeadline(time.Now().Add(2 * pingEvery)); err != nil &&
			!errors.Is(err, http.ErrNotSupported) {
			return err
		}
		text := ": ping\n\n"
		if m.Event != "" {
			text = fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", m.Seq, m.Event, m.Data)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		return stream.Flush()
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for err := send(first); err == nil; {
		select {
		case m, goesOn := <-subscriber.Messages():
			if !goesOn {
				return // the client reads too slowly; the browser reconnects and gets a new snapshot
			}
			err = send(m)
		case <-ping.C:
			_, err = b.guard.Check(r)
			if err == nil {
				err = send(feed.Message{})
			}
		case <-r.Context().Done():
			return
		}
	}
}

// history handles a request for the list of history chunks.
func (b *Board) history(w http.ResponseWriter, _ *http.Request) {
	answer(w, History{Epoch: b.epoch, Chunks: b.feed.Chunks()})
}

// chunk handles a request for one history chunk.
func (b *Board) chunk(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		access.Deny(w, http.StatusBadRequest, "the chunk ID must be a number")
		return
	}
	content, compressed, ok := b.feed.Chunk(id)
	if !ok {
		access.Deny(w, http.StatusNotFound, "this chunk of history was deleted")
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if compressed {
		w.Header().Set("Content-Encoding", "gzip")
	}
	_, _ = w.Write(content) // the client may have disconnected
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may have disconnected
}
