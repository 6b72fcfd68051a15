package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestAddress(t *testing.T) {
	on := func(value string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Annotations: map[string]string{"base.koupleless.io/web-port": value}}
	}
	port := corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}
	for name, tt := range map[string]struct {
		pod, node metav1.ObjectMeta
		probe     corev1.HTTPGetAction
		want, err string // expected result; an error must contain the texts in err, which are separated by |
	}{
		"port of the probe": {probe: port, want: "10.0.0.1:8080"},
		"named port": {probe: corev1.HTTPGetAction{Port: intstr.FromString("web")},
			want: "10.0.0.1:9090"},
		"number as a name":  {probe: corev1.HTTPGetAction{Port: intstr.FromString("81")}, want: "10.0.0.1:81"},
		"host of the probe": {probe: corev1.HTTPGetAction{Port: intstr.FromInt32(1), Host: "h"}, want: "h:1"},
		"port of the Node":  {probe: port, node: on("81"), want: "10.0.0.1:81"},
		"the port of the Pod overrides the port of the Node": {probe: port, pod: on("82"), node: on("81"),
			want: "10.0.0.1:82"},
		"host and port of the Node": {probe: port, node: on("127.0.0.1:83"), want: "127.0.0.1:83"},
		"IPv6":                      {probe: port, node: on("[::1]:84"), want: "[::1]:84"},
		"unknown port name": {probe: corev1.HTTPGetAction{Port: intstr.FromString("nope")},
			err: `"nope"|"biz1"`},
		"no port at all":    {err: `"0"`},
		"port out of range": {probe: port, node: on("70000"), err: `"70000"`},
		"annotation of maximum length": {probe: port, node: on(strings.Repeat("9", 256)),
			err: `"` + strings.Repeat("9", 80) + `"`},
		"annotation too long": {probe: port, pod: on(strings.Repeat("9", 257)),
			err: "base.koupleless.io/web-port|257|256"},
		"invalid address": {probe: port, node: on("a:b:c"), err: "base.koupleless.io/web-port|a:b:c"},
	} {
		t.Run(name, func(t *testing.T) {
			container := corev1.Container{Name: "biz1",
				Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 9090}}}
			got, err := Address(&corev1.Pod{ObjectMeta: tt.pod}, &corev1.Node{ObjectMeta: tt.node}, "10.0.0.1",
				container, &tt.probe)
			if got != tt.want || (err == nil) != (tt.err == "") {
				t.Errorf("address %q, error %v, want %q", got, err, tt.want)
			}
			for value := range strings.SplitSeq(tt.err, "|") {
				if !strings.Contains(fmt.Sprint(err), value) {
					t.Errorf("error %v, want it to contain %s", err, value)
				}
			}
		})
	}
	if got, err := Address(&corev1.Pod{}, nil, "10.0.0.1", corev1.Container{}, &port); got != "10.0.0.1:8080" {
		t.Errorf("without a Node: address %q, error %v", got, err)
	}
}

func TestWithContextPath(t *testing.T) {
	for in, want := range map[[2]string]string{
		{"", "/ok"}: "/ok", {"/", "/ok"}: "/ok", {"biz1", "/ok"}: "/biz1/ok", {"/biz1/", "ok"}: "/biz1/ok",
		{"biz1", ""}:      "/biz1/",
		{"biz1", "/biz1"}: "/biz1", {"biz1", "/biz1/ok"}: "/biz1/ok", {"biz1", "/biz1?a=b"}: "/biz1?a=b",
		{"biz1", "/biz12"}: "/biz1/biz12",
	} {
		if got := withContextPath(in[0], in[1]); got != want {
			t.Errorf("withContextPath(%q, %q) = %q, want %q", in[0], in[1], got, want)
		}
	}
}

// TestDial checks that a probe connects to its base with Options.Dial, which may connect through a proxy.
func TestDial(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var dialed string
	client := newClient(Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed = addr
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}})
	if err := get(t.Context(), client, Target{Address: "198.18.0.1:8080"},
		&corev1.HTTPGetAction{Path: "/ok"}); err != nil {
		t.Error(err)
	}
	if dialed != "198.18.0.1:8080" {
		t.Errorf("dialed %q, want 198.18.0.1:8080", dialed)
	}
}

// TestRequest checks that the prober sends the same requests as the kubelet, and that it follows redirects to the
// same host, but not to other hosts.
func TestRequest(t *testing.T) {
	var seen []string
	mux := http.NewServeMux()
	record := func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Host+" "+r.URL.String()+" "+r.Header.Get("User-Agent")+" "+r.Header.Get("X-Me")+" "+
			r.Header.Get("Accept"))
	}
	mux.HandleFunc("/biz1/ok", record)
	mux.HandleFunc("/biz1/here",
		func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/gone", http.StatusFound) })
	mux.HandleFunc("/biz1/there", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
	})
	mux.HandleFunc("/biz1/round",
		func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/biz1/round", http.StatusFound) })
	server := httptest.NewServer(mux)
	defer server.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(record))
	defer secure.Close()
	probed := func(address, path string, scheme corev1.URIScheme) string {
		err := get(t.Context(), newClient(Options{}), Target{Address: address, ContextPath: "biz1"},
			&corev1.HTTPGetAction{
				Path: path, Scheme: scheme,
				HTTPHeaders: []corev1.HTTPHeader{{Name: "x-me", Value: "1"}, {Name: "Host", Value: "shop"}},
			})
		if err == nil {
			return ""
		}
		return comparableText(err.Error())
	}
	plain, tls := server.Listener.Addr().String(), secure.Listener.Addr().String()
	got := []string{probed(plain, "/ok?a=b", ""), probed(plain, "/here", corev1.URISchemeHTTP),
		probed(plain, "/there", ""), probed(tls, "/ok", corev1.URISchemeHTTPS), probed(plain, "/round", ""),
		probed(plain, "/%zz", "")}
	want := []string{"", "404 http://" + plain + "/biz1/here", "", "", `"/biz1/round" 10 redirects`,
		`"/biz1/%zz" URL escape`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"shop /biz1/ok?a=b kube-probe/koupleless 1 */*",
		"shop /biz1/ok kube-probe/koupleless 1 */*"}, seen); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
