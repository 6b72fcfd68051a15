package access

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Policy is the content security policy. It allows only files from this server, and no inline code.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; " +
	"form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

const (
	// sessionLifetime is the lifetime of a session.
	sessionLifetime = 12 * time.Hour
	// maxSessions is the maximum number of sessions. If the limit is reached, the oldest session of the user with the
	// most sessions is removed.
	maxSessions = 100
	// maxToken is the maximum size of a login request in bytes.
	maxToken = 16 << 10
)

// DeniedError is the error that Tokens returns if a token is invalid or its user has no permission.
type DeniedError struct {
	// Message is the error message that is shown to the user.
	Message string
}

// Error returns the message.
func (e *DeniedError) Error() string { return e.Message }

func denied(format string, values ...any) error { return &DeniedError{fmt.Sprintf(format, values...)} }

// isDenied reports whether err is a *DeniedError.
func isDenied(err error) bool {
	var d *DeniedError
	return errors.As(err, &d)
}

// Tokens is the interface that validates login tokens.
type Tokens interface {
	// Exchange validates a token and returns its user. If the error is a *DeniedError, its message is shown to the
	// user.
	Exchange(ctx context.Context, token string) (user string, err error)
	// Check returns an error if a session that was started with the token must end. It is called for every request.
	Check(ctx context.Context, token string) error
}

// Options configures a Guard.
type Options struct {
	// Tokens validates the tokens with which users start sessions. Required.
	Tokens Tokens
	// Port is the port of the server. It is part of the cookie name, because browsers share cookies between ports.
	// Required.
	Port int
	// Hosts lists additional host names, without a port, that requests may use. The names of this machine are always
	// allowed. Default: none. If Hosts is set, the port in the Host header may differ from Port, as it does behind a
	// Service or kubectl port-forward.
	Hosts []string
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
}

// Guard controls the access to a server. Its methods are safe for concurrent use.
type Guard struct {
	o        Options
	attempts attempts

	mu       sync.Mutex
	sessions map[string]session
}

type session struct {
	user, token string
	began       time.Time
}

// New returns a Guard without sessions.
func New(o Options) *Guard {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Guard{o: o, attempts: attempts{addresses: map[netip.Prefix]*rate.Limiter{}}, sessions: map[string]session{}}
}

// Cookie returns the name of the session cookie.
func (g *Guard) Cookie() string { return "koupboard-" + strconv.Itoa(g.o.Port) }

type userKey struct{}

// User returns the user of a request. The request must have passed the handler of Data.
func User(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// Public returns a handler that serves public files. It accepts only requests with an allowed Host header.
func (g *Guard) Public(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w.Header())
		if err := g.checkOrigin(r); err != nil {
			Deny(w, http.StatusForbidden, err.Error())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Data returns a handler that serves private data. It accepts only requests with a session.
func (g *Guard) Data(next http.Handler) http.Handler {
	return g.Public(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		user, err := g.Check(r)
		switch {
		case isDenied(err):
			Deny(w, http.StatusUnauthorized, err.Error())
		case err != nil:
			Deny(w, http.StatusBadGateway, err.Error())
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
		}
	}))
}

// Check returns the user of the session to which a request belongs. It returns a *DeniedError if the request has no
// session or the session must end. Handlers of long-running responses call Check periodically.
func (g *Guard) Check(r *http.Request) (user string, err error) {
	s, ok := g.session(r)
	if !ok {
		return "", denied("no session; open the URL that the board printed")
	}
	return s.user, g.o.Tokens.Check(r.Context(), s.token)
}

// Begin returns the login handler. It exchanges a token for a session cookie: POST {"token": "..."}.
func (g *Guard) Begin() http.Handler {
	return g.Public(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		var body struct {
			Token string `json:"token"`
		}
		if err := json.NewDecoder(io.LimitReader(r.Body, maxToken)).Decode(&body); err != nil || body.Token == "" {
			Deny(w, http.StatusBadRequest, `the body must be JSON: {"token": "..."}`)
			return
		}
		if !g.attempts.allow(r, g.o.Now()) {
			w.Header().Set("Retry-After", "1")
			Deny(w, http.StatusTooManyRequests, "too many sign-ins from this address; try again in a second")
			return
		}
		user, err := g.o.Tokens.Exchange(r.Context(), body.Token)
		switch {
		case isDenied(err):
			Deny(w, http.StatusUnauthorized, err.Error())
			return
		case err != nil:
			Deny(w, http.StatusBadGateway, err.Error())
			return
		}
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // on loopback there is no TLS
			Name: g.Cookie(), Value: g.begin(session{user, body.Token, g.o.Now()}), Path: "/", HttpOnly: true,
			SameSite: http.SameSiteStrictMode,
			Secure:   isHTTPS(r), MaxAge: int(sessionLifetime.Seconds()),
		})
		w.WriteHeader(http.StatusNoContent)
	}))
}

func (g *Guard) begin(s session) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	count := map[string]int{}
	for secret, x := range g.sessions {
		if s.began.Sub(x.began) > sessionLifetime {
			delete(g.sessions, secret)
			continue
		}
		count[x.user]++
	}
	if len(g.sessions) >= maxSessions {
		end := ""
		for secret, x := range g.sessions {
			than := g.sessions[end]
			if end == "" || count[x.user] > count[than.user] ||
				count[x.user] == count[than.user] && x.began.Before(than.began) {
				end = secret
			}
		}
		delete(g.sessions, end)
	}
	secret := rand.Text() + rand.Text()
	g.sessions[secret] = s
	return secret
}

func (g *Guard) session(r *http.Request) (session, bool) {
	cookie, err := r.Cookie(g.Cookie())
	if err != nil {
		return session{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// The secret is found by a hash with a random seed, so that the duration reveals nothing.
	s, ok := g.sessions[cookie.Value]
	if ok && g.o.Now().Sub(s.began) > sessionLifetime {
		delete(g.sessions, cookie.Value)
		ok = false
	}
	return s, ok
}

// checkOrigin rejects requests for host names that are not allowed, and requests from pages of other origins.
func (g *Guard) checkOrigin(r *http.Request) error {
	if !g.isOurs(r.Host) {
		return fmt.Errorf("the web UI is not available at %q; open the URL that the board printed", r.Host)
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" && !navigates(r) {
		return errors.New("cross-site requests are not allowed")
	}
	origin := r.Header.Get("Origin")
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if origin == "" && reads {
		return nil // browsers omit the header for requests to the same origin
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host != r.Host || u.Scheme != scheme(r) {
		return fmt.Errorf("requests from the origin %q are not allowed", origin)
	}
	return nil
}

// navigates reports whether the browser sent the request to open a page, for example because the user followed a link
// on another site.
func navigates(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		!strings.HasPrefix(r.URL.Path, "/api/")
}

// isOurs reports whether host, the Host header of a request, is an allowed name of the board.
func (g *Guard) isOurs(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), ""
	}
	if slices.Contains(g.o.Hosts, strings.ToLower(name)) {
		return true
	}
	address, err := netip.ParseAddr(name)
	here := strings.EqualFold(name, "localhost") || err == nil && address.IsLoopback()
	return here && (len(g.o.Hosts) > 0 || port == strconv.Itoa(g.o.Port))
}

func isHTTPS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

func scheme(r *http.Request) string {
	if isHTTPS(r) {
		return "https"
	}
	return "http"
}

func harden(h http.Header) {
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// Deny writes an error response as JSON.
func Deny(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message}) // the client may have disconnected
}
