package httptunnel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

var errCutShort = errors.New("the answer was truncated")

// explain classifies an error of a request. It wraps the error with tunnel.ErrRefused, tunnel.ErrTimedOut or
// ErrStopped. Any other error is a network failure, which explain does not wrap.
func explain(ctx context.Context, err error, timeout time.Duration) error {
	_, dialing := errors.AsType[*dialError](err)
	switch {
	case errors.Is(err, tunnel.ErrRefused), errors.Is(err, arklet.ErrTooLarge):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", tunnel.ErrRefused, err)
	case dialing:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w (%s): %w", tunnel.ErrTimedOut, timeout, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrStopped, err)
	case isConnectionError(err):
		return err
	}
	return fmt.Errorf("%w: %w", tunnel.ErrRefused, err) // the response is not HTTP
}

// isConnectionError reports whether an error means that the connection failed, and not that the data was invalid.
func isConnectionError(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.ErrClosedPipe) || errors.Is(err, errCutShort)
}

// deliver passes the answer from a base, or the error of the request, to the handler.
func (t *Tunnel) deliver(c *call, requestedAt time.Time, body []byte, err error) {
	from := tunnel.Origin{Tunnel: tunnel.HTTP, Identity: c.to.Identity, IP: c.to.IP, At: time.Now()}
	kind, reason := string(c.request.Command), tunnel.Rejection("")
	switch {
	case errors.Is(err, arklet.ErrTooLarge):
		reason = tunnel.Oversized
	case err == nil:
		reason, err = check(c, body)
		if err == nil {
			reason, err = t.dispatch(from, c.request, requestedAt, body)
		}
	}
	if reason != "" {
		t.handler.Rejected(from, kind, reason, err)
	}
	if err != nil {
		t.handler.Unanswered(from, c.request, err)
	}
}

// check returns a rejection reason and an error if a body is not an answer from the base.
func check(c *call, body []byte) (tunnel.Rejection, error) {
	var head struct {
		BaseIdentity string `json:"baseIdentity"` // absent in generations A and B (protocol 1), and in error answers
		Code         string `json:"code"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		_, syntax := errors.AsType[*json.SyntaxError](err)
		if start := bytes.TrimSpace(body); syntax && (len(start) == 0 || start[0] == '{') {
			return tunnel.Malformed, fmt.Errorf("%w: %w", errCutShort, err)
		}
		return tunnel.Malformed, fmt.Errorf("%w: the response is not JSON: %w", tunnel.ErrRefused, err)
	}
	switch {
	case head.Code == "":
		return tunnel.Malformed, fmt.Errorf("%w: the response has no code field", tunnel.ErrRefused)
	case head.BaseIdentity != "" && head.BaseIdentity != c.to.Identity:
		return tunnel.WrongIdentity,
			fmt.Errorf("%w: base %.80q answered at the address of base %q", tunnel.ErrRefused, head.BaseIdentity,
				c.to.Identity)
	}
	return "", nil
}

// dispatch decodes an answer and passes it to the handler.
func (t *Tunnel) dispatch(from tunnel.Origin, r arklet.Request, requestedAt time.Time, body []byte) (tunnel.Rejection,
	error) {
	switch r.Command {
	case arklet.CommandHealth:
		h, err := arklet.DecodeHealth(body)
		if err != nil {
			return unexpected(err), err
		}
		from.At = requestedAt
		t.handler.Health(from, h)
	case arklet.CommandQueryAllBiz:
		list, err := arklet.DecodeBizListOutput(body)
		if err != nil && !errors.Is(err, arklet.ErrDropped) {
			return unexpected(err), err
		}
		if err != nil {
			t.handler.Rejected(from, string(r.Command), tunnel.ReasonOf(err), err)
		}
		from.At = requestedAt // the base made the list after the request
		t.handler.BizList(from, list)
	default:
		a, err := arklet.DecodeHTTPAnswer(body, r)
		if err != nil {
			return tunnel.ReasonOf(err), err
		}
		a.PublishedAt = from.At
		t.handler.Answer(from, a)
	}
	return "", nil
}

// unexpected returns the rejection reason for an unexpected answer to a query.
func unexpected(err error) tunnel.Rejection {
	if reason := tunnel.ReasonOf(err); reason != tunnel.Malformed {
		return reason
	}
	return tunnel.Unexpected
}

// sanitizedError returns an error with sanitized text, because libraries quote the received data in their errors.
type sanitizedError struct{ error }

func (e *sanitizedError) Error() string { return arklet.SanitizeText(e.error.Error()) }
func (e *sanitizedError) Unwrap() error { return e.error }
