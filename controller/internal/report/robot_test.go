package report

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

func TestParseHooks(t *testing.T) {
	tests := []struct {
		value string
		http  bool // whether http URLs are allowed
		want  []string
		cause error
		nth   string // position of the invalid URL
	}{
		{"", false, nil, nil, ""},
		{" ; ;", false, nil, nil, ""},
		{"https://a/x?t=1;https://b#SEC1", false, []string{"https://a/x?t=1", "https://b#SEC1"}, nil, ""},
		{"https://a/x?t=1;http://b", true, []string{"https://a/x?t=1", "http://b"}, nil, ""},
		{"https://a/x?t=1;http://b", false, nil, errNotEncrypted, "2"},
		{"https://a,https://b c", true, nil, errNoAddress, "1"},
		{"https://a;oapi/robot?secret", true, nil, errNoAddress, "2"},
		{"https://a; https:///robot?secret", true, nil, errNoAddress, "2"},
		{"ftp://a", true, nil, errNoAddress, "1"},
		{"https://a/%zz?secret", true, nil, errNoAddress, "1"},
	}
	for _, tt := range tests {
		hooks, err := ParseHooks(tt.value, tt.http)
		var got []string
		for _, hook := range hooks {
			got = append(got, hook.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("ParseHooks(%q) (-want +got):\n%s", tt.value, diff)
		}
		message := fmt.Sprint(err)
		if !errors.Is(err, tt.cause) || !strings.Contains(message, tt.nth) || strings.ContainsAny(message, "/?") {
			t.Errorf("ParseHooks(%q): error %v, want hook %s, %v, and no address", tt.value, err, tt.nth, tt.cause)
		}
	}
}

// TestMessagesAreSigned checks that if a hook has a secret, each attempt is signed with its own timestamp.
func TestMessagesAreSigned(t *testing.T) {
	var got []url.Values
	handler := func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.Query())
		if len(got) == 1 {
			w.WriteHeader(500) // causes a second attempt
		}
	}
	var startedAt time.Time
	runTest(t, "http://one/robot/send?access_token=token+/#SECsecret", map[string]http.HandlerFunc{"one": handler},
		nil, func(w *fixture) {
			startedAt = time.Now()
			w.reporter.Report(Event{})
			w.advance(30 * time.Second)
			w.wantCounts(1, 0, 0)
		})
	if len(got) != 2 || got[0].Get("timestamp") == got[1].Get("timestamp") {
		t.Fatalf("attempts %v, want 2 with different timestamps", got)
	}
	for _, query := range got {
		at := query.Get("timestamp")
		mac := hmac.New(sha256.New, []byte("SECsecret"))
		_, _ = io.WriteString(mac, at+"\nSECsecret") // a hash returns no error
		want := url.Values{"access_token": {"token /"}, "timestamp": {at},
			"sign": {base64.StdEncoding.EncodeToString(mac.Sum(nil))}}
		if diff := cmp.Diff(want, query); diff != "" {
			t.Errorf("query (-want +got):\n%s", diff)
		}
		var ms int64
		if _, err := fmt.Sscan(at, &ms); err != nil || time.UnixMilli(ms).Sub(startedAt) > 10*time.Second ||
			ms < startedAt.UnixMilli() {
			t.Errorf("unexpected timestamp %s, error %v", at, err)
		}
	}
	// openssl dgst -sha256 -hmac "this is secret" -binary | base64, of 1577262236757, a newline and the secret.
	address, err := url.Parse("https://h/?access_token=t#this%20is%20secret")
	if err != nil {
		t.Fatal(err)
	}
	const want = "https://h/?access_token=t&sign=hmPWwU%2B7lVdm3ZZz0r9tSfx0L4Q26jWOZr9%2BGs6EZQM%3D&timestamp=1577262236757"
	if diff := cmp.Diff(want, newRobot(address).url(time.UnixMilli(1577262236757))); diff != "" {
		t.Errorf("URL (-want +got):\n%s", diff)
	}
}

// TestRedirectsAreNotFollowed checks that redirects are not followed, because following one would send the token to
// another host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var requests, otherCalls atomic.Int64
		handlers := map[string]http.HandlerFunc{
			"one": func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				http.Redirect(w, r, "http://other/?access_token=secret", status)
			},
			"other": func(http.ResponseWriter, *http.Request) { otherCalls.Add(1) },
		}
		runTest(t, "http://one/?access_token=secret", handlers, nil, func(w *fixture) {
			w.reporter.Report(Event{})
			w.advance(30 * time.Second)
			w.wantCounts(0, 1, 0)
			w.wantLog(1, "redirects are not followed")
		})
		if requests.Load() != 1 || otherCalls.Load() != 0 {
			t.Errorf("status %d: %d requests to the hook and %d to the other host, want 1 and 0", status,
				requests.Load(), otherCalls.Load())
		}
	}
}

