package fakebase

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// FuzzMQTT sends anything on any topic: the base neither crashes nor leaks,
// answers only what it understands, and answers that as JSON in an envelope.
func FuzzMQTT(f *testing.F) {
	for _, topic := range []string{"installBiz", "uninstallBiz", "health", "queryAllBiz", "base/baseline", "baseline",
		"switchBiz", ""} {
		for _, payload := range []string{
			"", "{}", "[]", "null", "7", `"x"`, "{", install1, uninstall1,
			`{"bizName":1,"bizVersion":true,"bizUrl":{}}`, `{"async":"yes"}`,
			`{"async":true,"requestId":"r","bizUrl":"http://h/x-1.jar"}`,
			`[{"bizUrl":"http://h/x-1.jar"},null]`, `{"type":"biz","bizName":"base"}`, `{"metrics":[null,7]}`,
			"{\"bizName\":\"\xff\"}", strings.Repeat("[", 10000),
		} {
			f.Add(topic, []byte(payload))
		}
	}
	f.Fuzz(func(t *testing.T, topic string, payload []byte) {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, Options{Identity: "b1", Catalogue: &Catalogue{Fetch: FetchNever}})
			synctest.Wait()
			var sent [][]byte
			b.mu.Lock()
			l := b.current
			b.mu.Unlock()
			tunnel := &mqttTunnel{l: l, d: mqttDialect(true),
				work: pool{core: 5, limit: 10, queued: 100, spawn: l.spawn}}
			tunnel.link = &link{l: l, send: func(_ string, payload []byte) error {
				sent = append(sent, payload)
				return nil
			}}
			tunnel.receive("koupleless_dev/b1/"+topic, payload)
			pass(time.Second)
			synctest.Wait()
			for _, m := range sent {
				var e struct {
					Data             json.RawMessage `json:"data"`
					PublishTimestamp int64           `json:"publishTimestamp"`
				}
				if err := json.Unmarshal(m, &e); err != nil || len(e.Data) == 0 || e.PublishTimestamp == 0 {
					t.Errorf("%s answered with %s: %v", topic, m, err)
				}
			}
			if len(sent) > 1 {
				t.Errorf("%d answers to one command", len(sent))
			}
			command := topic[strings.LastIndexByte(topic, '/')+1:]
			body := bytes.TrimSpace(payload) // fastjson skips more than JSON's white space too
			understood := command == cmdQueryAll || len(body) == 0 && (command == cmdHealth || command == "baseline")
			if understood && len(sent) != 1 {
				t.Errorf("%s with %q has no answer", topic, payload)
			}
			if !json.Valid(body) && len(body) > 0 && command != cmdQueryAll && len(sent) != 0 {
				t.Errorf("%s answered what is no JSON: %s", topic, sent[0])
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(l.locks) != 0 {
				t.Errorf("locks are left: %v", l.locks)
			}
		})
	})
}

// FuzzHTTP sends any method, path and body: there is always an answer of
// protocol 4.2, whole and in the right shape.
func FuzzHTTP(f *testing.F) {
	for _, path := range []string{"/help", "/installBiz", "/batchInstallBiz", "/uninstallBiz", "/switchBiz",
		"/queryAllBiz", "/health", "/queryBizOps", "/", "//health", "/health/"} {
		for _, body := range []string{
			"", "{}", "[]", "null", "{", install1, uninstall1, `{"bizList":[{}]}`, `{"bizList":[null]}`,
			`{"bizList":{}}`,
			`{"bizList":[],"async":true,"requestId":"r"}`, `{"requestId":7}`, `{"bizName":["a"]}`, "{}{}",
		} {
			f.Add("POST", path, []byte(body))
		}
	}
	f.Add("GET", "/health", []byte(nil))
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, Options{Identity: "b1", Catalogue: &Catalogue{Fetch: FetchNever}})
			synctest.Wait()
			b.mu.Lock()
			l := b.current
			b.mu.Unlock()
			tunnel := &httpTunnel{l: l, d: httpDialect(true)}
			reply := string(tunnel.reply(method, path, body))
			pass(time.Second)
			synctest.Wait()
			head, answer, found := strings.Cut(reply, "\r\n\r\n")
			switch {
			case !found:
				t.Fatalf("%s %s has no answer: %q", method, path, reply)
			case method != "POST":
				if !strings.HasPrefix(head, "HTTP/1.1 500 ") {
					t.Errorf("%s: %s", method, head)
				}
				return
			case len(body) > maxBody:
				if !strings.HasPrefix(head, "HTTP/1.1 413 ") {
					t.Errorf("%d bytes: %s", len(body), head)
				}
				return
			case head != "HTTP/1.1 200 OK":
				t.Errorf("head %q", head)
			}
			var r wireResponse
			d := json.NewDecoder(strings.NewReader(answer))
			d.DisallowUnknownFields()
			if err := d.Decode(&r); err != nil {
				t.Fatalf("%q: %v", answer, err)
			}
			switch r.Code {
			case codeSuccess, codeFailed:
				if r.BaseIdentity != "b1" || r.ErrorStackTrace != "" {
					t.Errorf("a handler's answer: %s", answer)
				}
			case "CMD_NOT_FOUND", "CMD_PROCESS_INTERNAL_ERROR":
				if r.BaseIdentity != "" || r.Data != nil {
					t.Errorf("a refusal: %s", answer)
				}
			default:
				t.Errorf("code %q", r.Code)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(l.locks) != 0 {
				t.Errorf("locks are left: %v", l.locks)
			}
		})
	})
}
