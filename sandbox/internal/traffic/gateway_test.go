package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

var shop = Route{Namespace: "shop", Service: "biz1", Client: "c"}

// offer replaces the endpoints of a Service with the given endpoints.
func offer(t testing.TB, c *fake.Clientset, endpoints ...discoveryv1.Endpoint) {
	t.Helper()
	_, err := c.DiscoveryV1().EndpointSlices("shop").Update(t.Context(), slice("biz1-x", endpoints...),
		metav1.UpdateOptions{})
	if err != nil {
		_, err = c.DiscoveryV1().EndpointSlices("shop").Create(t.Context(), slice("biz1-x", endpoints...),
			metav1.CreateOptions{})
	}
	check.Must(t, err)
}

func createService(t testing.TB, c *fake.Clientset, s *corev1.Service) {
	t.Helper()
	if _, err := c.CoreV1().Services("shop").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitForPick waits until the gateway selects the Pod want. If want is empty, waitForPick waits until the Service has
// no endpoint.
func waitForPick(t *testing.T, g *Gateway, want string) {
	t.Helper()
	eventually(t, func() error {
		got, err := g.Pick(shop)
		if err != nil && !errors.Is(err, ErrNoEndpoint) {
			t.Fatal(err)
		}
		if got.Pod != want {
			return fmt.Errorf("picked %+v, want Pod %q: %w", got, want, err)
		}
		return nil
	})
}

func TestGatewayWatchesServices(t *testing.T) {
	r := newFixture(t)
	r.bases.set(Target{IP: "198.18.0.1", Base: "base-1", Web: "127.0.0.1:1"})
	check.Must(t, r.gateway.Ready(t.Context()))
	waitForPick(t, r.gateway, "")
	offer(t, r.client, at("198.18.0.1", "old", ready)) // before the Service exists
	createService(t, r.client, service())
	waitForPick(t, r.gateway, "old")
	if got, err := r.gateway.Pick(shop); err != nil ||
		got != (Target{IP: "198.18.0.1", Pod: "old", Base: "base-1", Web: "127.0.0.1:1"}) {
		t.Errorf("picked %+v, %v", got, err)
	}
	offer(t, r.client, at("198.18.0.1", "old", notReady))
	waitForPick(t, r.gateway, "")
	offer(t, r.client, at("198.18.0.1", "old", draining))
	waitForPick(t, r.gateway, "old")
	offer(t, r.client, at("198.18.0.2", "new", ready))
	waitForPick(t, r.gateway, "new")
	if err := r.client.DiscoveryV1().EndpointSlices("shop").Delete(t.Context(), "biz1-x",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForPick(t, r.gateway, "")
	offer(t, r.client, at("198.18.0.1", "old", ready))
	waitForPick(t, r.gateway, "old")
	if err := r.client.CoreV1().Services("shop").Delete(t.Context(), "biz1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForPick(t, r.gateway, "")
}

func TestNoEndpointErrorHasReason(t *testing.T) {
	r := newFixture(t)
	createService(t, r.client, service())
	check.Must(t, r.gateway.Ready(t.Context()))
	for want, route := range map[string]Route{
		"shop/none": {Namespace: "shop", Service: "none"},
		`"443"`:     {Namespace: "shop", Service: "biz1", Port: "443"},
		"shop/biz1": shop,
	} {
		if _, err := r.gateway.Pick(route); !errors.Is(err, ErrNoEndpoint) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestDialFailsWithoutServices(t *testing.T) {
	g := NewGateway(GatewayOptions{Client: fake.NewClientset(), Targets: &bases{}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := g.Dial(ctx, shop); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a gateway that is not running returned %v", err)
	}
}

// gatewayWith returns a gateway that selects from the given endpoints and needs no API server.
func gatewayWith(svc *corev1.Service, c clock.PassiveClock, endpoints ...discoveryv1.Endpoint) *Gateway {
	g := NewGateway(GatewayOptions{Targets: &bases{}, Seed: 7, Clock: c})
	g.backends[shop.key()] = backendOf(svc, []*discoveryv1.EndpointSlice{slice("x", endpoints...)})
	return g
}

func TestPickIsRandomAndReproducible(t *testing.T) {
	draw := func() map[string]int {
		g := gatewayWith(service(), nil, at("198.18.0.1", "a", ready), at("198.18.0.2", "b", ready),
			at("198.18.0.3", "c", ready))
		got := map[string]int{}
		for range 3000 {
			p, err := g.Pick(shop)
			check.Must(t, err)
			got[p.Pod]++
		}
		return got
	}
	first := draw()
	for _, pod := range []string{"a", "b", "c"} {
		if first[pod] < 850 || first[pod] > 1150 {
			t.Errorf("%s was picked %d times of 3000", pod, first[pod])
		}
	}
	if d := cmp.Diff(first, draw()); d != "" {
		t.Errorf("the same seed picked other endpoints (-first +second):\n%s", d)
	}
}

func TestSessionAffinity(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	svc := service(func(s *corev1.ServiceSpec) {
		s.SessionAffinity = corev1.ServiceAffinityClientIP
		s.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](10)}}
	})
	var endpoints []discoveryv1.Endpoint
	for i := range 50 {
		endpoints = append(endpoints, at(fmt.Sprintf("198.18.1.%d", i), fmt.Sprint("pod-", i), ready))
	}
	g := gatewayWith(svc, clock, endpoints...)
	pick := func(client string) string {
		t.Helper()
		got, err := g.Pick(Route{Namespace: "shop", Service: "biz1", Client: client})
		check.Must(t, err)
		return got.Pod
	}
	first, other := pick("c"), pick("d")
	for range 20 { // each use restarts the 10 s
		clock.SetTime(clock.Now().Add(9 * time.Second))
		if got := pick("c"); got != first {
			t.Fatalf("client c moved from %s to %s", first, got)
		}
	}
	if first == other {
		t.Errorf("two clients share %s", first)
	}
	clock.SetTime(clock.Now().Add(10 * time.Second))
	second := pick("c")
	if second == first { // this could occur with probability 1/50, but the seed is fixed
		t.Errorf("client c still uses %s after the affinity time", first)
	}
	for i := range endpoints {
		if endpoints[i].TargetRef.Name == second {
			endpoints[i].Conditions = notReady
		}
	}
	g.backends[shop.key()] = backendOf(svc, []*discoveryv1.EndpointSlice{slice("x", endpoints...)})
	if got := pick("c"); got == second {
		t.Errorf("client c still uses %s, which is not ready", got)
	}
}

// TestStreamViaService checks which endpoints a stream uses. Without connection reuse, each request must use a
// current endpoint of the Service. With reuse, a connection must keep the endpoint that was selected when the
// connection was opened.
func TestStreamViaService(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		t.Run(fmt.Sprint("reuse=", reuse), func(t *testing.T) {
			r := newFixture(t)
			createService(t, r.client, service())
			first, second := make(chan struct{}, 1000), make(chan struct{}, 1000)
			base := func(n int, version string, served chan struct{}) Target {
				host := fmt.Sprint("base-", n)
				h := answer(host, "biz1", version)
				return Target{IP: fmt.Sprint("198.18.0.", n), Base: host, Host: host,
					Web: serve(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
						if q.Host != "biz1.shop" || q.URL.Path != "/biz1" {
							t.Errorf("request for %s%s", q.Host, q.URL.Path)
						}
						h(w, q)
						select {
						case served <- struct{}{}:
						default:
						}
					}))}
			}
			r.bases.set(base(1, "1", first), base(2, "2", second))
			offer(t, r.client, at("198.18.0.1", "pod-1", ready))
			check.Must(t, r.gateway.Ready(t.Context()))
			waitForPick(t, r.gateway, "pod-1")
			if err := r.generator.StartStream(t.Context(), "g",
				spec("s", 100, 0, viaService, timeout(waitTimeout), func(s *Spec) { s.Reuse = reuse })); err != nil {
				t.Fatal(err)
			}
			<-first
			offer(t, r.client, at("198.18.0.2", "pod-2", ready))
			waitForPick(t, r.gateway, "pod-2")
			if reuse {
				for range 20 {
					<-first
				}
			} else {
				<-second
			}
			end, err := r.generator.Stop(t.Context(), "g", "s")
			check.Must(t, err)
			if end.LostRequests != nil || end.Lost != 0 || end.Sent == 0 {
				t.Errorf("end %+v", end)
			}
			records, err := r.generator.Records("g", "s")
			check.Must(t, err)
			for rec := range records {
				if want := "pod-" + rec.Version; rec.Pod != want || rec.Base != "base-"+rec.Version ||
					rec.Endpoint != "198.18.0."+rec.Version {
					t.Errorf("record %+v", rec)
				}
			}
			if !reuse && (end.Versions["1"] == 0 || end.Versions["2"] == 0) || reuse && end.Versions["1"] < 20 {
				t.Errorf("versions %v", end.Versions)
			}
		})
	}
}

