package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// toldHeader says how many lost requests had been told when an answer was given.
const toldHeader = "Told"

// failure is the body of an answer that is an error.
type failure struct {
	Message string `json:"message"`
}

// Serve sends what a Remote on the other side of conn asks for, until conn or ctx
// ends. Then it cuts its streams off, and returns when they have ended.
func Serve(ctx context.Context, conn net.Conn) error {
	lost := newQueue()
	generator := traffic.NewGenerator(traffic.GeneratorOptions{Lost: lost.push})
	ctx, cancel := context.WithCancel(ctx)
	var err error
	var running sync.WaitGroup
	running.Go(func() { err = generator.Start(ctx) })
	stdio.Serve(ctx, conn, handler(generator, lost))
	cancel()
	running.Wait()
	return err
}

func handler(g *traffic.Generator, lost *queue) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /streams/{group}", func(w http.ResponseWriter, r *http.Request) {
		var spec traffic.Spec
		err := json.NewDecoder(r.Body).Decode(&spec)
		if err == nil && spec.Address == "" {
			err = errors.New("the traffic agent sends to the addresses of Services only")
		}
		if err == nil {
			err = g.Begin(r.Context(), r.PathValue("group"), spec)
		}
		answer(w, struct{}{}, err)
	})
	mux.HandleFunc("GET /streams/{group}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, g.Summaries(r.PathValue("group")), nil)
	})
	mux.HandleFunc("DELETE /streams/{group}/{name}", func(w http.ResponseWriter, r *http.Request) {
		end, err := g.Stop(r.Context(), r.PathValue("group"), r.PathValue("name"))
		w.Header().Set(toldHeader, strconv.Itoa(lost.told()))
		answer(w, end, err)
	})
	mux.HandleFunc("DELETE /streams/{group}", func(w http.ResponseWriter, r *http.Request) {
		g.Drop(r.PathValue("group"))
		w.Header().Set(toldHeader, strconv.Itoa(lost.told()))
		answer(w, struct{}{}, nil)
	})
	mux.HandleFunc("GET /streams/{group}/{name}/records", func(w http.ResponseWriter, r *http.Request) {
		records, err := g.Records(r.PathValue("group"), r.PathValue("name"))
		if err != nil {
			answer(w, nil, err)
			return
		}
		lines := json.NewEncoder(w)
		for record := range records {
			if lines.Encode(record) != nil {
				return // nobody reads any more
			}
		}
	})
	mux.HandleFunc("GET /lost", lost.tell)
	return mux
}

// answer writes a value, or why there is none. What cannot be written nobody reads
// any more.
func answer(w http.ResponseWriter, value any, err error) {
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		value = failure{err.Error()}
	}
	_ = json.NewEncoder(w).Encode(value)
}
