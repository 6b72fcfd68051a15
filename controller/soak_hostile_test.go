package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// mischief makes up what a hostile base says; the same for the same seed.
type mischief struct {
	*rand.Rand
	said []saying // earlier, to be said again
}

// saying is a message on the topics of an identity.
type saying struct{ identity, kind, data string }

func newMischief(seed uint64) *mischief { return &mischief{Rand: rand.New(rand.NewPCG(seed, 18))} }

func one(m *mischief, of ...string) string { return of[m.IntN(len(of))] }

func (m *mischief) identity() string {
	name := "h-" + strconv.Itoa(m.IntN(soakIdentities))
	switch m.IntN(50) {
	case 0:
		return name + strings.Repeat("x", 300)
	case 1:
		return name + "\u202e"
	}
	return name
}

// next is the n-th message. Each 250th is huge, and each tenth was said before.
func (m *mischief) next(n int) saying {
	s := saying{identity: m.identity()}
	switch {
	case n%250 == 0:
		s.kind, s.data = m.huge()
		return s
	case len(m.said) > 0 && m.IntN(10) == 0:
		return m.said[m.IntN(len(m.said))]
	}
	switch m.IntN(12) {
	case 0:
		junk := make([]byte, m.IntN(2048))
		for i := range junk {
			junk[i] = byte(m.Uint32())
		}
		s.kind, s.data = one(m, "heart", "health", "simpleBiz", "biz", "bizOperation", "queryBaseline",
			"baseline"), string(junk)
	case 1, 2, 3:
		s.kind, s.data = "heart", m.heartbeat(s.identity, "activated")
	case 4:
		s.kind, s.data = "heart", one(m,
			m.heartbeat(s.identity, "deactivated"), m.heartbeat(goodName(0), "deactivated"), m.heartbeat("", ""),
			strings.Replace(m.heartbeat(s.identity, "activated"), `"127.`, `"169.254.`, 1),
			strings.Replace(m.heartbeat(s.identity, "activated"), `"base"`, `"`+strings.Repeat("b", 300)+`"`, 1),
			strings.Replace(m.heartbeat(s.identity, "activated"), `"base"`, `"\u001b[2J"`, 1),
			strings.Replace(m.heartbeat(s.identity, "activated"), `"port":0`, `"port":-1`, 1))
	case 5, 6:
		s.kind, s.data = "simpleBiz", m.list(m.IntN(20))
	case 7:
		s.kind, s.data = "health", fmt.Sprintf(
			`{"code":"SUCCESS","data":{"healthData":{"cpu":{"count":%d},"jvm":{"run time(s)":%d,"java used metaspace":%d,"java max metaspace":%d}}}}`,
			m.Int64(), m.IntN(1000), m.Int64(), m.Int64())
	case 8:
		s.kind, s.data = "bizOperation", fmt.Sprintf(
			`{"command":%q,"bizName":"m","bizVersion":"%d","response":{"code":%q}}`,
			one(m, "installBiz", "uninstallBiz", "x"), m.IntN(9), one(m, "SUCCESS", "FAILED", ""))
	case 9:
		s.kind, s.data = "batchInstallBizResponse", `{"response":{"code":"FAILED","data":{"bizUrlToResponse":{"a":{"code":"FAILED"},"b":{"code":"FAILED","message":"`+strings.Repeat("y", m.IntN(9000))+`"}}}}}`
	case 10:
		s.kind, s.data = "queryBaseline", `{"identity":"`+s.identity+`","name":"base","version":"1"}`
	default:
		s.kind, s.data = one(m, "gossip", "", "heart/beat", "$SYS"), "{}"
	}
	if len(m.said) < 500 {
		m.said = append(m.said, s)
	} else {
		m.said[m.IntN(len(m.said))] = s
	}
	return s
}

func (m *mischief) heartbeat(identity, state string) string {
	return fmt.Sprintf(`{"baseMetadata":{"identity":%q,"name":"base","version":"%d"},"localIP":"127.%d.0.1","localHostName":"host-%d","port":0,"state":%q}`,
		identity, m.IntN(3), m.IntN(100), m.IntN(1000), state)
}