// TestStreamWaitsForTheFirstEndpoint checks that a stream waits for the endpoint of a Pod that has just become Ready,
// and that its requests are lost if no endpoint is added in time.
func TestStreamWaitsForTheFirstEndpoint(t *testing.T) {
	r := newFixture(t)
	createService(t, r.client, service())
	r.bases.set(Target{IP: "198.18.0.1", Base: "base-1", Web: serve(t, answer("", "biz1", "1"))})
	check.Must(t, r.gateway.Ready(t.Context()))
	began := make(chan error, 1)
	go func() {
		began <- r.generator.StartStream(t.Context(), "g", spec("s", 1000, 1, viaService, timeout(waitTimeout)))
	}()
	select {
	case err := <-began:
		t.Fatalf("the stream started without an endpoint: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	offer(t, r.client, at("198.18.0.1", "a", ready))
	check.Must(t, <-began)
	if end := r.finish(t, "s"); end.Results[OK] != 1 {
		t.Errorf("%+v", end.Summary)
	}
	end := r.run(t, spec("never", 1000, 1, viaService, func(s *Spec) { s.Port = "admin" }))
	if end.Results[NoEndpoint] != 1 {
		t.Errorf("%+v", end.Summary)
	}
}

// proxied returns an HTTP client that uses the gateway as its proxy.
func proxied(t testing.TB, r *fixture) (*http.Client, string) {
	addr := serve(t, r.gateway)
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addr})}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: waitTimeout}, addr
}

