package httptunnel

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// ThroughProxy returns a dial function that connects through an HTTP proxy with the method CONNECT. If the base
// refuses the connection, the error is syscall.ECONNREFUSED, the same as without a proxy.
func ThroughProxy(proxy *url.URL) func(context.Context, string, string) (net.Conn, error) {
	d := &net.Dialer{Timeout: dialTimeout}
	address := proxy.Host
	if proxy.Port() == "" {
		address = net.JoinHostPort(proxy.Hostname(), "80")
	}
	header := http.Header{}
	if user := proxy.User; user != nil {
		password, _ := user.Password()
		header.Set("Proxy-Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("connecting to the proxy %s: %w", address, proxyError{err})
		}
		through, err := connect(ctx, conn, addr, header)
		if err != nil {
			_ = conn.Close() // nothing was sent to the base
			return nil, fmt.Errorf("connecting to %s through the proxy %s: %w", addr, address, err)
		}
		return through, nil
	}
}

// proxyError is a failure of the connection to the proxy. It hides syscall.ECONNREFUSED, because this error would
// mean that the base refused the connection.
type proxyError struct{ err error }

func (e proxyError) Error() string { return e.err.Error() }

func connect(ctx context.Context, conn net.Conn, addr string, header http.Header) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return nil, err
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: header}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, request)
	if err != nil {
		return nil, err
	}
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusBadGateway: // the proxy could not connect
		return nil, fmt.Errorf("the proxy answered %s: %w", response.Status, syscall.ECONNREFUSED)
	default:
		return nil, fmt.Errorf("the proxy answered %s", response.Status)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return &proxiedConn{conn, io.MultiReader(io.LimitReader(r, int64(r.Buffered())), conn)},
		conn.SetDeadline(time.Time{})
}

// proxiedConn is a connection whose first received bytes are already buffered.
type proxiedConn struct {
	net.Conn
	in io.Reader
}

func (p *proxiedConn) Read(b []byte) (int, error) { return p.in.Read(b) }
