package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
)

func TestClockOffset(t *testing.T) {
	for name, by := range map[string]time.Duration{"equal": 0, "ahead": time.Hour,
		"behind": -time.Minute} {
		t.Run(name, func(t *testing.T) {
			client, _, _ := serve(t, func(mux *http.ServeMux) {
				mux.HandleFunc("POST /Clock", func(w http.ResponseWriter, _ *http.Request) {
					_ = json.NewEncoder(w).Encode(time.Now().Add(by))
				})
			})
			began := time.Now()
			got, err := client.ClockOffset(t.Context())
			took := time.Since(began)
			if d := got - by; err != nil || d.Abs() > took {
				t.Errorf("ClockOffset() = %s, want %s with a tolerance of %s; error = %v", got, by, took, err)
			}
		})
	}
}

type request struct {
	Text string `json:"text"`
}

const (
	echo  rpc.Unary[request, []string] = "Echo"
	count rpc.Stream[int, []string]    = "Count"
)

var errUnreachable = errors.New("server is unreachable")

// serve starts a server with the methods that the function register adds. It returns a client, the server URL, and a
// function that stops the server.
func serve(t *testing.T, register func(*http.ServeMux)) (c *rpc.Client, url string, end func()) {
	t.Helper()
	mux := http.NewServeMux()
	register(mux)
	server := httptest.NewServer(mux)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}}
	end = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close() // waits for running methods
	})
	t.Cleanup(end)
	return &rpc.Client{Transport: transport, Unreachable: errUnreachable}, server.URL, end
}

func TestUnary(t *testing.T) {
	c, url, end := serve(t, func(mux *http.ServeMux) {
		echo.Handle(mux, func(_ context.Context, q request) ([]string, error) {
			switch q.Text {
			case "reject":
				return []string{"half"}, fmt.Errorf("checking: %w", rpc.Errorf(http.StatusConflict, "not %s", "now"))
			case "fail":
				return nil, errors.New("disk full")
			case "panic":
				panic(http.ErrAbortHandler)
			}
			return []string{q.Text}, nil
		})
	})
	for text, want := range map[string]struct {
		out []string
		err error
	}{
		"x":      {[]string{"x"}, nil},
		"reject": {nil, rpc.Errorf(http.StatusConflict, "checking: not now")},
		"fail":   {nil, rpc.Errorf(http.StatusInternalServerError, "disk full")},
	} {
		out, err := echo.Call(t.Context(), c, request{text})
		if d := cmp.Diff(want.out, out); d != "" {
			t.Errorf("output of %s (-want +got):\n%s", text, d)
		}
		var serverError *rpc.Error
		errors.As(err, &serverError)
		if want.err == nil && err != nil || want.err != nil && !cmp.Equal(want.err, error(serverError)) {
			t.Errorf("error of %s = %v, want %v", text, err, want.err)
		}
	}
	if _, err := echo.Call(t.Context(), c, request{"panic"}); !errors.Is(err, errUnreachable) {
		t.Errorf("error of an incomplete response = %v, want Unreachable", err)
	}

	// Requests of curl.
	for body, want := range map[string]string{
		`{"text": "x"}`:     `200 ["x"]`,
		`{"txt": "x"}`:      `400 unknown field \"txt\""}`,
		`{"text": "reject"`: `400 unexpected EOF"}`,
		`{"text": "fail"}`:  `500 {"code":500,"message":"disk full"}`,
	} {
		answer, err := http.Post(url+"/Echo", "application/x-www-form-urlencoded", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if code, end, _ := strings.Cut(want, " "); strconv.Itoa(answer.StatusCode) != code ||
			!strings.HasSuffix(strings.TrimSpace(string(text)), end) {
			t.Errorf("response to %s = %d %s, want %s", body, answer.StatusCode, text, want)
		}
	}
	var serverError *rpc.Error
	if _, err := rpc.Unary[int, int]("None").Call(t.Context(), c, 1); !errors.As(err, &serverError) ||
		!strings.Contains(err.Error(), "None") || !strings.Contains(err.Error(), "404") {
		t.Errorf("error of an unknown method = %v, want its name and 404", err)
	}
	end()
	if out, err := echo.Call(t.Context(), c, request{"x"}); !errors.Is(err, errUnreachable) || out != nil {
		t.Errorf("output = %v, error = %v; want Unreachable", out, err)
	}
}

func TestStream(t *testing.T) {
	c, _, _ := serve(t, func(mux *http.ServeMux) {
		count.Handle(mux, func(_ context.Context, n int, send func([]string)) error {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() { send([]string{"item"}) })
			}
			wg.Wait()
			if n == 3 {
				return rpc.Errorf(http.StatusServiceUnavailable, "no more")
			}
			return nil
		})
	})
	for n, want := range map[int]string{0: "<nil>", 2: "<nil>", 3: "no more", 50: "<nil>"} {
		var got int
		err := count.Call(t.Context(), c, n, func(item []string) {
			if len(item) == 1 && item[0] == "item" {
				got++
			}
		})
		if got != n || fmt.Sprint(err) != want {
			t.Errorf("want %d items, got %d, error = %v", n, got, err)
		}
		var serverError *rpc.Error
		if n == 3 && (!errors.As(err, &serverError) || serverError.Code != http.StatusServiceUnavailable) {
			t.Errorf("error = %#v, want status 503", err)
		}
	}
}

// TestClientDisconnects checks that the client receives items before the stream ends, and that the context of a
// method is canceled when the client disconnects.
func TestClientDisconnects(t *testing.T) {
	ended := make(chan struct{})
	c, _, _ := serve(t, func(mux *http.ServeMux) {
		count.Handle(mux, func(ctx context.Context, _ int, send func([]string)) error {
			send(nil)
			<-ctx.Done()
			close(ended)
			return nil
		})
		echo.Handle(mux, func(ctx context.Context, _ request) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	})
	canceled := errors.New("canceled")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := count.Call(ctx, c, 1, func([]string) { cancel(canceled) }); !errors.Is(err, canceled) {
		t.Errorf("error of the stream = %v, want the cause", err)
	}
	<-ended
	if _, err := echo.Call(ctx, c, request{}); !errors.Is(err, canceled) {
		t.Errorf("error of the call = %v, want the cause", err)
	}
}

func TestIncompleteStreamIsAnError(t *testing.T) {
	c, _, _ := serve(t, func(mux *http.ServeMux) {
		count.Handle(mux, func(_ context.Context, _ int, send func([]string)) error {
			send(nil)
			panic(http.ErrAbortHandler)
		})
	})
	var got int
	if err := count.Call(t.Context(), c, 1, func([]string) { got++ }); !errors.Is(err, errUnreachable) || got != 1 {
		t.Errorf("items = %d, error = %v; want 1, Unreachable", got, err)
	}
}
