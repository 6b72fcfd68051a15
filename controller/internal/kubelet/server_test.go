package kubelet

import (
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationapi "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

// get requests a path with the certificate of a client.
func (w *fixture) get(t *testing.T, c rest.TLSClientConfig, method, path string) (status int, text string, err error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: tlsConfig(t, c), DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

const logsPath = "/containerLogs/default/pod-0/biz1"

func TestClientCertificates(t *testing.T) {
	w := newFixture(t, nil)
	expired, expiredKey := w.authority.issue("kube-apiserver", x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Hour))
	forServers, forServersKey := w.authority.issue("kube-apiserver", x509.ExtKeyUsageServerAuth,
		time.Now().Add(time.Hour))
	for name, c := range map[string]struct {
		client rest.TLSClientConfig
		status int // expected HTTP status; 0 means that the TLS handshake must fail
	}{
		"a certificate of the authority": {w.authority.client("kube-apiserver"), 200},
		"no certificate":                 {rest.TLSClientConfig{Insecure: true}, 401},
		"a certificate of another":       {newAuthority(t).client("kube-apiserver"), 0},
		"an expired certificate": {rest.TLSClientConfig{Insecure: true, CertFile: expired, KeyFile: expiredKey},
			0},
		"a certificate for servers": {
			rest.TLSClientConfig{Insecure: true, CertFile: forServers, KeyFile: forServersKey}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{logsPath, "/exec/default/pod-0/biz1?command=help&output=1", "/pods"} {
				status, text, err := w.get(t, c.client, "GET", path)
				switch {
				case c.status == 0 && err == nil, c.status == 401 && status != 401:
					t.Errorf("%s: status %d, body %q", path, status, text)
				case c.status == 200 && path == logsPath && (err != nil || status != 200):
					t.Errorf("%s: status %d, body %q, error %v", path, status, text, err)
				}
			}
		})
	}
}

func TestReviews(t *testing.T) {
	client := fake.NewClientset()
	var asked []authorizationapi.SubjectAccessReviewSpec
	var failing atomic.Bool
	client.PrependReactor("create", "subjectaccessreviews",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			if failing.Load() {
				return true, nil, fmt.Errorf("connection refused")
			}
			review := action.(clienttesting.CreateAction).GetObject().(*authorizationapi.SubjectAccessReview)
			asked = append(asked, review.Spec)
			review.Status.Allowed = review.Spec.User == "kube-apiserver" ||
				review.Spec.User == "reader" && review.Spec.ResourceAttributes.Verb == "get"
			return true, review, nil
		})
	w := newFixture(t, func(o *Options) { o.Reviews = client.AuthorizationV1().SubjectAccessReviews() })
	const execPath = "/exec/default/pod-0/biz1?command=help" // a bad request if the client is admitted
	apiserver, reader, stranger := w.authority.client("kube-apiserver"), w.authority.client(
		"reader"), w.authority.client("stranger")
	for _, c := range []struct {
		name         string
		client       rest.TLSClientConfig
		method, path string
		status       int
		names        string
	}{
		{"the API server reads", apiserver, "GET", logsPath, 200, ""},
		{"and again, without another review", apiserver, "GET", logsPath, 200, ""},
		{"the API server runs", apiserver, "POST", execPath, 400, "stdin|stdout|stderr"},
		{"a reader reads", reader, "GET", logsPath, 200, ""},
		{"a reader does not run", reader, "POST", execPath, 403, `"reader"|create|nodes/proxy`},
		{"not even as a WebSocket does, with GET", reader, "GET", execPath, 403, `"reader"|create|nodes/proxy`},
		{"a stranger does not read", stranger, "GET", logsPath, 403, `"stranger"|get|nodes/proxy`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, text, err := w.get(t, c.client, c.method, c.path)
			if err != nil || status != c.status || !mentions(text, c.names) {
				t.Errorf("status %d, body %q, error %v, want %d %q", status, text, err, c.status, c.names)
			}
		})
	}
	spec := func(user, verb string) authorizationapi.SubjectAccessReviewSpec {
		return authorizationapi.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:authenticated", "a-group"},
			ResourceAttributes: &authorizationapi.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes",
				Subresource: "proxy"},
		}
	}
	want := []authorizationapi.SubjectAccessReviewSpec{
		spec("kube-apiserver", "get"), spec("kube-apiserver", "create"), spec("reader", "get"),
		spec("reader", "create"), spec("stranger", "get"),
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("reviews (-want +got):\n%s", diff)
	}
	failing.Store(true)
	if status, text, err := w.get(t, w.authority.client("another"), "GET", logsPath); err != nil || status != 500 ||
		!strings.Contains(text, "connection refused") {
		t.Errorf("status %d, body %q, error %v while reviews fail", status, text, err)
	}
}

