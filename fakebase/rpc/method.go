package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
)

// None is the input or output of a method that has none.
type None struct{}

// Unary is the name of a method with one answer. Server and client share it, so they agree on its
// types.
type Unary[In, Out any] string

// Handle answers calls with what f returns. The context of f ends when the client goes away.
func (m Unary[In, Out]) Handle(mux *http.ServeMux, f func(context.Context, In) (Out, error)) {
	mux.HandleFunc("POST /"+string(m), func(w http.ResponseWriter, r *http.Request) {
		in, err := read[In](r)
		var out Out
		if err == nil {
			out, err = f(r.Context(), in)
		}
		if err != nil {
			Refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the client may have gone
	})
}

// Call blocks until the server answers or ctx ends. The error is an *Error if the server reports
// one, the cause of ctx, or Client.Unreachable, wrapped; the output is zero then.
func (m Unary[In, Out]) Call(ctx context.Context, c *Client, in In) (out Out, err error) {
	err = c.call(ctx, string(m), in, func(d *json.Decoder) error {
		var answer Out
		err := d.Decode(&answer)
		if err == nil {
			out = answer
		}
		return err
	})
	return out, err
}

// Stream is the name of a method that answers with any number of items.
type Stream[In, Item any] string

// line is one line of a stream: an item, or the error that ends it.
type line[Item any] struct {
	Item  Item   `json:"item,omitzero"`
	Error *Error `json:"error,omitempty"`
}

// Handle answers calls with what f sends, at once, until f returns. send may be called
// concurrently. It blocks while the client reads slowly. The context of f ends when the client goes
// away.
func (m Stream[In, Item]) Handle(mux *http.ServeMux, f func(ctx context.Context, in In, send func(Item)) error) {
	mux.HandleFunc("POST /"+string(m), func(w http.ResponseWriter, r *http.Request) {
		in, err := read[In](r)
		if err != nil {
			Refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		flush, encoder := http.NewResponseController(w), json.NewEncoder(w)
		var mu sync.Mutex
		write := func(l line[Item]) {
			mu.Lock()
			defer mu.Unlock()
			if encoder.Encode(l) == nil { // else the context says that the client has gone
				_ = flush.Flush()
			}
		}
		if err := f(r.Context(), in, func(item Item) { write(line[Item]{Item: item}) }); err != nil {
			write(line[Item]{Error: asError(err)})
		}
	})
}

// Call calls each for every item, in order, and blocks until the stream ends. The error is as that
// of Unary.Call.
func (m Stream[In, Item]) Call(ctx context.Context, c *Client, in In, each func(Item)) error {
	return c.call(ctx, string(m), in, func(d *json.Decoder) error {
		for {
			var l line[Item]
			switch err := d.Decode(&l); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			case l.Error != nil:
				return l.Error
			}
			each(l.Item)
		}
	})
}

func read[In any](r *http.Request) (in In, err error) {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err = d.Decode(&in)
	if err == nil {
		// net/http watches the connection, and ends the context of a request whose client goes away,
		// only when the body has been read to its end.
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		err = &Error{Code: http.StatusBadRequest, Message: "the request cannot be read: " + err.Error()}
	}
	return in, err
}

// Refuse answers with an error, as a method does that returns it.
func Refuse(w http.ResponseWriter, err error) {
	e := asError(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code)
	_ = json.NewEncoder(w).Encode(e) // as above
}
