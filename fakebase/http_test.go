package fakebase

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

func httpBase(t *testing.T, opts Options) (*Base, string) {
	t.Helper()
	if opts.Identity == "" {
		opts.Identity = "b1"
	}
	if opts.Catalogue == nil {
		opts.Catalogue = &Catalogue{Fetch: FetchNever}
	}
	if opts.HTTP == nil {
		opts.HTTP = &HTTPOptions{Addr: "127.0.0.1:0"}
	}
	b := start(t, opts)
	return b, httpAddr(t, b)
}

func TestBodyLimit(t *testing.T) {
	_, addr := httpBase(t, Options{})
	fits := `{"bizName":"` + strings.Repeat("x", maxBody-14) + `"}`
	request := func(body string) string {
		return fmt.Sprintf("POST /nothing HTTP/1.1\r\nHost: base\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	want := "HTTP/1.1 200 OK\r\n\r\n" +
		`{"code":"CMD_NOT_FOUND","errorCode":"ModuleController.InvalidRequest","message":"please follow the doc"}`
	if len(fits) != maxBody {
		t.Fatalf("request has %d bytes, want 1 MiB", len(fits))
	}
	if d := cmp.Diff(want, roundTrip(t, addr, request(fits))); d != "" {
		t.Errorf("response to 1 MiB (-want +got):\n%s", d)
	}
	if d := cmp.Diff("HTTP/1.1 413 Request Entity Too Large\r\ncontent-length: 0\r\n\r\n",
		roundTrip(t, addr, request(fits+"x"))); d != "" {
		t.Errorf("response to 1 MiB and 1 byte (-want +got):\n%s", d)
	}
}

func TestExpectContinue(t *testing.T) {
	_, addr := httpBase(t, Options{})
	conn := dialRaw(t, addr, "POST /queryAllBiz HTTP/1.1\r\nHost: base\r\nExpect: "+
		"100-continue\r\nContent-Length: 2\r\n\r\n")
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := io.WriteString(conn, "{}"); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(r)
	if want := "\r\nHTTP/1.1 200 OK\r\n\r\n" + `{"baseIdentity":"b1","code":"SUCCESS","data":[]}`; err != nil ||
		string(rest) != want {
		t.Errorf("%q %v, want %q", rest, err, want)
	}
}

// startController starts an HTTP server that receives heartbeats and responds with the given status.
func startController(t *testing.T, status int) (string, <-chan string) {
	t.Helper()
	got := make(chan string, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- fmt.Sprintf("%s %s %s %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"), body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "SUCCESS")
	}))
	t.Cleanup(srv.Close)
	return srv.URL, got
}

func TestHTTPHeartbeat(t *testing.T) {
	url, got := startController(t, http.StatusInternalServerError)
	_, addr := httpBase(t, Options{
		HostName: "base-0", IP: "10.1.2.3", HeartbeatInterval: 10 * time.Millisecond,
		HTTP: &HTTPOptions{Addr: "127.0.0.1:0", HeartbeatEndpoint: url + "/"},
	})
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	want := `POST /heartbeat application/json {"baseMetadata":{"clusterName":"default","identity":"b1","name":"base","version":"1.0.0"},"localHostName":"base-0","localIP":"10.1.2.3","port":` + port + `,"state":"activated"}`
	for range 3 { // heartbeats continue after an error response
		if d := cmp.Diff(want, <-got); d != "" {
			t.Fatalf("heartbeat (-want +got):\n%s", d)
		}
	}
}

// roundTripper is a function that implements http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestHTTPHeartbeatEvery12Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &incarnation{b: &Base{}, started: time.Now(), timers: map[*pendingTimer]struct{}{}}
		var err error
		l.b, err = New(Options{Identity: "b1"})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		l.log = slog.New(slog.NewTextHandler(&log, nil))
		var cancel context.CancelFunc
		l.ctx, cancel = context.WithCancel(t.Context())
		begun := time.Now()
		var at []time.Duration
		tunnel := &httpTunnel{l: l, url: "http://controller/heartbeat",
			client: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				at = append(at, time.Since(begun))
				if len(at) == 2 {
					sleep(30 * time.Second) // the controller hangs
				}
				status := http.StatusOK
				if len(at) > 2 {
					status = http.StatusUnauthorized
				}
				return &http.Response{StatusCode: status, Status: http.StatusText(status),
					Body: io.NopCloser(&bytes.Reader{})}, nil
			})}}
		tunnel.heartbeat(begun)
		sleep(70 * time.Second)
		synctest.Wait()
		cancel()
		want := []time.Duration{0, 12 * time.Second, 48 * time.Second, 60 * time.Second}
		if d := cmp.Diff(want, at); d != "" {
			t.Errorf("heartbeat times (-want +got):\n%s", d)
		}
		if n := strings.Count(log.String(), "Unauthorized"); n != 1 {
			t.Errorf("warnings of failed heartbeats = %d, want 1:\n%s", n, log.String())
		}
		l.b.mu.Lock()
		l.ended = true
		for p := range l.timers {
			p.timer.Stop()
		}
		l.b.mu.Unlock()
	})
}

