package stdio_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"github.com/koupleless/koupsandbox/fakebase/stdio"
)

// FuzzServe: whatever comes over the streams of a process, serving ends when they do, and all that was
// begun has ended too.
func FuzzServe(f *testing.F) {
	f.Fuzz(func(t *testing.T, preface bool, raw []byte) {
		synctest.Test(t, func(t *testing.T) { // it lingers for a second
			here, there := net.Pipe()
			under := 0
			served := make(chan struct{})
			go func() {
				defer close(served)
				stdio.Serve(context.Background(), there, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					under++
					defer func() { under-- }()
					_, _ = io.Copy(io.Discard, r.Body) // it may break off
				}), 0)
			}()
			read := make(chan struct{})
			go func() {
				defer close(read)
				_, _ = io.Copy(io.Discard, here) // what is answered does not count
			}()
			if preface {
				raw = append([]byte(http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"), raw...)
			}
			_, _ = here.Write(raw) // the other side may end first
			_ = here.Close()
			<-served
			<-read
			if under != 0 {
				t.Errorf("%d requests are under way", under)
			}
		})
	})
}
