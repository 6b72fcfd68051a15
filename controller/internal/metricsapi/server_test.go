package metricsapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

const root = "/apis/metrics.k8s.io/v1beta1"

// Nobody is served but the aggregator, whatever headers say.
func TestWhoIsServed(t *testing.T) {
	w := newWorld(t, node("vnode.a", "56Mi"))
	for name, c := range map[string]struct {
		certificates []tls.Certificate
		served       bool
	}{
		"the aggregator":                       {w.frontProxy.issue(t, aggregator, x509.ExtKeyUsageClientAuth), true},
		"no certificate":                       {nil, false},
		"the aggregator of another cluster":    {newAuthority(t).issue(t, aggregator, x509.ExtKeyUsageClientAuth), false},
		"another name of the same authority":   {w.frontProxy.issue(t, "somebody", x509.ExtKeyUsageClientAuth), false},
		"a certificate for servers":            {w.frontProxy.issue(t, aggregator, x509.ExtKeyUsageServerAuth), false},
		"an administrator of the same cluster": {newAuthority(t).issue(t, "kubernetes-admin", x509.ExtKeyUsageClientAuth), false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{root, root + "/nodes", root + "/nodes/vnode.a", root + "/pods"} {
				code, body, err := w.get(t, c.certificates, path)
				if served := err == nil; served != c.served {
					t.Errorf("%s: code %d, error %v, body %s; want served: %t", path, code, err, body, c.served)
				}
			}
		})
	}
}

// Without the authority of the aggregator nobody is served, and no certificate will do.
func TestNobodyIsServedUnlessTheAPIServerSaysHowItCalls(t *testing.T) {
	for name, data := range map[string]map[string]string{
		"no authority":         {namesKey: `[]`},
		"no PEM":               {authoritiesKey: "nonsense"},
		"names are unreadable": {authoritiesKey: newAuthority(t).pem(), namesKey: `front-proxy-client`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.changeCallers(t, data)
			if code, body, err := w.get(t, w.frontProxy.issue(t, aggregator, x509.ExtKeyUsageClientAuth), root); err == nil {
				t.Errorf("served: %d %s", code, body)
			}
		})
	}
}

// The ConfigMap is read once a minute, or every five seconds while it can't be.
func TestStrangersCostTheAPIServerNothing(t *testing.T) {
	start := time.Now()
	now := start
	from := &counted{err: errors.New("forbidden")}
	m := memory{from: from, now: func() time.Time { return now }}
	var got []int
	for _, after := range []time.Duration{0, 4 * time.Second, 5 * time.Second, time.Minute, 64 * time.Second, 66 * time.Second} {
		if now = start.Add(after); after == 5*time.Second {
			from.set(t)
		}
		_, _, _ = m.get(t.Context())
		got = append(got, from.reads)
	}
	if diff := cmp.Diff([]int{1, 1, 2, 2, 2, 3}, got); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

type counted struct {
	reads int
	data  map[string]string
	err   error
}

func (c *counted) set(t *testing.T) {
	c.err, c.data = nil, map[string]string{authoritiesKey: newAuthority(t).pem()}
}

func (c *counted) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	c.reads++
	return &corev1.ConfigMap{Data: c.data}, c.err
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func blind(n *corev1.Node)    { n.Status.Conditions[1].Status = corev1.ConditionFalse }
func untold(n *corev1.Node)   { n.Annotations = nil }

func TestNodes(t *testing.T) {
	w := newWorld(t, node("vnode.b", "128Mi"), node("vnode.a", "56Mi"),
		node("vnode.gone", "9Mi", notReady), node("vnode.blind", "9Mi", blind), node("vnode.new", "", untold), node("vnode.odd", "much"))
	for path, want := range map[string]map[string]string{
		"/nodes":                          {"vnode.a": "56Mi", "vnode.b": "128Mi"},
		"/nodes?labelSelector=of=vnode.a": {"vnode.a": "56Mi"},
		"/nodes?labelSelector=of=nobody":  {},
	} {
		code, body, err := w.get(t, w.frontProxy.issue(t, aggregator, x509.ExtKeyUsageClientAuth), root+path)
		must(t, err)
		var l v1beta1.NodeMetricsList
		must(t, json.Unmarshal(body, &l))
		got := map[string]string{}
		for _, m := range l.Items {
			got[m.Name] = m.Usage.Memory().String()
			if _, told := m.Usage[corev1.ResourceCPU]; told || len(m.Usage) != 1 || time.Since(m.Timestamp.Time) > time.Hour || m.Window.Duration != time.Minute {
				t.Errorf("%s: %s has %v at %s of %s: want nothing but memory, of the last minute", path, m.Name, m.Usage, m.Timestamp, m.Window.Duration)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || code != http.StatusOK || l.Kind != "NodeMetricsList" || !strings.Contains(string(body), `"items":[`) {
			t.Errorf("%s: %d %s (-want +got):\n%s", path, code, body, diff)
		}
	}
}

// What kubectl prints of what there is not is a sentence.
func TestSentences(t *testing.T) {
	w := newWorld(t, node("vnode.a", "56Mi"), node("vnode.gone", "9Mi", notReady))
	type answer struct {
		Code    int32
		Reason  metav1.StatusReason
		Message string
	}
	for path, want := range map[string]answer{
		"/nodes/vnode.gone":               {404, "NotFound", `node "vnode.gone" has no metrics now: its base is not heard, or has not told its metaspace yet`},
		"/nodes/worker":                   {404, "NotFound", `node "worker" is no base: only bases have metrics here`},
		"/nodes?labelSelector=a=b=c":      {400, "BadRequest", `labelSelector: found '=', expected: ',' or 'end of string'`},
		"/nodes?watch=true":               {400, "BadRequest", "the metrics of bases are listed by labels only, and not watched"},
		"/nodes?fieldSelector=a%3Db":      {400, "BadRequest", "the metrics of bases are listed by labels only, and not watched"},
		"/pods":                           {501, "NotImplemented", noPods},
		"/namespaces/default/pods":        {501, "NotImplemented", noPods},
		"/namespaces/default/pods/biz1-x": {501, "NotImplemented", noPods},
	} {
		code, body, err := w.get(t, w.frontProxy.issue(t, aggregator, x509.ExtKeyUsageClientAuth), root+path)
		must(t, err)
		var s metav1.Status
		must(t, json.Unmarshal(body, &s))
		if diff := cmp.Diff(want, answer{s.Code, s.Reason, s.Message}); diff != "" || code != int(want.Code) || s.Kind != "Status" || s.Status != metav1.StatusFailure {
			t.Errorf("%s: %d %s (-want +got):\n%s", path, code, body, diff)
		}
	}
}

func TestDiscovery(t *testing.T) {
	w := newWorld(t)
	_, body, err := w.get(t, w.frontProxy.issue(t, aggregator, x509.ExtKeyUsageClientAuth), root)
	must(t, err)
	var got metav1.APIResourceList
	must(t, json.Unmarshal(body, &got))
	want := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "metrics.k8s.io/v1beta1",
		APIResources: []metav1.APIResource{{Name: "nodes", Kind: "NodeMetrics", Verbs: metav1.Verbs{"get", "list"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is wrong with the address or the certificate stops the start.
func TestNew(t *testing.T) {
	for name, c := range map[string]struct {
		opts Options
		want string
	}{
		"no such address":     {Options{Addr: "127.0.0.1:x"}, "serving the metrics API: "},
		"no such certificate": {Options{Addr: "127.0.0.1:0", CertFile: "missing.crt", KeyFile: "missing.key"}, "reading the serving certificate of the metrics API: "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(c.opts); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
