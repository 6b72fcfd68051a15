package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

const port = 4711

// fixture is a Guard in front of a server that responds with the user name of the request.
type fixture struct {
	handler http.Handler
	tokens  []string
	now     time.Time
}

func newFixture(t *testing.T, hosts ...string) *fixture {
	t.Helper()
	f := &fixture{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	g := New(Options{
		Tokens: NewOnce("alice", func(token string) { f.tokens = append(f.tokens, token) }), Port: port, Hosts: hosts,
		Now: func() time.Time { return f.now },
	})
	mux := http.NewServeMux()
	hello := http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello "+User(r.Context())) })
	mux.Handle("/", g.Public(hello))
	mux.Handle("/api/data", g.Data(hello))
	mux.Handle("POST /api/session", g.Begin())
	f.handler = mux
	return f
}

func (f *fixture) ask(method, path, body string, header map[string]string) *http.Response {
	r := httptest.NewRequest(method, "http://127.0.0.1:4711"+path, strings.NewReader(body))
	for name, value := range header {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w.Result()
}

const origin = "http://127.0.0.1:4711"

// login exchanges a token for a session. It returns the header that contains the session cookie.
func (f *fixture) login(t *testing.T, token string) (cookie string, status int) {
	t.Helper()
	answer := f.ask("POST", "/api/session", `{"token":"`+token+`"}`, map[string]string{"Origin": origin})
	for _, c := range answer.Cookies() {
		cookie = c.Name + "=" + c.Value
	}
	return cookie, answer.StatusCode
}

func TestRequestPermissions(t *testing.T) {
	f := newFixture(t)
	cookie, _ := f.login(t, f.tokens[0])
	for name, c := range map[string]struct {
		method, path string
		header       map[string]string
		want         int
	}{
		"the page is public":                      {"GET", "/", nil, 200},
		"the page by localhost":                   {"GET", "/", map[string]string{"Host": "localhost:4711"}, 200},
		"the page by IPv6":                        {"GET", "/", map[string]string{"Host": "[::1]:4711"}, 200},
		"another name that resolves to 127.0.0.1": {"GET", "/", map[string]string{"Host": "evil.example:4711"}, 403},
		"a name that begins like ours": {"GET", "/", map[string]string{"Host": "127.0.0.1.evil.example:4711"},
			403},
		"another port":           {"GET", "/", map[string]string{"Host": "127.0.0.1:80"}, 403},
		"no port":                {"GET", "/", map[string]string{"Host": "127.0.0.1"}, 403},
		"another machine":        {"GET", "/", map[string]string{"Host": "192.0.2.1:4711"}, 403},
		"data without a session": {"GET", "/api/data", nil, 401},
		"data with a made-up session": {"GET", "/api/data", map[string]string{"Cookie": "koupboard-4711=x"},
			401},
		"the session of another port": {"GET", "/api/data",
			map[string]string{"Cookie": strings.Replace(cookie, "4711", "4712", 1)}, 401},
		"data": {"GET", "/api/data", map[string]string{"Cookie": cookie}, 200},
		"data with our origin": {"GET", "/api/data",
			map[string]string{"Cookie": cookie, "Origin": origin}, 200},
		"data by a name of another's": {"GET", "/api/data",
			map[string]string{"Cookie": cookie, "Host": "evil.example:4711"}, 403},
		"data for another origin": {"GET", "/api/data",
			map[string]string{"Cookie": cookie, "Origin": "http://evil.example"}, 403},
		"data for our name at another port": {"GET", "/api/data",
			map[string]string{"Cookie": cookie, "Origin": "http://127.0.0.1:80"}, 403},
		"data for another scheme": {"GET", "/api/data",
			map[string]string{"Cookie": cookie, "Origin": "https://127.0.0.1:4711"}, 403},
		"data for a page without origin": {"GET", "/api/data",
			map[string]string{"Cookie": cookie, "Origin": "null"}, 403},
		"data as an image of another site": {"GET", "/api/data",
			map[string]string{"Cookie": cookie, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403},
		"a link of another site to the page": {"GET", "/",
			map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200},
		"a link of another site to data": {"GET", "/api/data",
			map[string]string{"Cookie": cookie, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403},
		"the page in a script of another site": {"GET", "/",
			map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403},
		"an action": {"POST", "/api/data",
			map[string]string{"Cookie": cookie, "Origin": origin}, 200},
		"an action without origin": {"POST", "/api/data", map[string]string{"Cookie": cookie}, 403},
		"an action of another origin": {"POST", "/api/data",
			map[string]string{"Cookie": cookie, "Origin": "http://evil.example"}, 403},
		"an action without a session": {"POST", "/api/data", map[string]string{"Origin": origin}, 401},
		"a session for another origin": {"POST", "/api/session",
			map[string]string{"Origin": "http://evil.example"}, 403},
		"a session without a token": {"POST", "/api/session", map[string]string{"Origin": origin}, 400},
		"a question before it, of another site": {"OPTIONS", "/api/data",
			map[string]string{"Origin": "http://evil.example"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			answer := f.ask(c.method, c.path, "", c.header)
			if answer.StatusCode != c.want {
				body, _ := io.ReadAll(answer.Body)
				t.Errorf("status %d, want %d: %s", answer.StatusCode, c.want, body)
			}
			got := map[string]string{}
			for name := range wantHeaders {
				got[name] = answer.Header.Get(name)
			}
			if diff := cmp.Diff(wantHeaders, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if cache := answer.Header.Get("Cache-Control"); c.path == "/api/data" && c.want < 403 &&
				cache != "no-store" {
				t.Errorf("Cache-Control is %q", cache)
			}
		})
	}
}

var wantHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src " +
		"'self' data:; font-src 'self'; " +
		"form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Access-Control-Allow-Origin":  "",
}

func TestTokenStartsOneSession(t *testing.T) {
	f := newFixture(t)
	if _, status := f.login(t, "wrong"); status != 401 {
		t.Errorf("a wrong token: %d", status)
	}
	first, status := f.login(t, f.tokens[0])
	if status != 204 || first == "" {
		t.Fatalf("the first use: %d, cookie %q", status, first)
	}
	if _, status := f.login(t, f.tokens[0]); status != 401 {
		t.Errorf("the second use of a token: %d", status)
	}
	if len(f.tokens) != 2 || f.tokens[0] == f.tokens[1] {
		t.Fatalf("tokens %q, want another one after the use", f.tokens)
	}
	second, status := f.login(t, f.tokens[1])
	if status != 204 || second == first {
		t.Errorf("the next token: %d", status)
	}
	for _, cookie := range []string{first, second} {
		answer := f.ask("GET", "/api/data", "", map[string]string{"Cookie": cookie})
		if body, _ := io.ReadAll(answer.Body); string(body) != "hello alice" {
			t.Errorf("with a session: %s", body)
		}
	}
}

func TestCookieAttributes(t *testing.T) {
	f := newFixture(t)
	answer := f.ask("POST", "/api/session", `{"token":"`+f.tokens[0]+`"}`, map[string]string{"Origin": origin})
	c := answer.Cookies()[0]
	c.Raw = ""
	want := &http.Cookie{Name: "koupboard-4711", Value: c.Value, Path: "/", MaxAge: 43200, HttpOnly: true,
		SameSite: http.SameSiteStrictMode}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("cookie (-want +got):\n%s", diff)
	}
	if len(c.Value) < 40 || strings.Contains(c.Value, f.tokens[0]) {
		t.Errorf("the secret %q", c.Value)
	}
}

func TestSessionExpires(t *testing.T) {
	f := newFixture(t)
	cookie, _ := f.login(t, f.tokens[0])
	f.now = f.now.Add(sessionLifetime + time.Second)
	if answer := f.ask("GET", "/api/data", "", map[string]string{"Cookie": cookie}); answer.StatusCode != 401 {
		t.Errorf("after %s: %d", sessionLifetime, answer.StatusCode)
	}
	oldest, _ := f.login(t, f.tokens[1])
	for range maxSessions {
		f.now = f.now.Add(time.Second)
		f.login(t, f.tokens[len(f.tokens)-1])
	}
	if answer := f.ask("GET", "/api/data", "", map[string]string{"Cookie": oldest}); answer.StatusCode != 401 {
		t.Errorf("the oldest of more than %d sessions: %d", maxSessions, answer.StatusCode)
	}
}

// acceptAllTokens is a fake Tokens that accepts every token and uses the token as the user name.
type acceptAllTokens struct{ exchanged int }

func (m *acceptAllTokens) Exchange(_ context.Context, token string) (string, error) {
	m.exchanged++
	return token, nil
}

func (*acceptAllTokens) Check(context.Context, string) error { return nil }

func TestSignInsAreLimitedForEachAddress(t *testing.T) {
	m, now := &acceptAllTokens{}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	g := New(Options{Tokens: m, Port: port, Now: func() time.Time { return now }})
	signIns := func(n int, address, user string) (statuses map[int]int, cookie *http.Cookie) {
		statuses = map[int]int{}
		for range n {
			r := httptest.NewRequest("POST", origin+"/api/session", strings.NewReader(`{"token":"`+user+`"}`))
			r.Header.Set("Origin", origin)
			r.RemoteAddr = address
			w := httptest.NewRecorder()
			g.Begin().ServeHTTP(w, r)
			statuses[w.Code]++
			for _, c := range w.Result().Cookies() {
				cookie = c
			}
		}
		return statuses, cookie
	}
	want := func(what string, got, want map[int]int) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	got, _ := signIns(1000, "192.0.2.1:1", "eve")
	want("one address", got, map[int]int{204: attemptBurst, 429: 1000 - attemptBurst})
	if m.exchanged != attemptBurst {
		t.Errorf("%d tokens were reviewed; want %d", m.exchanged, attemptBurst)
	}
	got, _ = signIns(1, "192.0.2.1:2", "eve")
	want("the same address, another port", got, map[int]int{429: 1})
	got, alice := signIns(1, "[2001:db8::1]:1", "alice")
	want("another address", got, map[int]int{204: 1})
	signIns(attemptBurst-1, "[2001:db8::1]:1", "eve")
	got, _ = signIns(1, "[2001:db8::2]:1", "eve")
	want("another address of the same IPv6 network", got, map[int]int{429: 1})
	now = now.Add(time.Second)
	got, _ = signIns(2, "192.0.2.1:1", "eve")
	want("a second later", got, map[int]int{204: 1, 429: 1})

	for i := range 2 * maxAddresses {
		now = now.Add(time.Second)
		signIns(1, fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), "eve")
	}
	if n := len(g.attempts.addresses); n > maxAddresses+1 {
		t.Errorf("%d addresses are kept", n)
	}
	if n := len(g.sessions); n != maxSessions {
		t.Errorf("%d sessions; want %d", n, maxSessions)
	}
	r := httptest.NewRequest("GET", origin+"/", nil)
	r.AddCookie(alice)
	if user, err := g.Check(r); user != "alice" || err != nil {
		t.Errorf("the sessions of another user ended that of alice: %q, %v", user, err)
	}
}

func TestBehindAService(t *testing.T) {
	f := newFixture(t, "board.example")
	for host, want := range map[string]int{"board.example": 200, "board.example:443": 200, "127.0.0.1:9999": 200,
		"evil.example": 403, "192.0.2.1:4711": 403} {
		if answer := f.ask("GET", "/", "", map[string]string{"Host": host}); answer.StatusCode != want {
			t.Errorf("host %s: %d, want %d", host, answer.StatusCode, want)
		}
	}
	answer := f.ask("POST", "/api/session", `{"token":"`+f.tokens[0]+`"}`,
		map[string]string{"Host": "board.example", "Origin": "https://board.example", "X-Forwarded-Proto": "https"})
	if cookies := answer.Cookies(); len(cookies) != 1 || !cookies[0].Secure {
		t.Errorf("over TLS: status %d, cookies %v, want a secure one", answer.StatusCode, cookies)
	}
}

// api is a fake Kubernetes API server that accepts one token. The token's user has no permission to list one of the
// resources.
type api struct {
	forbidden string
	fails     error
	asked     []string
}

func (a *api) client() *fake.Clientset {
	c := fake.NewClientset()
	c.PrependReactor("create", "tokenreviews", func(action kubetesting.Action) (bool, runtime.Object, error) {
		r := action.(kubetesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		a.asked = append(a.asked, "token "+r.Spec.Token)
		r.Status.Authenticated = r.Spec.Token == "good"
		r.Status.User = authenticationv1.UserInfo{Username: "bob", Groups: []string{"devs"},
			Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
		return true, r, a.fails
	})
	c.PrependReactor("create", "subjectaccessreviews", func(action kubetesting.Action) (bool, runtime.Object, error) {
		r := action.(kubetesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		what := r.Spec.ResourceAttributes
		a.asked = append(a.asked,
			r.Spec.User+" "+strings.Join(r.Spec.Groups, ",")+" "+what.Verb+" "+what.Resource+"/"+what.Namespace)
		r.Status.Allowed = what.Resource != a.forbidden
		return true, r, nil
	})
	return c
}

func TestTokenReviews(t *testing.T) {
	for name, c := range map[string]struct {
		api    api
		token  string
		user   string
		denied bool
		failed bool
		asked  []string
	}{
		"user with permission": {token: "good", user: "bob",
			asked: []string{"token good", "bob devs list nodes/", "bob devs list pods/", "bob devs list events/",
				"bob devs list deployments/"}},
		"unknown token": {token: "bad", denied: true, asked: []string{"token bad"}},
		"user without permission": {api: api{forbidden: "pods"}, token: "good", denied: true,
			asked: []string{"token good", "bob devs list nodes/", "bob devs list pods/"}},
		"unreachable API server": {api: api{fails: errors.New("away")}, token: "good", failed: true,
			asked: []string{"token good"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReviews(c.api.client(), clock.RealClock{})
			user, err := r.Exchange(t.Context(), c.token)
			if user != c.user || isDenied(err) != c.denied || (err != nil) != (c.denied || c.failed) {
				t.Errorf("user %q, error %v", user, err)
			}
			if diff := cmp.Diff(c.asked, c.api.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRevokedTokenIsRejected(t *testing.T) {
	a := &api{}
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	r := NewReviews(a.client(), now)
	if _, err := r.Exchange(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	asked := len(a.asked)
	a.forbidden = "nodes"
	if err := r.Check(context.Background(), "good"); err != nil || len(a.asked) != asked {
		t.Errorf("immediately: %v after %d reviews, want none", err, len(a.asked)-asked)
	}
	now.Step(reviewInterval + time.Second)
	if err := r.Check(context.Background(), "good"); !isDenied(err) {
		t.Errorf("after a minute: %v, want it denied", err)
	}
	a.forbidden = ""
	now.Step(reviewInterval + time.Second)
	if err := r.Check(context.Background(), "good"); err != nil {
		t.Errorf("after the permission was restored: %v", err)
	}
}