func TestFirstFreePort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	_, text, _ := net.SplitHostPort(taken.Addr().String())
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := listenFirstFree(t.Context(), "127.0.0.1", port, port+99)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if got := ln.Addr().(*net.TCPAddr).Port; got <= port || got > port+99 {
		t.Errorf("port = %d, want %d to %d", got, port+1, port+99)
	}
	if _, err := listenFirstFree(t.Context(), "127.0.0.1", port, port); err == nil ||
		!errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), strconv.Itoa(port)) {
		t.Errorf("error without a free port = %v", err)
	}
}

func TestStartFailsIfHTTPPortIsInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	b, err := New(Options{Identity: "b1", HTTP: &HTTPOptions{Addr: taken.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "listening on "+taken.Addr().String()) {
		t.Errorf("Start() = %v, want an error", err)
	}
}

func TestDisconnectRefusesTheHTTPPort(t *testing.T) {
	b, addr := httpBase(t, Options{})
	id := inject(t, b, fault.Fault{Kind: fault.KindDisconnect})
	if conn, err := net.Dial("tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("port is open during the fault")
	}
	b.Clear(id)
	if got := b.Status().HTTPAddr; got != addr {
		t.Errorf("address after the fault = %s, want %s", got, addr)
	}
	roundTrip(t, addr, "POST /health HTTP/1.1\r\nHost: base\r\nContent-Length: 2\r\n\r\n{}")
}

// record queries the record of an asynchronous command with queryBizOps, and returns the response.
func record(t *testing.T, l *incarnation, id string) wireProcessRecord {
	t.Helper()
	out := l.queryOps(&opsRequest{RequestID: jsonString{id, true}})
	r, ok := out.data.(processRecord)
	if !ok {
		t.Fatalf("record %s not found: %+v", id, out)
	}
	return httpDialect(true).process(r)
}

func TestAsynchronousCommands(t *testing.T) {
	for _, faithful := range []bool{false, true} {
		runInBubble(t, fmt.Sprintf("faithful=%v", faithful), func(t *testing.T) {
			b := start(t, Options{Identity: "b1", Faithful: faithful,
				Catalogue: &Catalogue{Fetch: FetchNever, InstallTime: Delay{Min: Duration(10 * time.Second)}}})
			synctest.Wait()
			b.mu.Lock()
			l := b.current
			b.mu.Unlock()
			begun := time.Now().UnixMilli()
			async := func(id string) commandResult {
				r := request("1")
				r.Async, r.RequestID = true, jsonString{id, true}
				out := l.installCommand(r)
				synctest.Wait()
				return out
			}
			if out := async("r1"); out.data.(processRecord).status != opsInitialized {
				t.Errorf("response = %+v", out)
			}
			meta := request("1")
			meta.Async, meta.InstallStrategy, meta.RequestID = true, jsonString{"installOnly", true}, jsonString{"r1",
				true}
			want := wireProcessRecord{ArkBizMeta: meta, RequestID: "r1", Status: opsExecuting,
				ThreadName: "arklet-async-r1", StartTime: begun, StartTimestamp: begun}
			if d := cmp.Diff(want, record(t, l, "r1"), cmp.AllowUnexported(jsonString{})); d != "" {
				t.Errorf("record of a running command (-want +got):\n%s", d)
			}
			// After a conflict, the record of a real base stays INITIALIZED, and the lock of the running command is
			// released (protocol 4.8).
			async("r2")
			conflict := record(t, l, "r2")
			if conflict.Message != "command conflict, exist unfinished command for this biz" ||
				conflict.EndTimestamp != begun {
				t.Errorf("record of the conflict = %+v", conflict)
			}
			if wantStatus := map[bool]string{false: opsFailed,
				true: opsInitialized}[faithful]; conflict.Status != wantStatus {
				t.Errorf("status of the conflict = %s, want %s", conflict.Status, wantStatus)
			}
			third := l.uninstallCommand(request("1"))
			if lockHeld := third.exception == nil && third.code == fault.CodeInstallBizExecuting; lockHeld == faithful {
				t.Errorf("lock is held = %v (%+v)", lockHeld, third)
			}
			sleep(10 * time.Second)
			synctest.Wait()
			end := begun + 10000
			want.Status, want.EndTime, want.EndTimestamp, want.ElapsedTime = opsSucceeded, &end, end, 10000
			if d := cmp.Diff(want, record(t, l, "r1"), cmp.AllowUnexported(jsonString{})); d != "" {
				t.Errorf("record of a completed command (-want +got):\n%s", d)
			}
			inject(t, b, fault.Fault{Kind: fault.KindError, Code: fault.CodeDiskFull})
			r := request("2")
			r.Async, r.RequestID = true, jsonString{"r3", true}
			l.installCommand(r)
			synctest.Wait()
			failure := record(t, l, "r3")
			if failure.Status != opsFailed || failure.Message != "java.io.IOException: No space left on device" ||
				failure.ErrorCode != fault.CodeDiskFull || failure.Throwable == nil ||
				*failure.Throwable.Cause.Message != "No space left on device" {
				t.Errorf("record of a failed command = %+v", failure)
			}
		})
	}
}