func (m *mischief) list(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"name":"m-%d","version":"%d","state":%q,"latestStateRecord":{"changeTime":%d,"reason":"STARTED","state":"ACTIVATED"}}`,
			i, m.IntN(3), one(m, "activated", "broken", "odd"), m.Int64N(1<<48))
	}
	return "[" + strings.TrimPrefix(b.String(), ",") + "]"
}

func (m *mischief) huge() (kind, data string) {
	large := hugeSayings()
	s := large[m.IntN(len(large))]
	return s.kind, s.data
}

// hugeSayings are close to, and beyond, the megabyte that a message may have.
var hugeSayings = sync.OnceValue(func() []saying {
	const large = 1<<20 - 200
	var answers strings.Builder
	for i := 0; answers.Len() < large-100; i++ {
		fmt.Fprintf(&answers, `,"%d":{}`, i)
	}
	return []saying{
		{kind: "heart", data: `"` + strings.Repeat("x", 3<<19) + `"`},
		{kind: "heart", data: `{"masterBizInfo":{},"port":` + strings.Repeat("9", large) + `}`},
		{kind: "heart", data: strings.Repeat("[", large)},
		{kind: "simpleBiz", data: "[" + strings.Repeat("{},", large/3) + "{}]"},
		{kind: "simpleBiz", data: "[" + strings.Repeat("1,", large/2) + "1]"},
		{kind: "simpleBiz", data: newMischief(1).list(5000)},
		{kind: "simpleBiz", data: newMischief(1).list(5001)},
		{kind: "bizOperation",
			data: `{"command":"installBiz","response":{"code":"FAILED","message":"` + strings.Repeat("\\n", large/2) +
				`"}}`},
		{kind: "batchInstallBizResponse",
			data: `{"response":{"code":"FAILED","data":{"bizUrlToResponse":{` + answers.String()[1:] + `}}}}`},
	}
})

// hostileMQTT sends n messages over a connection of its own.
func (w *soak) hostileMQTT(ctx context.Context, m *mischief, n int, sent *atomic.Int64) {
	c := w.connect(fmt.Sprintf("hostile-%p", m))
	defer c.Disconnect(0)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var tokens []paho.Token
	for i := range n {
		s := m.next(i + 1)
		stamp := time.Now().UnixMilli() + m.Int64N(1<<30) - 1<<29 // in any order
		if m.IntN(100) == 0 {
			stamp = 1 << 60
		}
		tokens = append(tokens,
			c.Publish("koupleless_dev/"+s.identity+"/base/"+s.kind, 1, false,
				fmt.Sprintf(`{"data":%s,"publishTimestamp":%d}`, s.data, stamp)))
		if len(tokens) < 32 && i+1 < n {
			continue
		}
		for _, token := range tokens {
			select {
			case <-token.Done():
				if err := token.Error(); err != nil {
					w.Errorf("publishing: %v", err)
					return
				}
			case <-ctx.Done():
				w.Error("the soak takes too long")
				return
			}
		}
		sent.Add(int64(len(tokens)))
		tokens = tokens[:0]
		for atomic.LoadInt64(&w.server.Info.Inflight) > inFlight && ctx.Err() == nil {
			<-tick.C
		}
	}
}

// hostileHTTP posts to the port for heartbeats.
func (w *soak) hostileHTTP(ctx context.Context, m *mischief) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for n := 1; n <= scaled(soakOverHTTP)/2 && ctx.Err() == nil; n++ {
		s := m.next(n)
		switch m.IntN(20) {
		case 0: // a base that came over MQTT
			s.data = m.heartbeat(goodName(m.IntN(soakGood)), "deactivated")
		case 1: // from another address than its own
			s.data = strings.Replace(m.heartbeat(goodName(soakGood), "deactivated"), ".0.1", ".0.2", 1)
		case 2:
			s.data = strings.Replace(m.heartbeat(s.identity, "activated"), `"127.`, `"10.`, 1)
		case 3, 4:
			s.data = m.heartbeat(s.identity, "activated")
		}
		if n == 1 {
			s = hugeSayings()[0]
		}
		if path := one(m, "/heartbeat", "/heartbeat", "/queryBaseline"); w.post(client, path, s.data) == 0 {
			return
		}
	}
}
