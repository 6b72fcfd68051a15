package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// maxBody is how much of an answer is read.
const maxBody = 64 << 10

// requester sends the requests of one stream.
type requester struct {
	group     string
	spec      plan
	picks     func() (Target, error) // where the next request goes; nil = the transport decides
	transport *http.Transport
}

func newRequester(group string, spec plan, picks func() (Target, error),
	dial func(context.Context) (net.Conn, error)) *requester {
	r := &requester{group: group, spec: spec, picks: picks, transport: &http.Transport{
		DisableKeepAlives: !spec.Reuse, DisableCompression: true,
		MaxIdleConns: spec.MaxOpen, MaxIdleConnsPerHost: spec.MaxOpen,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return dialReal(ctx, addr) },
	}}
	switch route := spec.Route(); {
	case route == RouteKubeProxy:
		r.transport.DialContext = func(ctx context.Context, _, addr string) (net.Conn,
			error) {
			return dialService(ctx, addr)
		}
	case (route == RouteGateway || route == RouteAgent) && spec.Reuse:
		// A client with a pool has an endpoint for each connection, not for each request.
		r.picks = nil
		r.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	}
	return r
}

func (r *requester) close() { r.transport.CloseIdleConnections() }

// do sends one request and says what became of it.
func (r *requester) do(ctx context.Context) Record {
	ctx, cancel := context.WithTimeout(ctx, r.spec.timeout)
	defer cancel()
	host := r.spec.Service + "." + r.spec.Namespace
	addr := host
	var t Target
	if r.picks != nil {
		var err error
		t, err = r.picks()
		if err != nil {
			return failed(ctx, t, err)
		}
		if t.Web == "" {
			return failed(ctx, t, t.refusal())
		}
		addr = t.Web
		if r.spec.Via == v1alpha1.ViaBases {
			host = t.IP
		}
	} else {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			if c, ok := i.Conn.(*conn); ok {
				t = c.target
			}
		}})
	}
	// Built by hand: parsing the same URL again and again is half of the work.
	req := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: addr, Path: "/" + r.spec.Module}, Host: host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
	}).WithContext(ctx)
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		return failed(ctx, t, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		o := failed(ctx, t, err)
		o.Status = resp.StatusCode
		return o
	}
	return r.judge(t, resp, body)
}

// The errors of records whose results have several causes.
const (
	errorNoListener = "nobody of this base listens any more"
	errorNoBase     = "no base has this address"
	errorNoHost     = "nobody has this address"
	errorRefused    = "connection refused"
	errorReset      = "connection reset"
	errorCutOff     = "connection closed before the end of the answer"
)

// judge calls a complete answer by its name.
func (r *requester) judge(t Target, resp *http.Response, body []byte) Record {
	status := resp.StatusCode
	o := recordOf(t)
	o.Status = status
	if t.Base == "" { // somebody else has picked it
		o.Base = strings.TrimPrefix(resp.Header.Get(fakebase.HostNameHeader), r.group+"-")
	}
	switch {
	case status == http.StatusNotFound:
		o.Result, o.Error = NotFound, "no active version of "+r.spec.Module
		return o
	case status == http.StatusServiceUnavailable:
		o.Result, o.Error = Unavailable, "the base is not ready"
		return o
	case status < 200 || status > 299:
		o.Result, o.Error = Other, fmt.Sprintf("status %d", status)
		return o
	}
	var a struct{ HostName, Biz, Version string }
	_ = json.Unmarshal(body, &a) // an answer in another form names no version
	o.Version = a.Version
	switch {
	case t.Host != "" && a.HostName != "" && a.HostName != t.Host:
		// The base is down, and its port has gone to another one of this machine.
		o.Result, o.Error, o.Version = Refused, errorNoListener, ""
	case a.Biz != "" && a.Biz != r.spec.Module:
		o.Result, o.Error = Other, "module "+a.Biz+" answered instead of "+r.spec.Module
	case len(r.spec.Versions) > 0 && !slices.Contains(r.spec.Versions, a.Version):
		o.Result, o.Error = WrongVersion, fmt.Sprintf("version %q answered", a.Version)
	default:
		o.Result = OK
	}
	return o
}

// failed calls an error by its name. Whatever comes after the deadline is a timeout.
// The texts have no ports of this machine in them, so that equal failures look equal.
func failed(ctx context.Context, t Target, err error) Record {
	var d *DialError
	if errors.As(err, &d) {
		t = d.Target
	}
	o := recordOf(t)
	switch {
	case ctx.Err() != nil, errors.Is(err, syscall.ETIMEDOUT):
		o.Result, o.Error = Timeout, "no complete answer in time"
	case errors.Is(err, ErrNoEndpoint):
		o.Result, o.Error = NoEndpoint, err.Error()
	case t.Closed != "" && errors.Is(err, syscall.ECONNREFUSED):
		o.Result, o.Error = Refused, t.refusal().Error()
	case errors.Is(err, errNoBase):
		o.Result, o.Error = Refused, errorNoBase
	case errors.Is(err, syscall.EHOSTUNREACH):
		o.Result, o.Error = Refused, errorNoHost
	case errors.Is(err, syscall.ECONNREFUSED):
		o.Result, o.Error = Refused, errorRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		o.Result, o.Error = Reset, errorReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		strings.HasSuffix(err.Error(), "server closed idle connection"):
		// The last one is net/http's, for a connection that ended while the request was
		// being written; it has no name there.
		o.Result, o.Error = Reset, errorCutOff
	default:
		o.Result, o.Error = Other, err.Error()
	}
	return o
}

func recordOf(t Target) Record { return Record{Endpoint: t.IP, Pod: t.Pod, Base: t.Base} }
