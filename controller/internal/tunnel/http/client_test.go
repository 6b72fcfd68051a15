package httptunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

var (
	baseAddress = tunnel.Address{Identity: "a", IP: "198.18.0.1", Port: 1240}
	biz1        = arklet.Module{Name: "biz1", Version: "1.0.0", URL: "file:///m/biz1.jar"}
	install     = arklet.Request{Command: arklet.CommandInstallBiz, Module: biz1}
	health      = arklet.Request{Command: arklet.CommandHealth}
	list        = arklet.Request{Command: arklet.CommandQueryAllBiz}
)

// sameError compares two errors with errors.Is.
var sameError = cmp.Comparer(func(x, y error) bool { return errors.Is(x, y) || errors.Is(y, x) })

const healthBody = `{"baseIdentity":"a","code":"SUCCESS","data":{"healthData":{"jvm":{"java committed metaspace":2,"java max metaspace":3,"java used metaspace":1,"run time(s)":4},"masterBizInfo":{"bizName":"base","bizState":"activated","bizVersion":"1.0.0","webContextPath":"/"}}}}`

// TestAnswers checks how the tunnel handles the possible responses of arklet's HTTP server (protocol 4.2). Each
// response arrives one second after the request.
func TestAnswers(t *testing.T) {
	anyErr := cmpopts.AnyError
	cases := []struct {
		name    string
		request arklet.Request
		wire    string
		sent    string  // expected request; empty means that it is not checked
		want    []event // expected call of the handler; From.At is relative to the request
	}{
		{
			name: "installed", request: install,
			wire: response(`{"baseIdentity":"a","code":"SUCCESS","data":{"bizInfos":[{"bizName":"biz1","bizState":"activated","bizVersion":"1.0.0"}],"code":"SUCCESS","elapsedSpace":1,"message":"Install Biz: biz1:1.0.0 success"}}`),
			sent: `POST 198.18.0.1:1240 /installBiz {"bizName":"biz1","bizVersion":"1.0.0","bizUrl":"file:///m/biz1.jar"}`,
			want: []event{{From: origin(time.Second),
				Answer: arklet.Answer{Command: arklet.CommandInstallBiz, Module: biz1, Code: "SUCCESS",
					DataCode: "SUCCESS", DataMessage: "Install Biz: biz1:1.0.0 success",
					PublishedAt: timeAt(time.Second)}}},
		},
		{
			name: "an exception in the handler", request: install,
			wire: response(`{"code":"CMD_PROCESS_INTERNAL_ERROR","errorStackTrace":"java.io.IOException\n\tat …","message":"Internal Error: java.io.IOException: x"}`),
			want: []event{{From: origin(time.Second),
				Answer: arklet.Answer{Command: arklet.CommandInstallBiz, Module: biz1,
					Code: "CMD_PROCESS_INTERNAL_ERROR", Message: "Internal Error: java.io.IOException: x",
					PublishedAt: timeAt(time.Second)}}},
		},
		{
			name: "switched", request: arklet.Request{Command: arklet.CommandSwitchBiz,
				Module: arklet.Module{Name: "biz1", Version: "1.0.0"}},
			wire: response(`{"baseIdentity":"a","code":"SUCCESS","data":{"code":"SUCCESS","message":"Switch biz: biz1:1.0.0 is activated."}}`),
			sent: `POST 198.18.0.1:1240 /switchBiz {"bizName":"biz1","bizVersion":"1.0.0"}`,
			want: []event{{From: origin(time.Second),
				Answer: arklet.Answer{Command: arklet.CommandSwitchBiz,
					Module: arklet.Module{Name: "biz1", Version: "1.0.0"}, Code: "SUCCESS", DataCode: "SUCCESS",
					DataMessage: "Switch biz: biz1:1.0.0 is activated.", PublishedAt: timeAt(time.Second)}}},
		},
		{
			name: "a command that it does not know", request: install,
			wire: response(`{"code":"CMD_NOT_FOUND","message":"please follow the doc"}`),
			want: []event{{From: origin(time.Second),
				Answer: arklet.Answer{Command: arklet.CommandInstallBiz, Module: biz1, Code: "CMD_NOT_FOUND",
					Message: "please follow the doc", PublishedAt: timeAt(time.Second)}}},
		},
		{
			name: "modules, as of the request", request: list,
			wire: response(`{"baseIdentity":"a","code":"SUCCESS","data":[{"bizName":"biz1","bizState":"activated","bizStateRecords":[],"bizVersion":"1.0.0","mainClass":"x","webContextPath":"biz1"}]}`),
			sent: `POST 198.18.0.1:1240 /queryAllBiz {}`,
			want: []event{{From: origin(0),
				List: []arklet.Biz{
					{Name: "biz1", Version: "1.0.0", State: arklet.StateActivated, WebContextPath: "biz1"}}}},
		},
		{
			name: "health, as of the request", request: health, wire: response(healthBody),
			want: []event{{From: origin(0),
				Health: arklet.Health{MetaspaceUsed: 1, MetaspaceCommitted: 2, MetaspaceMax: 3,
					RunTime: 4 * time.Second, MasterActive: true}}},
		},
		{
			name: "a query that it refuses", request: health,
			wire: response(`{"code":"CMD_PROCESS_INTERNAL_ERROR","message":"Internal Error: x"}`),
			want: []event{
				{From: origin(time.Second), Kind: "health", Reason: tunnel.Unexpected, Err: anyErr},
				{From: origin(time.Second), Request: health, Err: notRefused},
			},
		},
		{
			name: "plain text with status 500", request: install,
			wire: "HTTP/1.1 500 Internal Server Error\r\nContent_Length: 42\r\n\r\nPOST http request only " +
				"supported by arklet",
			want: []event{{From: origin(time.Second), Request: install, Err: tunnel.ErrRefused}},
		},
		{
			name: "too large a request", request: install,
			wire: "HTTP/1.1 413 Request Entity Too Large\r\ncontent-length: 0\r\n\r\n",
			want: []event{{From: origin(time.Second), Request: install, Err: tunnel.ErrRefused}},
		},
		{
			name: "a redirect is not followed", request: install,
			wire: "HTTP/1.1 302 Found\r\nLocation: http://198.18.0.9/\r\n\r\n",
			want: []event{{From: origin(time.Second), Request: install, Err: tunnel.ErrRefused}},
		},
		{
			name: "another server", request: list, wire: response("<html>hello</html>"),
			want: []event{
				{From: origin(time.Second), Kind: "queryAllBiz", Reason: tunnel.Malformed, Err: tunnel.ErrRefused},
				{From: origin(time.Second), Request: list, Err: tunnel.ErrRefused},
			},
		},
		{
			name: "another protocol", request: list, wire: "SSH-2.0-OpenSSH_9.2\r\n",
			want: []event{{From: origin(time.Second), Request: list, Err: tunnel.ErrRefused}},
		},
		{
			name: "JSON that is not arklet's", request: install, wire: response(`{"status":"UP"}`),
			want: []event{
				{From: origin(time.Second), Kind: "installBiz", Reason: tunnel.Malformed, Err: tunnel.ErrRefused},
				{From: origin(time.Second), Request: install, Err: tunnel.ErrRefused},
			},
		},
		{
			name: "code is not a string", request: install, wire: response(`{"code":200}`),
			want: []event{
				{From: origin(time.Second), Kind: "installBiz", Reason: tunnel.Malformed, Err: tunnel.ErrRefused},
				{From: origin(time.Second), Request: install, Err: tunnel.ErrRefused},
			},
		},
		{
			name: "another base at this address", request: list,
			wire: response(`{"baseIdentity":"b","code":"SUCCESS","data":[]}`),
			want: []event{
				{From: origin(time.Second), Kind: "queryAllBiz", Reason: tunnel.WrongIdentity, Err: tunnel.ErrRefused},
				{From: origin(time.Second), Request: list, Err: tunnel.ErrRefused},
			},
		},
		{
			name: "cut short", request: list, wire: response(`{"baseIdentity":"a","code":"SUCC`),
			want: []event{
				{From: origin(time.Second), Kind: "queryAllBiz", Reason: tunnel.Malformed, Err: errCutShort},
				{From: origin(time.Second), Request: list, Err: notRefused},
			},
		},
		{
			name: "an empty body", request: install, wire: response(""),
			want: []event{
				{From: origin(time.Second), Kind: "installBiz", Reason: tunnel.Malformed, Err: errCutShort},
				{From: origin(time.Second), Request: install, Err: notRefused},
			},
		},
		{
			name: "closed without a word", request: install, wire: "",
			want: []event{{From: origin(time.Second), Request: install, Err: notRefused}},
		},
		{
			name: "too large", request: list,
			wire: response(`{"code":"SUCCESS","message":"` + strings.Repeat("x", arklet.MaxPayload) + `"}`),
			want: []event{
				{From: origin(time.Second), Kind: "queryAllBiz", Reason: tunnel.Oversized, Err: arklet.ErrTooLarge},
				{From: origin(time.Second), Request: list, Err: arklet.ErrTooLarge},
			},
		},
		{
			name: "almost too large", request: list,
			wire: response(`{"code":"SUCCESS","data":[],"message":"` + strings.Repeat("x", arklet.MaxPayload-100) + `"}`),
			want: []event{{From: origin(0), List: []arklet.Biz{}}},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				tn, h, f := newClient(t, Options{}, func(string, *http.Request, string) string {
					<-time.After(time.Second)
					return c.wire
				})
				if err := tn.Send(t.Context(), baseAddress, c.request); err != nil {
					t.Fatal(err)
				}
				tn.calls.Wait()
				got := h.takeEvents()
				for i := range got {
					got[i].From.At = timeAt(got[i].From.At.Sub(began))
					if !got[i].Answer.PublishedAt.IsZero() {
						got[i].Answer.PublishedAt = timeAt(got[i].Answer.PublishedAt.Sub(began))
					}
				}
				if diff := cmp.Diff(c.want, got, sameError); diff != "" {
					t.Errorf("handler calls (-want +got):\n%s", diff)
				}
				if c.sent != "" {
					if diff := cmp.Diff([]string{c.sent}, f.requests); diff != "" {
						t.Errorf("sent (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

func origin(after time.Duration) tunnel.Origin {
	return tunnel.Origin{Tunnel: tunnel.HTTP, Identity: "a", IP: baseAddress.IP, At: timeAt(after)}
}

func timeAt(after time.Duration) time.Time { return time.UnixMilli(0).Add(after) }

// noneOf matches every error except the given errors.
type noneOf []error

func (u noneOf) Error() string { return fmt.Sprintf("none of %v", []error(u)) }
func (u noneOf) Is(err error) bool {
	for _, e := range u {
		if errors.Is(err, e) {
			return false
		}
	}
	return err != nil
}

// notRefused matches a network failure: any error except tunnel.ErrRefused and tunnel.ErrTimedOut.
var notRefused error = noneOf{tunnel.ErrRefused, tunnel.ErrTimedOut}

func TestNoAnswer(t *testing.T) {
	never := func(_ string, _ *http.Request, _ string) string {
		<-time.After(time.Hour)
		return ""
	}
	fails := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
		}
	}
	for name, c := range map[string]struct {
		opts    Options
		request arklet.Request
		answer  func(string, *http.Request, string) string
		want    error
		after   time.Duration
	}{
		"a hung query":    {Options{}, health, never, tunnel.ErrTimedOut, queryTimeout},
		"a hung install":  {Options{}, install, never, tunnel.ErrTimedOut, api.InstallTimeout},
		"its own timeout": {Options{OperationTimeout: time.Second}, install, never, tunnel.ErrTimedOut, time.Second},
		"refused": {Options{Dial: fails(os.NewSyscallError("connect", syscall.ECONNREFUSED))}, install, nil,
			tunnel.ErrRefused, 0},
		"no route": {Options{Dial: fails(os.NewSyscallError("connect", syscall.EHOSTUNREACH))}, install, nil,
			notRefused, 0},
		"connecting hangs": {Options{Dial: fails(context.DeadlineExceeded)}, install, nil, notRefused, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tn, h, _ := newClient(t, c.opts, c.answer)
				began := time.Now()
				if err := tn.Send(t.Context(), baseAddress, c.request); err != nil {
					t.Fatal(err)
				}
				calls := <-h.told
				if took := time.Since(began); took != c.after {
					t.Errorf("the handler was called after %s, want %s", took, c.after)
				}
				want := event{From: tunnel.Origin{Tunnel: tunnel.HTTP, Identity: "a", IP: baseAddress.IP,
					At: time.Now()},
					Request: c.request, Err: c.want}
				if diff := cmp.Diff(want, calls, sameError); diff != "" {
					t.Errorf("handler calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestSendReturnsErrors(t *testing.T) {
	tn, _, _ := newClient(t, Options{}, nil)
	for name, c := range map[string]struct {
		to      tunnel.Address
		command arklet.Command
		want    string
	}{
		"a base without an address": {tunnel.Address{Identity: "a"}, arklet.CommandHealth, `""`},
		"an address that is a name": {tunnel.Address{Identity: "a", IP: "unknown"}, arklet.CommandHealth, `"unknown"`},
		"a command of MQTT only":    {baseAddress, arklet.CommandBatchInstallBiz, tunnel.ErrNotSupported.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tn.Send(t.Context(), c.to, arklet.Request{Command: c.command}); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want an error with %q", err, c.want)
			}
		})
	}
	tn.stop()
	if err := tn.Send(t.Context(), baseAddress, health); !errors.Is(err, ErrStopped) {
		t.Errorf("error %v, want ErrStopped", err)
	}
}

// TestHungBaseDoesNotDelayOthers checks that a base that does not answer does not delay other bases. The queries of
// such a base must be sent one at a time, and waiting queries must be merged into one.
func TestHungBaseDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, hung := make(chan struct{}), make(chan struct{})
		under, most := 0, 0 // concurrent requests at the hung base, and their maximum
		tn, h, f := newClient(t, Options{}, func(addr string, _ *http.Request, _ string) string {
			<-sent // otherwise, a base that answers early would get three queries
			if addr == "198.18.0.1:1238" {
				under++
				most = max(most, under)
				<-hung
				under--
			}
			return response(strings.Replace(healthBody, `"baseIdentity":"a",`, "", 1))
		})
		for i := range 100 {
			to := tunnel.Address{Identity: fmt.Sprint(i), IP: fmt.Sprintf("198.18.0.%d", i+1)}
			for range 3 {
				if err := tn.Send(t.Context(), to, health); err != nil {
					t.Fatal(err)
				}
			}
		}
		close(sent)
		synctest.Wait()
		by := map[string]int{}
		for _, e := range h.takeEvents() {
			by[e.From.Identity]++
		}
		for i := range 100 {
			want := 2 // one in progress, and one for the queries in the meantime
			if i == 0 {
				want = 0
			}
			if got := by[fmt.Sprint(i)]; got != want {
				t.Errorf("base %d: %d answers while another hangs, want %d", i, got, want)
			}
		}
		close(hung)
		tn.calls.Wait()
		if got := len(h.takeEvents()); got != 2 || most != 1 {
			t.Errorf("the hung base answered %d times, %d concurrently, want 2 and 1", got, most)
		}
		if len(f.requests) != 200 || len(tn.queries) != 0 {
			t.Errorf("%d requests, %d queries left, want 200 and 0", len(f.requests), len(tn.queries))
		}
	})
}

func TestMaxOperationsOfBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn, h, _ := newClient(t, Options{}, func(string, *http.Request, string) string {
			<-time.After(time.Minute)
			return response(`{"code":"SUCCESS"}`)
		})
		for i := range maxOperations {
			if err := tn.Send(t.Context(), baseAddress, install); err != nil {
				t.Fatalf("operation %d: %v", i, err)
			}
		}
		if err := tn.Send(t.Context(), baseAddress, install); err == nil {
			t.Error("the operations of one base are not limited")
		}
		other := tunnel.Address{Identity: "b", IP: "198.18.0.2"}
		if err := tn.Send(t.Context(), other, install); err != nil {
			t.Errorf("another base: %v", err)
		}
		tn.calls.Wait()
		if got := len(h.takeEvents()); got != maxOperations+1 || len(tn.running) != 0 {
			t.Errorf("%d answers, %d counts left, want %d and 0", got, len(tn.running), maxOperations+1)
		}
	})
}

func TestStopCancelsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn, h, _ := newClient(t, Options{}, func(string, *http.Request, string) string {
			<-time.After(time.Hour)
			return ""
		})
		for _, r := range []arklet.Request{install, health, health} {
			if err := tn.Send(t.Context(), baseAddress, r); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		began := time.Now()
		tn.stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("stopping took %s", took)
		}
		want := map[arklet.Command]bool{arklet.CommandInstallBiz: true, arklet.CommandHealth: true}
		got := map[arklet.Command]bool{}
		for _, e := range h.takeEvents() {
			got[e.Request.Command] = errors.Is(e.Err, ErrStopped)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls with ErrStopped (-want +got):\n%s", diff)
		}
	})
}
