package fakebase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

const (
	// firstHTTPPort and lastHTTPPort limit the range in which arklet searches for a free port.
	firstHTTPPort, lastHTTPPort = 1238, 1337
	// maxBody is the maximum size of a request body in bytes, as on real bases.
	maxBody = 1 << 20
	// heartbeatConnect and heartbeatRead are the timeouts of real bases for the connection and the response of a
	// heartbeat request (protocol 4.1).
	heartbeatConnect, heartbeatRead = 30 * time.Second, 10 * time.Second
)

// heartbeatTransport is the HTTP transport for the heartbeats of all bases that do not set HTTPOptions.Client.
var heartbeatTransport = func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: heartbeatConnect}).DialContext
	t.ResponseHeaderTimeout = heartbeatRead
	return t
}()

// httpTunnel is the HTTP tunnel of one process. It consists of the HTTP server of arklet and the heartbeats (protocol
// 4).
type httpTunnel struct {
	l        *incarnation
	endpoint endpoint
	client   *http.Client
	url      string // URL of the controller for heartbeats; empty = no heartbeats
	failing  bool   // the last heartbeat failed; used only by heartbeat
	d        dialect
}

func (l *incarnation) openHTTP(o *HTTPOptions) error {
	t := &httpTunnel{l: l, client: o.Client, d: httpDialect(!l.b.opts.Faithful)}
	t.endpoint = endpoint{handler: t, log: l.log, listen: o.listener()}
	l.b.mu.Lock()
	if addr := l.b.httpAddr; addr != "" {
		t.endpoint.addr.Store(&addr)
	}
	l.b.mu.Unlock()
	if t.client == nil {
		t.client = &http.Client{Transport: heartbeatTransport}
	}
	if err := t.endpoint.open(l.ctx, l.spawn); err != nil {
		return fmt.Errorf("opening the arklet HTTP server: %w", err)
	}
	l.b.mu.Lock()
	l.http, l.b.httpAddr = t, t.endpoint.address()
	l.b.mu.Unlock()
	l.log.Info("the arklet HTTP server is listening", "addr", t.endpoint.address())
	if o.HeartbeatEndpoint != "" {
		t.url = strings.TrimSuffix(o.HeartbeatEndpoint, "/") + "/heartbeat"
		due := time.Now().Add(
			l.b.opts.scaled(l.b.opts.InitialDelay + time.Duration(l.b.randomFloat()*float64(l.b.opts.HeartbeatJitter))))
		l.runAfter(time.Until(due), func() { t.heartbeat(due) })
	}
	l.applyDisconnect()
	return nil
}

func (l *incarnation) closeHTTP() {
	if l.http != nil {
		l.http.endpoint.close()
	}
}

// listener returns the function that opens the listener of the arklet HTTP server (protocol 2).
func (o *HTTPOptions) listener() func(context.Context) (net.Listener, error) {
	host, port, err := net.SplitHostPort(o.Addr)
	switch {
	case o.listen != nil:
		return o.listen
	case o.Addr == "":
		host = "127.0.0.1"
	case err != nil || port != "":
		return listenOn(o.Addr)
	}
	return func(ctx context.Context) (net.Listener, error) {
		return listenFirstFree(ctx, host, firstHTTPPort, lastHTTPPort)
	}
}

func (t *httpTunnel) setRefusing(refuse bool) {
	if refuse {
		t.endpoint.close()
		return
	}
	if err := t.endpoint.open(t.l.ctx, t.l.spawn); err != nil {
		t.l.log.Warn("could not reopen the arklet HTTP server", "err", err)
	}
}

// ServeHTTP handles a command (protocol 4.2). It writes the response directly to the connection, because a real base
// sends neither a Content-Length nor a Content-Type, and closes the connection.
func (t *httpTunnel) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer t.endpoint.forget(conn)
	defer func() { _ = conn.Close() }()
	reply := t.reply(r.Method, r.URL.Path, body)
	if reply == nil {
		t.holdOpen(conn)
		return
	}
	if _, hit := t.l.b.faults.trigger(fault.KindCorrupt, subject{message: "response"}); hit {
		reply = corrupt(reply)
	}
	if _, err := conn.Write(reply); err != nil {
		t.l.log.Debug("could not send the response", "path", r.URL.Path, "err", err)
	}
}

// holdOpen blocks until the client closes the connection or the process ends.
func (t *httpTunnel) holdOpen(conn net.Conn) {
	stop := context.AfterFunc(t.l.ctx, func() { reset(conn) })
	defer stop()
	_, _ = io.Copy(io.Discard, conn)
}

