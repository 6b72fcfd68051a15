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

// messageGenerator generates the messages of a hostile base. The sequence of messages depends only on the seed.
type messageGenerator struct {
	*rand.Rand
	sent []generatedMessage // earlier messages, some of which are sent again
}

// generatedMessage is a generated message: the identity and kind that select its topic, and its data.
type generatedMessage struct{ identity, kind, data string }

func newMessageGenerator(seed uint64) *messageGenerator {
	return &messageGenerator{Rand: rand.New(rand.NewPCG(seed, 18))}
}

func pickOne(m *messageGenerator, values ...string) string { return values[m.IntN(len(values))] }

func (m *messageGenerator) identity() string {
	name := "h-" + strconv.Itoa(m.IntN(soakIdentities))
	switch m.IntN(50) {
	case 0:
		return name + strings.Repeat("x", 300)
	case 1:
		return name + "\u202e"
	}
	return name
}

// next returns message n. Every 250th message is huge, and every tenth one repeats an earlier message.
func (m *messageGenerator) next(n int) generatedMessage {
	s := generatedMessage{identity: m.identity()}
	switch {
	case n%250 == 0:
		s.kind, s.data = m.huge()
		return s
	case len(m.sent) > 0 && m.IntN(10) == 0:
		return m.sent[m.IntN(len(m.sent))]
	}
	switch m.IntN(12) {
	case 0:
		junk := make([]byte, m.IntN(2048))
		for i := range junk {
			junk[i] = byte(m.Uint32())
		}
		s.kind, s.data = pickOne(m, "heart", "health", "simpleBiz", "biz", "bizOperation", "queryBaseline",
			"baseline"), string(junk)
	case 1, 2, 3:
		s.kind, s.data = "heart", m.heartbeat(s.identity, "activated")
	case 4:
		s.kind, s.data = "heart", pickOne(m,
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
			pickOne(m, "installBiz", "uninstallBiz", "x"), m.IntN(9), pickOne(m, "SUCCESS", "FAILED", ""))
	case 9:
		s.kind, s.data = "batchInstallBizResponse", `{"response":{"code":"FAILED","data":{"bizUrlToResponse":{"a":{"code":"FAILED"},"b":{"code":"FAILED","message":"`+strings.Repeat("y", m.IntN(9000))+`"}}}}}`
	case 10:
		s.kind, s.data = "queryBaseline", `{"identity":"`+s.identity+`","name":"base","version":"1"}`
	default:
		s.kind, s.data = pickOne(m, "gossip", "", "heart/beat", "$SYS"), "{}"
	}
	if len(m.sent) < 500 {
		m.sent = append(m.sent, s)
	} else {
		m.sent[m.IntN(len(m.sent))] = s
	}
	return s
}

func (m *messageGenerator) heartbeat(identity, state string) string {
	return fmt.Sprintf(`{"baseMetadata":{"identity":%q,"name":"base","version":"%d"},"localIP":"127.%d.0.1","localHostName":"host-%d","port":0,"state":%q}`,
		identity, m.IntN(3), m.IntN(100), m.IntN(1000), state)
}

func (m *messageGenerator) list(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"name":"m-%d","version":"%d","state":%q,"latestStateRecord":{"changeTime":%d,"reason":"STARTED","state":"ACTIVATED"}}`,
			i, m.IntN(3), pickOne(m, "activated", "broken", "odd"), m.Int64N(1<<48))
	}
	return "[" + strings.TrimPrefix(b.String(), ",") + "]"
}

func (m *messageGenerator) huge() (kind, data string) {
	large := hugeMessages()
	s := large[m.IntN(len(large))]
	return s.kind, s.data
}

// hugeMessages returns messages whose size is near or above the maximum of 1 MiB.
var hugeMessages = sync.OnceValue(func() []generatedMessage {
	const large = 1<<20 - 200
	var answers strings.Builder
	for i := 0; answers.Len() < large-100; i++ {
		fmt.Fprintf(&answers, `,"%d":{}`, i)
	}
	return []generatedMessage{
		{kind: "heart", data: `"` + strings.Repeat("x", 3<<19) + `"`},
		{kind: "heart", data: `{"masterBizInfo":{},"port":` + strings.Repeat("9", large) + `}`},
		{kind: "heart", data: strings.Repeat("[", large)},
		{kind: "simpleBiz", data: "[" + strings.Repeat("{},", large/3) + "{}]"},
		{kind: "simpleBiz", data: "[" + strings.Repeat("1,", large/2) + "1]"},
		{kind: "simpleBiz", data: newMessageGenerator(1).list(5000)},
		{kind: "simpleBiz", data: newMessageGenerator(1).list(5001)},
		{kind: "bizOperation",
			data: `{"command":"installBiz","response":{"code":"FAILED","message":"` + strings.Repeat("\\n", large/2) +
				`"}}`},
		{kind: "batchInstallBizResponse",
			data: `{"response":{"code":"FAILED","data":{"bizUrlToResponse":{` + answers.String()[1:] + `}}}}`},
	}
})

// hostileMQTT sends n messages to the broker over a separate connection.
func (w *soak) hostileMQTT(ctx context.Context, m *messageGenerator, n int, sent *atomic.Int64) {
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
				w.Error("the soak test timed out")
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

// hostileHTTP posts invalid and forged messages to the heartbeat and baseline query paths of the heartbeat port.
func (w *soak) hostileHTTP(ctx context.Context, m *messageGenerator) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for n := 1; n <= scaled(soakOverHTTP)/2 && ctx.Err() == nil; n++ {
		s := m.next(n)
		switch m.IntN(20) {
		case 0: // a base that is registered over MQTT
			s.data = m.heartbeat(goodName(m.IntN(soakGood)), "deactivated")
		case 1: // from an address that is not the address of the base
			s.data = strings.Replace(m.heartbeat(goodName(soakGood), "deactivated"), ".0.1", ".0.2", 1)
		case 2:
			s.data = strings.Replace(m.heartbeat(s.identity, "activated"), `"127.`, `"10.`, 1)
		case 3, 4:
			s.data = m.heartbeat(s.identity, "activated")
		}
		if n == 1 {
			s = hugeMessages()[0]
		}
		if path := pickOne(m, "/heartbeat", "/heartbeat", "/queryBaseline"); w.post(client, path, s.data) == 0 {
			return
		}
	}
}
