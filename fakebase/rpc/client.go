package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Client calls the methods of an RPC server. It is safe for concurrent use.
type Client struct {
	// Transport sends the HTTP requests, for example an http.Transport that connects to a Unix socket. It must ignore
	// the host in the URL. Required.
	Transport http.RoundTripper
	// Path is the URL path that precedes the method name. Default: none.
	Path string
	// Unreachable is wrapped by the error that a call returns if it gets no response. Required.
	Unreachable error
}

// call sends a request and decodes the response with read.
func (c *Client) call(ctx context.Context, method string, in any, read func(*json.Decoder) error) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encoding the request for %s: %w", method, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server"+c.Path+"/"+method, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("creating the request for %s: %w", method, err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.Transport.RoundTrip(r)
	if err == nil {
		defer func() { _ = response.Body.Close() }() // the body has been decoded
		decoder := json.NewDecoder(response.Body)
		if response.StatusCode == http.StatusOK {
			err = read(decoder)
		} else {
			err = decodeError(response.Status, method, decoder)
		}
	}
	var serverError *Error
	switch {
	case err == nil, errors.As(err, &serverError):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%w (%w)", c.Unreachable, err)
	}
}

func decodeError(status, method string, d *json.Decoder) error {
	e := &Error{}
	if err := d.Decode(e); err != nil || e.Message == "" {
		e.Code, e.Message = http.StatusInternalServerError, fmt.Sprintf("%s: unexpected response %s", method, status)
	}
	return e
}

// Error is an error that an RPC method returns. A method that returns an Error, wrapped or not, sets the HTTP status
// of the response. For all other errors, the status is 500.
type Error struct {
	// Code is the HTTP status, at least 400.
	Code int `json:"code"`
	// Message is the error message. It may have several lines; the first line is the summary.
	Message string `json:"message"`
}

// Errorf returns an Error with a formatted message.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func asError(err error) *Error {
	code := http.StatusInternalServerError
	if e := (&Error{}); errors.As(err, &e) {
		code = e.Code
	}
	return &Error{Code: code, Message: err.Error()}
}