// TestLogContainsNoSecrets checks that the log contains no secrets, for every response of a robot and every error.
func TestLogContainsNoSecrets(t *testing.T) {
	const path, token = "B0000000000000000000secret", "to ken-secret"
	const password, signingSecret = "pass+secret", "SECsecret"
	hook := "http://u:" + url.QueryEscape(password) + "@one/services/" + path + "?access_token=" +
		url.QueryEscape(token) + "#" + signingSecret
	answers := map[string]http.HandlerFunc{
		"error message with the secrets": func(w http.ResponseWriter, r *http.Request) {
			_, received, _ := r.BasicAuth()
			text, _ := json.Marshal(
				map[string]any{"errcode": 310000,
					"errmsg": "\x1b[31mno " + r.URL.String() + " " + r.URL.Query().Get("access_token") + " " +
						received + " " + signingSecret})
			_, _ = w.Write(text)
		},
		"aborted connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"invalid redirect": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://[::1"+r.URL.String())
			w.WriteHeader(302)
		},
		"no response": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
	}
	answers["connection refused"] = nil
	for name, handler := range answers {
		t.Run(name, func(t *testing.T) {
			handlers := map[string]http.HandlerFunc{"one": handler}
			if handler == nil {
				handlers = nil
			}
			runTest(t, hook, handlers, nil, func(w *fixture) {
				w.reporter.Report(Event{})
				w.advance(2 * time.Minute)
				w.wantCounts(0, 1, 0)
				w.wantLog(1, "hook=one")
				if strings.ContainsRune(w.log.String(), '\x1b') {
					t.Errorf("the log has unprintable characters: %q", w.log.String())
				}
				synctest.Wait()
			})
		})
	}
}

// TestTextsFromBasesAreEscaped checks that texts from bases are escaped, so that they stay plain text in their list
// item.
func TestTextsFromBasesAreEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"installBiz of m:1.0.0 on base \"b-1\": 93 %": "installBiz of m:1.0.0 on base \"b-1\": 93 %",
		"![x](http://h/a.png)":                        `\!\[x\](http\://h/a.png)`,
		"see [here](https://h/a_b) or <a href='x'>":   `see \[here\](https\://h/a\_b) or \<a href='x'\>`,
		"**all** ~~is~~ `well` \\":                    "\\*\\*all\\*\\* \\~\\~is\\~\\~ \\`well\\` \\\\",
		"no\n# MC告警\n\n- 结果: SUCCESS\n    1. a\n12) b\n===": "no\n  \\# MC告警\n  \n  \\- 结果: SUCCESS\n  1\\. a\n  " +
			"12\\) b\n  \\===",
		"a\n> b\n1x":     "a\n  \\> b\n  1x",
		"\x1b[31m\u202e": `\[31m`,
	} {
		if diff := cmp.Diff(want, escape(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	body, err := Event{TraceID: "[t]", Scene: "vpod_deploy", Message: strings.Repeat("错", 9000),
		Labels: map[string]string{"base": "*b*"}}.body()
	if err != nil {
		t.Fatal(err)
	}
	var m markdown
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	want := "# MC告警\n\n- Trace ID: \\[t\\]\n- 工单类型: vpod_deploy\n- 失败信息: " + strings.Repeat("错", (arklet.MaxText-3)/3) +
		"…\n- 部署信息: base=\\*b\\*"
	if diff := cmp.Diff(want, m.Markdown.Text); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

// FuzzEscape checks that removing the backslashes from an escaped text results in the original text, except for space
// at the beginning of lines. It also checks that all special characters of Markdown are escaped.
func FuzzEscape(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		escaped := escape(text)
		var plain strings.Builder
		for i, line := range strings.Split(escaped, "\n") {
			if i > 0 {
				indented, is := strings.CutPrefix(line, "  ")
				if !is || strings.IndexAny(indented, " \t#+-=>") == 0 {
					t.Errorf("line %d is not indented, or begins with a special character: %q", i, line)
				}
				digits := len(indented) - len(strings.TrimLeft(indented, "0123456789"))
				if rest := indented[digits:]; digits > 0 && strings.IndexAny(rest, ".)") == 0 {
					t.Errorf("line %d is a list item: %q", i, line)
				}
				line = indented
				plain.WriteByte('\n')
			}
			for j := 0; j < len(line); j++ {
				if line[j] == '\\' && j+1 < len(line) {
					j++
				} else if strings.IndexByte(markdownChars, line[j]) >= 0 || strings.HasPrefix(line[j:], "://") {
					t.Errorf("%q is not escaped in %q", line[j:], line)
				}
				plain.WriteByte(line[j])
			}
		}
		lines := strings.Split(arklet.SanitizeText(text), "\n")
		for i := range lines[1:] {
			lines[i+1] = strings.TrimLeft(lines[i+1], " \t")
		}
		if diff := cmp.Diff(strings.Join(lines, "\n"), plain.String()); diff != "" {
			t.Errorf("%q became %q (-want +got):\n%s", text, escaped, diff)
		}
	})
}