func TestProxy(t *testing.T) {
	r := newFixture(t)
	client, addr := proxied(t, r)
	createService(t, r.client, service(func(s *corev1.ServiceSpec) {
		s.Ports = append(s.Ports, corev1.ServicePort{Name: "wrong", Port: 82, TargetPort: intstr.FromInt32(9999)})
	}))
	slice := slice("biz1-1", at("198.18.0.1", "pod-1", ready))
	slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To("wrong"), Port: ptr.To[int32](9999)})
	if _, err := r.client.DiscoveryV1().EndpointSlices("shop").Create(t.Context(), slice,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	echo := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_, _ = fmt.Fprintf(w, "%s %s %s%s", name, q.Method, q.Host, q.URL.RequestURI())
		})
	}
	arklet := serve(t, echo("arklet"))
	_, port, _ := net.SplitHostPort(arklet)
	cut := listen(t, func(c *net.TCPConn) {
		_ = c.SetLinger(0)
		_ = c.Close()
	})
	r.bases.set(Target{IP: "198.18.0.1", Base: "base-1", Web: serve(t, echo("web")), Port: "8080", Arklet: arklet,
		ArkletPort: port},
		Target{IP: "198.18.0.2", Base: "base-2", Web: closed(t)}, Target{IP: "198.18.0.3", Base: "base-3", Web: cut})
	check.Must(t, r.gateway.Ready(t.Context()))
	waitForPick(t, r.gateway, "pod-1")
	for at, want := range map[string]string{
		"http://biz1.shop/stock?x=1":                "200 web GET biz1.shop/stock?x=1",
		"http://Biz1.SHOP/":                         "200 web GET Biz1.SHOP/",
		"http://biz1.shop.svc.cluster.local:80/":    "200 web GET biz1.shop.svc.cluster.local:80/",
		"http://biz1.shop:81/":                      "503 shop/biz1 management",
		"http://biz1.shop:82/":                      "502 198.18.0.1 base-1 8080 9999",
		"http://biz1.shop:83/":                      "503 shop/biz1 83",
		"http://biz1/":                              "403 biz1",
		"http://localhost:" + port + "/":            "403 localhost",
		"http://example.com/":                       "404 com/example",
		"http://198.18.0.1:4711/biz1":               "502 198.18.0.1 base-1 8080 4711",
		"http://127.0.0.1/":                         "403 127.0.0.1",
		"http://[::1]:" + port + "/":                "403 ::1",
		"http://[::ffff:127.0.0.1]:" + port + "/":   "403 ::ffff:127.0.0.1",
		"http://169.254.169.254/latest/":            "403 169.254.169.254",
		"http://198.18.0.1:8080/biz1":               "200 web GET 198.18.0.1:8080/biz1",
		"http://198.18.0.1/":                        "200 web GET 198.18.0.1/",
		"http://198.18.0.1:" + port + "/installBiz": "200 arklet GET 198.18.0.1:" + port + "/installBiz",
		"http://" + arklet + "/by-hand":             "403 127.0.0.1",
		"http://198.18.0.9/":                        "502 198.18.0.9",
		"http://198.18.0.3/":                        "EOF",
	} {
		t.Run(at, func(t *testing.T) {
			got := ""
			resp, err := client.Get(at)
			switch {
			case errors.Is(err, io.EOF):
				got = "EOF"
			case err != nil:
				got = err.Error()
			default:
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				got = fmt.Sprint(resp.StatusCode, " ", string(body))
			}
			for i, word := range strings.Fields(want) { // the status, then words of the answer
				if i == 0 && !strings.HasPrefix(got, word) || !strings.Contains(got, word) {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	secure := httptest.NewRecorder()
	r.gateway.ServeHTTP(secure, httptest.NewRequest(http.MethodGet, "https://biz1.shop/", http.NoBody))
	if got := secure.Body.String(); secure.Code != http.StatusBadRequest || !strings.Contains(got, "https://") ||
		!strings.Contains(got, "CONNECT") {
		t.Errorf("an https:// URL without CONNECT returned %d %s", secure.Code, got)
	}
	resp, err := client.Get("http://198.18.0.2/")
	if err != nil || resp.StatusCode != http.StatusBadGateway {
		t.Errorf("a base that is down returned %v, %v", resp, err)
	}
	resp, err = http.Get("http://" + addr + "/")
	if err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a request that is not a proxy request returned %v, %v", resp, err)
	}
}

// TestConnect checks that a CONNECT tunnel forwards data, connection closes and connection resets, and that a refused
// connection results in status 502.
func TestConnect(t *testing.T) {
	r := newFixture(t)
	_, addr := proxied(t, r)
	connect := func(to string) (net.Conn, *bufio.Reader, int) {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		check.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(waitTimeout))
		_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
		b := bufio.NewReader(c)
		resp, err := http.ReadResponse(b, &http.Request{Method: http.MethodConnect})
		check.Must(t, err)
		return c, b, resp.StatusCode
	}
	r.bases.set(
		Target{IP: "198.18.0.1", Base: "base-1", Web: listen(t, func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "pong")
			rest, _ := io.ReadAll(c) // until the client closes its side
			_, _ = fmt.Fprintf(c, " and %s", rest)
			_ = c.Close()
		})},
		Target{IP: "198.18.0.2", Base: "base-2", Web: listen(t, func(c *net.TCPConn) {
			_ = c.SetLinger(0)
			_ = c.Close()
		})},
		Target{IP: "198.18.0.3", Base: "base-3", Web: closed(t)})

	c, b, code := connect("198.18.0.1:8080")
	_, _ = io.WriteString(c, "ping")
	pong := make([]byte, 4)
	if _, err := io.ReadFull(b, pong); err != nil || code != 200 {
		t.Fatalf("status %d, %v", code, err)
	}
	_, _ = io.WriteString(c, "more")
	_ = c.(*net.TCPConn).CloseWrite()
	rest, err := io.ReadAll(b)
	if d := cmp.Diff("pong and more", string(pong)+string(rest)); d != "" || err != nil {
		t.Errorf("%v, bytes (-want +got):\n%s", err, d)
	}

	c, b, code = connect("198.18.0.2:8080")
	_, _ = io.WriteString(c, "ping")
	if _, err := b.ReadByte(); code != 200 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("status %d, error %v instead of a reset", code, err)
	}
	_, _, code = connect("198.18.0.3:8080")
	if code != http.StatusBadGateway {
		t.Errorf("refused connection: status %d", code)
	}
}

