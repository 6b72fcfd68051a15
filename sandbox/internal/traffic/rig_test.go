package traffic

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// waitTimeout is the timeout of waits and also of requests, so it must not exceed maxTimeout.
const waitTimeout = min(check.WaitTimeout, maxTimeout)

// bases is a Targets whose list of bases a test can replace.
type bases struct{ list atomic.Pointer[[]Target] }

func (b *bases) set(list ...Target) { b.list.Store(&list) }

func (b *bases) ByIP(ip string) (Target, bool) {
	for _, t := range b.Group("") {
		if t.IP == ip {
			return t, true
		}
	}
	return Target{}, false
}

func (b *bases) Group(string) []Target {
	if l := b.list.Load(); l != nil {
		return *l
	}
	return nil
}

// fixture is a test setup: a gateway and a generator that run until the end of the test.
type fixture struct {
	bases     bases
	client    *fake.Clientset
	gateway   *Gateway
	generator *Generator
	lost      chan Record
	external  string // address of the command port of a base outside the sandbox
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	r := &fixture{client: fake.NewClientset(), lost: make(chan Record, 10*MaxLost)}
	check.Gapless(r.client)
	r.gateway = NewGateway(GatewayOptions{Client: r.client, Targets: &r.bases, Seed: 1,
		Network:  netip.MustParsePrefix("198.18.0.0/15"),
		External: func(addr string) bool { return addr == r.external }})
	r.generator = NewGenerator(GeneratorOptions{Gateway: r.gateway, Targets: &r.bases,
		Lost: func(l LostRequest) { r.lost <- l.Record }})
	check.Run(t, r.gateway.Start)
	check.Run(t, r.generator.Start)
	return r
}

// eventually calls look repeatedly until it returns nil.
func eventually(t testing.TB, look func() error) {
	t.Helper()
	check.Eventually(t, waitTimeout, look)
}

// run starts a stream, waits until the stream has reached its limit, and returns its result.
func (r *fixture) run(t testing.TB, spec Spec) *StreamResult {
	t.Helper()
	check.Must(t, r.generator.StartStream(t.Context(), "g", spec))
	return r.finish(t, spec.Name)
}

// finish waits until a stream has ended, and returns its result.
func (r *fixture) finish(t testing.TB, name string) *StreamResult {
	t.Helper()
	s, err := r.generator.find("g", name)
	check.Must(t, err)
	select {
	case <-s.done:
	case <-time.After(waitTimeout):
		t.Fatalf("the stream has not ended: %+v", s.summary())
	}
	end, err := r.generator.Stop(t.Context(), "g", name)
	check.Must(t, err)
	return end
}

// answer returns a handler that responds like a module on a fakebase.
func answer(host, biz, version string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"base":"id","hostName":%q,"biz":%q,"version":%q,"request":1}`, host, biz, version)
	}
}

// status returns a handler that responds with the HTTP status code.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// serve starts a server with the handler h and returns its address.
func serve(t testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return strings.TrimPrefix(s.URL, "http://")
}

// listen starts a listener and returns its address. For each connection, it waits for the first data and then calls
// use.
func listen(t testing.TB, use func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				if _, err := c.Read(make([]byte, 4096)); err == nil {
					use(c.(*net.TCPConn))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// closed returns an address on which nothing listens.
func closed(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// spec returns a valid Spec with the given name, rate and total, after applying the functions in change.
func spec(name string, rate, total int, change ...func(*Spec)) Spec {
	s := Spec{Total: total}
	s.Name, s.Via, s.Module, s.Rate = name, v1alpha1.ViaBases, "biz1", &rate
	for _, c := range change {
		c(&s)
	}
	return s
}

func timeout(d time.Duration) func(*Spec) {
	return func(s *Spec) { s.Timeout = &metav1.Duration{Duration: d} }
}

func toBases(names ...string) func(*Spec) { return func(s *Spec) { s.Bases = names } }

func viaService(s *Spec) {
	s.Via, s.Namespace, s.Service, s.Port = v1alpha1.ViaService, "shop", "biz1", "http"
}