func TestUnsupportedRequests(t *testing.T) {
	w := newFixture(t, nil)
	w.pods.set("debugged", "2", "biz1")
	w.pods.pods["default/debugged"].Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"}}}
	w.pods.set("sidecar", "3", "biz1", "agent")
	w.pods.pods["default/sidecar"].Spec.Containers[0].Image = "https://h/biz1.jar"
	client := w.authority.client("kube-apiserver")
	for _, c := range []struct {
		name, method, path string
		status             int
		names              string
	}{
		{"a Pod", "GET", "/containerLogs/default/pod-9/biz1", 404, "default/pod-9"},
		{"a namespace", "GET", "/containerLogs/other/pod-0/biz1", 404, "other/pod-0"},
		{"a container", "GET", "/containerLogs/default/pod-0/biz9", 404, `default/pod-0|"biz9"`},
		{"a previous container", "GET", logsPath + "?previous=true", 400, "previous"},
		{"a sidecar", "GET", "/containerLogs/default/sidecar/agent", 400, "agent"},
		{"a container of kubectl debug", "GET", "/containerLogs/default/debugged/debugger", 400, noDebug},
		{"attach", "POST", "/attach/default/pod-0/biz1?output=1", 501, noAttach},
		{"attach by a WebSocket", "GET", "/attach/default/pod-0/biz1?output=1", 501, noAttach},
		{"port forwarding", "POST", "/portForward/default/pod-0", 501, noPortForward},
		{"anything else", "GET", "/metrics", 404, "not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, text, err := w.get(t, client, c.method, c.path)
			if err != nil || status != c.status || !mentions(text, c.names) {
				t.Errorf("status %d, body %q, error %v, want %d %q", status, text, err, c.status, c.names)
			}
		})
	}
}

func TestServingCertificates(t *testing.T) {
	t.Run("its own", func(t *testing.T) {
		w := newFixture(t, func(o *Options) { o.CertFile, o.KeyFile = "", "" })
		client := w.authority.client("kube-apiserver")
		if status, text, err := w.get(t, client, "GET", logsPath); err != nil || status != 200 {
			t.Errorf("status %d, body %q, error %v", status, text, err)
		}
	})
	t.Run("of a file, which is verified", func(t *testing.T) {
		w := newFixture(t, nil)
		client := w.authority.client("kube-apiserver")
		client.Insecure, client.CAFile, client.ServerName = false, w.authority.file, "localhost"
		if status, text, err := w.get(t, client, "GET", logsPath); err != nil || status != 200 {
			t.Errorf("status %d, body %q, error %v", status, text, err)
		}
		client.CAFile = newAuthority(t).file
		if _, _, err := w.get(t, client, "GET", logsPath); err == nil {
			t.Error("a certificate of another CA is accepted")
		}
	})
}

func TestNewReturnsErrors(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue("localhost", x509.ExtKeyUsageServerAuth, time.Now().Add(time.Hour))
	taken := newFixture(t, nil).server.Addr().String()
	for name, c := range map[string]struct {
		opts Options
		want string
	}{
		"no authority":             {Options{}, "KUBELET_CLIENT_CA"},
		"a file that is not there": {Options{ClientCAFile: "/nowhere/ca.crt"}, "KUBELET_CLIENT_CA|/nowhere/ca.crt"},
		"a file of something else": {Options{ClientCAFile: key}, "KUBELET_CLIENT_CA|PEM"},
		"a certificate without key": {Options{ClientCAFile: a.file, CertFile: cert},
			"KUBELET_TLS_CERT|KUBELET_TLS_KEY"},
		"a key of another": {Options{ClientCAFile: a.file, CertFile: a.file, KeyFile: key},
			"KUBELET_TLS_CERT|KUBELET_TLS_KEY|tls: "},
		"a taken port": {Options{ClientCAFile: a.file, CertFile: cert, KeyFile: key, Addr: taken},
			"address already in use"},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.Logger = slog.New(slog.DiscardHandler)
			if _, err := New(c.opts); err == nil || !mentions(err.Error(), c.want) {
				t.Errorf("error %v, want an error with %q", err, c.want)
			}
		})
	}
}
