package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
)

// Empty is the input type of a method without input, or the output type of a method without output.
type Empty struct{}

// Unary is the name of a method that returns one output. The server and the client use the same Unary value, and
// therefore the same input and output types.
type Unary[In, Out any] string

// Handle registers f as the implementation of the method. The context of f is canceled when the client disconnects.
func (m Unary[In, Out]) Handle(mux *http.ServeMux, f func(context.Context, In) (Out, error)) {
	mux.HandleFunc("POST /"+string(m), func(w http.ResponseWriter, r *http.Request) {
		in, err := read[In](r)
		var out Out
		if err == nil {
			out, err = f(r.Context(), in)
		}
		if err != nil {
			WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the client may have disconnected
	})
}

// Call calls the method. It blocks until the server responds or ctx is done. The returned error wraps an *Error from
// the server, the cause of ctx, or Client.Unreachable. If there is an error, the output is the zero value.
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

// Stream is the name of a method whose output is a sequence of items.
type Stream[In, Item any] string

// line is one line of a stream: an item, or the error that ends the stream.
type line[Item any] struct {
	Item  Item   `json:"item,omitzero"`
	Error *Error `json:"error,omitempty"`
}

// Handle registers f as the implementation of the method. Each item is sent immediately, and the stream ends when f
// returns. The function send is safe for concurrent use, and blocks while the client does not read. The context of f
// is canceled when the client disconnects.
func (m Stream[In, Item]) Handle(mux *http.ServeMux, f func(ctx context.Context, in In, send func(Item)) error) {
	mux.HandleFunc("POST /"+string(m), func(w http.ResponseWriter, r *http.Request) {
		in, err := read[In](r)
		if err != nil {
			WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		flush, encoder := http.NewResponseController(w), json.NewEncoder(w)
		var mu sync.Mutex
		write := func(l line[Item]) {
			mu.Lock()
			defer mu.Unlock()
			if encoder.Encode(l) == nil { // otherwise, the client has disconnected
				_ = flush.Flush()
			}
		}
		if err := f(r.Context(), in, func(item Item) { write(line[Item]{Item: item}) }); err != nil {
			write(line[Item]{Error: asError(err)})
		}
	})
}

// Call calls the method, and calls handleItem for every item, in order. It blocks until the stream ends. It
// returns the same errors as Unary.Call.
func (m Stream[In, Item]) Call(ctx context.Context, c *Client, in In, handleItem func(Item)) error {
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
			handleItem(l.Item)
		}
	})
}

func read[In any](r *http.Request) (in In, err error) {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err = d.Decode(&in)
	if err == nil {
		// The server detects that the client has disconnected only after the whole body has been read.
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		err = &Error{Code: http.StatusBadRequest, Message: "invalid request: " + err.Error()}
	}
	return in, err
}

// WriteError sends an error as the HTTP response, as if a method had returned the error.
func WriteError(w http.ResponseWriter, err error) {
	e := asError(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code)
	_ = json.NewEncoder(w).Encode(e) // the client may have disconnected
}
