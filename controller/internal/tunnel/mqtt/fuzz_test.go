package mqtt

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// message is a message as the library hands it on.
type message struct {
	topic    string
	payload  []byte
	retained bool
}

func (m message) Duplicate() bool   { return false }
func (m message) Qos() byte         { return 1 }
func (m message) Retained() bool    { return m.retained }
func (m message) Topic() string     { return m.topic }
func (m message) MessageID() uint16 { return 1 }
func (m message) Payload() []byte   { return m.payload }
func (m message) Ack()              {}

// FuzzReceive holds the tunnel to its promise for any message: what is on the topic of a base is acted
// on or rejected, once, for an identity that is one level of a topic, and nothing else is.
func FuzzReceive(f *testing.F) {
	f.Fuzz(func(t *testing.T, topic string, payload []byte, retained bool) {
		synctest.Test(t, func(t *testing.T) {
			h := newHearing()
			tun := New(Options{Env: "dev"}, h)
			tun.inbox, tun.queries = newInbox(1), newInbox(1)
			tun.receive(nil, message{topic, payload, retained})
			synctest.Wait()
			tun.inbox.stop()
			tun.queries.stop()
			rest, ours := strings.CutPrefix(topic, "koupleless_dev/")
			at := strings.LastIndex(rest, "/base/")
			told := 1
			if !ours || at < 0 || rest[at:] == "/base/baseline" && arklet.CheckIdentity(rest[:at]) == nil {
				told = 0
			}
			if len(h.lines) != told {
				t.Fatalf("told %d times, want %d", len(h.lines), told)
			}
			if told == 0 {
				return
			}
			line := <-h.lines
			identity, said, _ := strings.Cut(line, ": ")
			rejected := strings.Contains(said, " rejected: ")
			switch {
			case arklet.CheckIdentity(rest[:at]) != nil:
				if !strings.HasPrefix(line, ": ") || !strings.HasSuffix(line, string(tunnel.BeyondLimits)) {
					t.Errorf("the identity %q was told as %q", rest[:at], line)
				}
			case !strings.HasPrefix(line, rest[:at]+": "):
				t.Errorf("%q was told of base %q", line, identity)
			case (retained || len(payload) > arklet.MaxPayload) && !rejected:
				t.Errorf("retained: %t, %d bytes: %q", retained, len(payload), line)
			}
		})
	})
}