// TestConnectToLoopback checks that CONNECT to a loopback address is allowed only for the command port of a base
// outside the sandbox.
func TestConnectToLoopback(t *testing.T) {
	r := newFixture(t)
	_, addr := proxied(t, r)
	r.external = listen(t, func(c *net.TCPConn) { _ = c.Close() })
	_, port, _ := net.SplitHostPort(r.external)
	for to, want := range map[string]int{
		r.external: http.StatusOK, addr: http.StatusForbidden, "localhost:" + port: http.StatusForbidden,
		"[::1]:" + port: http.StatusForbidden,
		"127.0.0.1":     http.StatusBadRequest, "127.0.0.1:": http.StatusBadRequest,
		"198.18.0.1": http.StatusBadRequest, "192.0.2.1:80": http.StatusForbidden,
	} {
		c, err := net.Dial("tcp", addr)
		check.Must(t, err)
		_ = c.SetDeadline(time.Now().Add(waitTimeout))
		_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
		resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
		if err != nil || resp.StatusCode != want {
			t.Errorf("CONNECT %s returned %v, %v; want %d", to, resp, err, want)
		}
		_ = c.Close()
	}
}

// TestStreamToAClosedPort checks that requests to a port on which the base does not listen are lost. The error must
// contain the requested port and the port on which the base listens.
func TestStreamToAClosedPort(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		r := newFixture(t)
		createService(t, r.client, service())
		offer(t, r.client, at("198.18.0.1", "pod-1", ready))
		r.bases.set(Target{IP: "198.18.0.1", Base: "base-1", Web: serve(t, answer("", "biz1", "1")), Port: "9090"})
		end := r.run(t, spec("s", 1000, 1, viaService, func(s *Spec) { s.Reuse = reuse }))
		if len(end.LostRequests) != 1 || end.LostRequests[0].Result != Refused ||
			end.LostRequests[0].Base != "base-1" ||
			!strings.Contains(end.LostRequests[0].Error, "9090") ||
			!strings.Contains(end.LostRequests[0].Error, "8080") {
			t.Errorf("with reuse %t: %+v", reuse, end.LostRequests)
		}
	}
}

