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

// The clock of a server's machine is what it is ahead, or behind; what the way of an answer explains is none.
func TestAhead(t *testing.T) {
	for name, by := range map[string]time.Duration{"the same": 0, "an hour ahead": time.Hour,
		"a minute behind": -time.Minute} {
		t.Run(name, func(t *testing.T) {
			client, _, _ := serve(t, func(mux *http.ServeMux) {
				mux.HandleFunc("POST /Clock", func(w http.ResponseWriter, _ *http.Request) {
					_ = json.NewEncoder(w).Encode(time.Now().Add(by))
				})
			})
			began := time.Now()
			got, err := client.Ahead(t.Context())
			took := time.Since(began)
			if d := got - by; err != nil || d.Abs() > took {
				t.Errorf("it is %s ahead, want %s, within the %s that it took; error %v", got, by, took, err)
			}
		})
	}
}

type question struct {
	Text string `json:"text"`
}

const (
	echo  rpc.Unary[question, []string] = "Echo"
	count rpc.Stream[int, []string]     = "Count"
)

var errAway = errors.New("nobody is there")

// serve returns a client of the methods that register adds, and a function that ends the server.
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
		server.Close() // waits for the methods
	})
	t.Cleanup(end)
	return &rpc.Client{Transport: transport, Unreachable: errAway}, server.URL, end
}

func TestUnary(t *testing.T) {
	c, url, end := serve(t, func(mux *http.ServeMux) {
		echo.Handle(mux, func(_ context.Context, q question) ([]string, error) {
			switch q.Text {
			case "refuse":
				return []string{"half"}, fmt.Errorf("round one: %w", rpc.Errorf(http.StatusConflict, "not %s", "now"))
			case "fail":
				return nil, errors.New("out of paper")
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
		"refuse": {nil, rpc.Errorf(http.StatusConflict, "round one: not now")},
		"fail":   {nil, rpc.Errorf(http.StatusInternalServerError, "out of paper")},
	} {
		out, err := echo.Call(t.Context(), c, question{text})
		if d := cmp.Diff(want.out, out); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
		var refused *rpc.Error
		errors.As(err, &refused)
		if want.err == nil && err != nil || want.err != nil && !cmp.Equal(want.err, error(refused)) {
			t.Errorf("%s gave %v, not %v", text, err, want.err)
		}
	}
	if _, err := echo.Call(t.Context(), c, question{"panic"}); !errors.Is(err, errAway) {
		t.Errorf("a broken answer gave %v", err)
	}

	// As curl does it.
	for body, want := range map[string]string{
		`{"text": "x"}`:     `200 ["x"]`,
		`{"txt": "x"}`:      `400 unknown field \"txt\""}`,
		`{"text": "refuse"`: `400 unexpected EOF"}`,
		`{"text": "fail"}`:  `500 {"code":500,"message":"out of paper"}`,
	} {
		answer, err := http.Post(url+"/Echo", "application/x-www-form-urlencoded", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if code, end, _ := strings.Cut(want, " "); strconv.Itoa(answer.StatusCode) != code ||
			!strings.HasSuffix(strings.TrimSpace(string(text)), end) {
			t.Errorf("%s was answered with %d %s, not %s", body, answer.StatusCode, text, want)
		}
	}
	var refused *rpc.Error
	if _, err := rpc.Unary[int, int]("None").Call(t.Context(), c, 1); !errors.As(err, &refused) ||
		!strings.Contains(err.Error(), "None") || !strings.Contains(err.Error(), "404") {
		t.Errorf("a method that is not gave %v", err)
	}
	end()
	if out, err := echo.Call(t.Context(), c, question{"x"}); !errors.Is(err, errAway) || out != nil {
		t.Errorf("without a server: %v, %v", out, err)
	}
}

func TestStream(t *testing.T) {
	c, _, _ := serve(t, func(mux *http.ServeMux) {
		count.Handle(mux, func(_ context.Context, n int, send func([]string)) error {
			var wg sync.WaitGroup
			for range n { // at the same time
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
			t.Errorf("of %d items %d came, then %v", n, got, err)
		}
		var refused *rpc.Error
		if n == 3 && (!errors.As(err, &refused) || refused.Code != http.StatusServiceUnavailable) {
			t.Errorf("the error is %#v", err)
		}
	}
}

// Items arrive while the stream goes on, and a client that goes away ends it.
func TestClientGoesAway(t *testing.T) {
	ended := make(chan struct{})
	c, _, _ := serve(t, func(mux *http.ServeMux) {
		count.Handle(mux, func(ctx context.Context, _ int, send func([]string)) error {
			send(nil)
			<-ctx.Done()
			close(ended)
			return nil
		})
		echo.Handle(mux, func(ctx context.Context, _ question) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	})
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := count.Call(ctx, c, 1, func([]string) { cancel(why) }); !errors.Is(err, why) {
		t.Errorf("the stream ended with %v", err)
	}
	<-ended
	if _, err := echo.Call(ctx, c, question{}); !errors.Is(err, why) {
		t.Errorf("the call ended with %v", err)
	}
}

// A server that goes away in the middle is not the end of a stream.
func TestServerGoesAway(t *testing.T) {
	c, _, _ := serve(t, func(mux *http.ServeMux) {
		count.Handle(mux, func(_ context.Context, _ int, send func([]string)) error {
			send(nil)
			panic(http.ErrAbortHandler)
		})
	})
	var got int
	if err := count.Call(t.Context(), c, 1, func([]string) { got++ }); !errors.Is(err, errAway) || got != 1 {
		t.Errorf("%d items, then %v", got, err)
	}
}
