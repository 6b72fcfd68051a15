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

// maxBody is the maximum number of bytes that are read from a response.
const maxBody = 64 << 10

// requester sends the requests of one stream.
type requester struct {
	group     string
	spec      resolvedSpec
	pick      func() (Target, error) // returns the target of a request; nil if the transport selects it
	transport *http.Transport
}

func newRequester(group string, spec resolvedSpec, pick func() (Target, error),
	dial func(context.Context) (net.Conn, error)) *requester {
	r := &requester{group: group, spec: spec, pick: pick, transport: &http.Transport{
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
		// A client with a connection pool selects an endpoint for each connection, not for each request.
		r.pick = nil
		r.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	}
	return r
}

func (r *requester) close() { r.transport.CloseIdleConnections() }

// do sends one request and returns its record.
func (r *requester) do(ctx context.Context) Record {
	ctx, cancel := context.WithTimeout(ctx, r.spec.timeout)
	defer cancel()
	host := r.spec.Service + "." + r.spec.Namespace
	addr := host
	var t Target
	if r.pick != nil {
		var err error
		t, err = r.pick()
		if err != nil {
			return failureRecord(ctx, t, err)
		}
		if t.Web == "" {
			return failureRecord(ctx, t, t.refusal())
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
	// The URL is built by hand: parsing it for each request takes half of the CPU time.
	req := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: addr, Path: "/" + r.spec.Module}, Host: host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
	}).WithContext(ctx)
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		return failureRecord(ctx, t, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		o := failureRecord(ctx, t, err)
		o.Status = resp.StatusCode
		return o
	}
	return r.classify(t, resp, body)
}

// errorNoListener and the following constants are texts for Record.Error that distinguish the possible causes of a
// Result.
const (
	errorNoListener = "the base no longer listens on this port"
	errorNoBase     = "no base has this address"
	errorNoHost     = "no host has this address"
	errorRefused    = "connection refused"
	errorReset      = "connection reset"
	errorCutOff     = "connection closed before the end of the response"
)

// classify returns the record for a request with a complete response.
func (r *requester) classify(t Target, resp *http.Response, body []byte) Record {
	status := resp.StatusCode
	o := newRecord(t)
	o.Status = status
	if t.Base == "" { // kube-proxy has selected it
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
	_ = json.Unmarshal(body, &a) // another response format has no version
	o.Version = a.Version
	switch {
	case t.Host != "" && a.HostName != "" && a.HostName != t.Host:
		// The base is down, and another base of this machine uses its port.
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

// failureRecord returns the record for a request that failed with err. It classifies every error after the deadline
// as a timeout. The error texts contain no local ports, so that equal failures have equal texts.
func failureRecord(ctx context.Context, t Target, err error) Record {
	var d *DialError
	if errors.As(err, &d) {
		t = d.Target
	}
	o := newRecord(t)
	switch {
	case ctx.Err() != nil, errors.Is(err, syscall.ETIMEDOUT):
		o.Result, o.Error = Timeout, "no complete response in time"
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
		// The last text is of net/http, for a connection that ended while the request was written. It has no exported
		// error.
		o.Result, o.Error = Reset, errorCutOff
	default:
		o.Result, o.Error = Other, err.Error()
	}
	return o
}

func newRecord(t Target) Record { return Record{Endpoint: t.IP, Pod: t.Pod, Base: t.Base} }
