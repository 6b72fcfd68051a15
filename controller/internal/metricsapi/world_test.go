package metricsapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// authority signs certificates of clients.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return authority{cert, key}
}

func (a authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// issue signs a certificate of a client for a name; its groups are those of an administrator.
func (a authority) issue(t *testing.T, name string, use x509.ExtKeyUsage) []tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use},
	}, a.cert, key.Public(), a.key)
	must(t, err)
	return []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
}

const aggregator = "front-proxy-client"

// world is a Server with the authority of its cluster's aggregator.
type world struct {
	frontProxy authority
	client     *fake.Clientset
	url        string
}

func newWorld(t *testing.T, nodes ...*corev1.Node) *world {
	t.Helper()
	w := &world{frontProxy: newAuthority(t), client: fake.NewClientset()}
	must(t, w.client.Tracker().Add(callersOf(map[string]string{
		authoritiesKey: w.frontProxy.pem(), namesKey: `["` + aggregator + `"]`,
		"client-ca-file": newAuthority(t).pem(), // that of users, which does not matter here
	})))
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, n := range nodes {
		must(t, store.Add(n))
	}
	s, err := New(Options{Addr: "127.0.0.1:0", Nodes: corev1listers.NewNodeLister(store), ConfigMaps: w.client.CoreV1().ConfigMaps(metav1.NamespaceSystem)})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	w.url = "https://" + s.Addr().String()
	return w
}

func callersOf(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: authentication}, Data: data}
}

func (w *world) changeCallers(t *testing.T, data map[string]string) {
	t.Helper()
	_, err := w.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(t.Context(), callersOf(data), metav1.UpdateOptions{})
	must(t, err)
}

// get reads a path with a certificate; nil sends none. What a client says of itself in headers is
// always the same: an administrator.
func (w *world) get(t *testing.T, certificates []tls.Certificate, path string) (code int, body []byte, err error) {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, Certificates: certificates}, //nolint:gosec // a self-signed certificate of this test
		DisableKeepAlives: true,
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
	must(t, err)
	r.Header.Set("X-Remote-User", "kubernetes-admin")
	r.Header.Set("X-Remote-Group", "system:masters")
	response, err := transport.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// node is that of a base that is heard, with so much metaspace in use.
func node(name, inUse string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": name}, Annotations: map[string]string{labels.MetaspaceInUse: inUse}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: api.ConditionObserved, Status: corev1.ConditionTrue},
		}},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