// TestCommands checks that, with the password, a client can connect to the command ports of bases and to no other
// address.
func TestCommands(t *testing.T) {
	r := newFixture(t)
	says := func(text string) string {
		return listen(t, func(c *net.TCPConn) {
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		})
	}
	arklet, web := says("arklet"), says("web")
	r.bases.set(Target{IP: "198.18.0.1", Base: "base-1", Arklet: arklet, ArkletPort: "1238", Web: web},
		Target{IP: "198.18.0.2", Base: "base-2"},
		Target{IP: "198.18.0.3", Base: "base-3", Arklet: closed(t), ArkletPort: "1239"})
	server := httptest.NewServer(r.gateway.Commands("controller", "secret"))
	defer server.Close()
	port := func(addr string) string {
		_, port, err := net.SplitHostPort(addr)
		check.Must(t, err)
		return port
	}
	const right = "Y29udHJvbGxlcjpzZWNyZXQ=" // controller:secret
	for name, tc := range map[string]struct {
		method, to, login string
		status            int
		says              string
	}{
		"commands of a base":    {to: "198.18.0.1:1238", login: right, status: 200, says: "arklet"},
		"its modules":           {to: "198.18.0.1:" + port(web), login: right, status: http.StatusBadGateway},
		"a base without arklet": {to: "198.18.0.2:1238", login: right, status: http.StatusBadGateway},
		"a base that refuses":   {to: "198.18.0.3:1239", login: right, status: http.StatusBadGateway},
		"no base":               {to: "198.18.0.9:1238", login: right, status: http.StatusBadGateway},
		"this machine":          {to: web, login: right, status: http.StatusBadGateway},
		"a Service":             {to: "biz1.default:80", login: right, status: http.StatusBadGateway},
		"without a password":    {to: "198.18.0.1:1238", status: http.StatusProxyAuthRequired},
		"with another": {to: "198.18.0.1:1238", login: "Y29udHJvbGxlcjpvdGhlcg==",
			status: http.StatusProxyAuthRequired},
		"a request in place of a line": {method: http.MethodGet, to: "http://198.18.0.1/biz1", login: right,
			status: http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", server.Listener.Addr().String())
			check.Must(t, err)
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(waitTimeout))
			method := tc.method
			if method == "" {
				method = http.MethodConnect
			}
			_, _ = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: base\r\nProxy-Authorization: Basic %s\r\n\r\n", method,
				tc.to, tc.login)
			b := bufio.NewReader(c)
			resp, err := http.ReadResponse(b, &http.Request{Method: method})
			if err != nil || resp.StatusCode != tc.status {
				t.Fatalf("%v, %v; want %d", resp, err, tc.status)
			}
			if tc.says == "" {
				return
			}
			_, _ = io.WriteString(c, "ping")
			if said, err := io.ReadAll(b); err != nil || string(said) != tc.says {
				t.Errorf("%q, %v; want %q", said, err, tc.says)
			}
		})
	}
}
