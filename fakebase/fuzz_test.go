package fakebase

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// FuzzMQTT sends arbitrary payloads on the command topics. The base must not panic or leak. It must respond only to
// valid commands, with JSON in an envelope.
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
			sleep(time.Second)
			synctest.Wait()
			for _, m := range sent {
				var e struct {
					Data             json.RawMessage `json:"data"`
					PublishTimestamp int64           `json:"publishTimestamp"`
				}
				if err := json.Unmarshal(m, &e); err != nil || len(e.Data) == 0 || e.PublishTimestamp == 0 {
					t.Errorf("response to %s = %s, error = %v", topic, m, err)
				}
			}
			if len(sent) > 1 {
				t.Errorf("responses to one command = %d", len(sent))
			}
			command := topic[strings.LastIndexByte(topic, '/')+1:]
			body := bytes.TrimSpace(payload) // like fastjson, ignore more than the white space of JSON
			understood := command == cmdQueryAll || len(body) == 0 && (command == cmdHealth || command == "baseline")
			if understood && len(sent) != 1 {
				t.Errorf("no response to %s with %q", topic, payload)
			}
			if !json.Valid(body) && len(body) > 0 && command != cmdQueryAll && len(sent) != 0 {
				t.Errorf("response of %s to invalid JSON: %s", topic, sent[0])
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(l.locks) != 0 {
				t.Errorf("remaining locks = %v", l.locks)
			}
		})
	})
}

// FuzzHTTP sends requests with an arbitrary method, path and body. The response must be complete and follow protocol
// 4.2.
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
			sleep(time.Second)
			synctest.Wait()
			head, answer, found := strings.Cut(reply, "\r\n\r\n")
			switch {
			case !found:
				t.Fatalf("no response to %s %s: %q", method, path, reply)
			case method != "POST":
				if !strings.HasPrefix(head, "HTTP/1.1 500 ") {
					t.Errorf("status line and headers of %s = %s", method, head)
				}
				return
			case len(body) > maxBody:
				if !strings.HasPrefix(head, "HTTP/1.1 413 ") {
					t.Errorf("status line for a body of %d bytes = %s", len(body), head)
				}
				return
			case head != "HTTP/1.1 200 OK":
				t.Errorf("status line and headers = %q", head)
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
					t.Errorf("response of a handler = %s", answer)
				}
			case "CMD_NOT_FOUND", "CMD_PROCESS_INTERNAL_ERROR":
				if r.BaseIdentity != "" || r.Data != nil {
					t.Errorf("error response = %s", answer)
				}
			default:
				t.Errorf("code = %q", r.Code)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(l.locks) != 0 {
				t.Errorf("remaining locks = %v", l.locks)
			}
		})
	})
}
