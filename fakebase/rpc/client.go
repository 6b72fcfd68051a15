package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Client reaches a server. Calls may be made concurrently.
type Client struct {
	// Transport carries the requests, such as an http.Transport that dials a socket. The host of
	// their URLs says nothing. Required.
	Transport http.RoundTripper
	// Path is in the URLs, before the name of the method. Default: none.
	Path string
	// Unreachable is in the error of every call that the server did not answer. Required.
	Unreachable error
}

// call sends a request, and lets read decode the answer.
func (c *Client) call(ctx context.Context, method string, in any, read func(*json.Decoder) error) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("calling %s: %w", method, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server"+c.Path+"/"+method, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("calling %s: %w", method, err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Transport.RoundTrip(r)
	if err == nil {
		defer func() { _ = answer.Body.Close() }() // what counts has been read
		decoder := json.NewDecoder(answer.Body)
		if answer.StatusCode == http.StatusOK {
			err = read(decoder)
		} else {
			err = refusal(answer.Status, method, decoder)
		}
	}
	var refused *Error
	switch {
	case err == nil, errors.As(err, &refused):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%w (%w)", c.Unreachable, err)
	}
}

func refusal(status, method string, d *json.Decoder) error {
	e := &Error{}
	if err := d.Decode(e); err != nil || e.Message == "" {
		e.Code, e.Message = http.StatusInternalServerError, fmt.Sprintf("%s was answered with %s", method, status)
	}
	return e
}

// Error is a failure that the server reports. A method that returns one, wrapped or not, decides
// the status of its answer; every other error has the status 500.
type Error struct {
	// Code is an HTTP status of 400 or more.
	Code int `json:"code"`
	// Message may have several lines: the first says what is wrong.
	Message string `json:"message"`
}

// Errorf makes an Error.
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