// reply returns the complete HTTP response to a request, or nil if no response is sent.
func (t *httpTunnel) reply(method, path string, body []byte) []byte {
	switch {
	case method != http.MethodPost:
		const text = "POST http request only supported by arklet"
		return []byte("HTTP/1.1 500 Internal Server Error\r\nContent_Length: " +
			strconv.Itoa(len(text)) + "\r\n\r\n" + text)
	case len(body) > maxBody:
		return []byte("HTTP/1.1 413 Request Entity Too Large\r\ncontent-length: 0\r\n\r\n")
	}
	command := strings.TrimPrefix(path, "/")
	if _, dropped := t.l.b.faults.trigger(fault.KindDeaf, subject{command: command}); dropped {
		return nil
	}
	out, err := t.dispatch(command, body)
	if err != nil {
		t.l.log.Warn("invalid command", "command", command, "err", err)
		if t.l.b.opts.Faithful {
			return nil
		}
		out = exceptionResult(newValidationException(fault.CodeInvalidParameter, err.Error()))
	}
	if out.noAnswer {
		return nil
	}
	answer, err := encode(t.d.response(t.l.identity, out))
	if err != nil {
		t.l.log.Warn("could not encode the response", "command", command, "err", err)
		return nil
	}
	var buf bytes.Buffer
	buf.WriteString("HTTP/1.1 200 OK\r\n\r\n")
	buf.Write(answer)
	return buf.Bytes()
}

// dispatch decodes the request body and runs the command. It returns an error if the body is not a JSON object.
func (t *httpTunnel) dispatch(command string, body []byte) (commandResult, error) {
	l := t.l
	switch command {
	case cmdHelp:
		return run(body, func(*struct{}) commandResult { return l.help() })
	case cmdQueryAll:
		return run(body, func(*struct{}) commandResult { return l.queryAll() })
	case cmdHealth:
		return run(body, l.healthCommand)
	case cmdInstall:
		return run(body, l.installCommand)
	case cmdUninstall:
		return run(body, l.uninstallCommand)
	case cmdSwitch:
		return run(body, l.switchCommand)
	case cmdBatch:
		return run(body, func(r *batchRequest) commandResult { return l.batchCommand(r, ark.Hot) })
	case cmdQueryOps:
		return run(body, l.queryOps)
	default:
		if l.b.opts.Faithful { // as a real base, check the body first
			return run(body, func(*struct{}) commandResult { return commandResult{unknown: true} })
		}
		return commandResult{unknown: true, code: fault.CodeInvalidRequest}, nil
	}
}

func run[T any](body []byte, handle func(*T) commandResult) (commandResult, error) {
	req, err := decodeObject[T](body)
	if err != nil && !errors.Is(err, errFields) {
		return commandResult{}, err
	}
	return handle(req), nil // invalid fields are treated as an empty request
}

// help returns the list of commands (protocol 4.4).
func (l *incarnation) help() commandResult {
	return l.query(subject{command: cmdHelp}, func() commandResult {
		return ok([]wireCommand{
			{"list all supported commands", cmdHelp},
			{"install one ark biz", cmdInstall},
			{"install one ark biz", cmdBatch},
			{"uninstall one ark biz", cmdUninstall},
			{"switch one ark biz", cmdSwitch},
			{"query all ark biz(including master biz)", cmdQueryAll},
			{"get all health info", cmdHealth},
			{"query ark biz ops", cmdQueryOps},
		})
	})
}

// heartbeat sends a heartbeat and schedules the next heartbeat at a fixed rate. Unlike over MQTT, heartbeats continue
// after a failed heartbeat (protocol 4.1).
func (t *httpTunnel) heartbeat(due time.Time) {
	err := t.sendHeartbeat()
	if err != nil && !t.failing && t.l.ctx.Err() == nil { // one log line for consecutive failures
		t.l.log.Warn("could not send a heartbeat", "err", err)
	}
	t.failing = err != nil
	now := time.Now()
	next := due.Add(t.l.b.opts.heartbeatInterval(true))
	for next.Before(now) { // the response took longer than the interval
		next = next.Add(t.l.b.opts.heartbeatInterval(true))
	}
	t.l.runAfter(next.Sub(now), func() { t.heartbeat(next) })
}

func (t *httpTunnel) sendHeartbeat() error {
	sub := subject{message: "heart"}
	fs := &t.l.b.faults
	if _, suppressed := fs.trigger(fault.KindSilent, sub); suppressed {
		return nil
	}
	if _, disconnected := fs.inEffectFor(fault.KindDisconnect, sub); disconnected {
		return errors.New("disconnected by a fault")
	}
	if f, hit := fs.trigger(fault.KindDelay, sub); hit && !t.l.sleep(f.wait) {
		return nil
	}
	body, err := encode(t.l.heartbeat(t.port()))
	if err != nil {
		return err
	}
	if _, hit := fs.trigger(fault.KindCorrupt, sub); hit {
		body = corrupt(body)
	}
	times := 1
	if _, hit := fs.trigger(fault.KindDuplicate, sub); hit {
		times = 2
	}
	for range times {
		if err := t.post(body); err != nil {
			return err
		}
	}
	return nil
}

func (t *httpTunnel) post(body []byte) error {
	req, err := http.NewRequestWithContext(t.l.ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("creating the heartbeat request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.client.Do(req)
	if err != nil {
		return fmt.Errorf("sending the heartbeat: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024)) // for the error only
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the controller responded to the heartbeat with %s: %s", resp.Status, text)
	}
	return nil
}

func (t *httpTunnel) port() int {
	_, port, _ := net.SplitHostPort(t.endpoint.address())
	n, _ := strconv.Atoi(port) // an address of a listener is valid
	return n
}

// HTTPAddr returns the address (host:port) of the current or last arklet HTTP server. It is empty if no server has
// been started yet.
func (b *Base) HTTPAddr() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.httpAddr
}
