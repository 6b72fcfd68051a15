package kubelet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
)

// authority is a certificate authority.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.file = writePEM(t, "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// issue returns the certificate and key files for a certificate that is valid until a given time.
func (a *authority) issue(user string, use x509.ExtKeyUsage, notAfter time.Time) (certFile, keyFile string) {
	a.t.Helper()
	key := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: user, Organization: []string{"a-group"}},
		NotBefore:    time.Now().Add(-2 * time.Hour), NotAfter: notAfter, DNSNames: []string{user},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return writePEM(a.t, "CERTIFICATE", der), writePEM(a.t, "EC PRIVATE KEY", keyDER)
}

func (a *authority) client(user string) rest.TLSClientConfig {
	a.t.Helper()
	cert, key := a.issue(user, x509.ExtKeyUsageClientAuth, time.Now().Add(time.Hour))
	return rest.TLSClientConfig{Insecure: true, CertFile: cert, KeyFile: key}
}

// fakePods contains the Pods of a test. All of them are on base "a".
type fakePods struct {
	mu   sync.Mutex
	pods map[string]*corev1.Pod

	from     time.Time
	versions []string
}

func (f *fakePods) set(name string, uid types.UID, containers ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c})
	}
	f.pods["default/"+name] = pod
}

func (f *fakePods) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, "default/"+name)
}

// mentions reports whether a text contains all of the given names, which are separated by |.
func mentions(text, names string) bool {
	missing := func(name string) bool { return !strings.Contains(text, name) }
	return !slices.ContainsFunc(strings.Split(names, "|"), missing)
}

// Pod implements pods.
func (f *fakePods) Pod(namespace, name string) (*corev1.Pod, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if pod, there := f.pods[namespace+"/"+name]; there {
		return pod, "a", nil
	}
	return nil, "", fmt.Errorf("pod %s/%s does not exist", namespace, name)
}

// RequestedVersions implements pods. All log entries belong to every Pod, unless a test sets another function.
func (f *fakePods) RequestedVersions(*corev1.Pod, string) (time.Time, []string) {
	return f.from, f.versions
}

// fakeBases returns the answers that a test has set.
type fakeBases struct {
	modules []arklet.Biz
	health  arklet.Health
	do      func(identity string, r arklet.Request) (arklet.Answer, error)
	err     error
	// queried, if it is not nil, receives a value when Health is called. Health then blocks until ctx ends, and sends
	// the reason to canceled.
	queried  chan struct{}
	canceled chan error
}

func (f *fakeBases) Modules(_ context.Context, identity string, _ time.Time) (base.Snapshot, error) {
	return base.Snapshot{Info: base.Info{Identity: identity}, Modules: f.modules}, f.err
}
func (f *fakeBases) Health(ctx context.Context, _ string) (arklet.Health, error) {
	if f.queried != nil {
		f.queried <- struct{}{}
		<-ctx.Done()
		f.canceled <- ctx.Err()
	}
	return f.health, f.err
}
func (f *fakeBases) DisplayName(identity string) string { return "host-" + identity }
func (f *fakeBases) Info(identity string) base.Info {
	return base.Info{Identity: identity, HostName: "host-" + identity, IP: "10.0.0.1"}
}
func (f *fakeBases) Do(_ context.Context, identity string, r arklet.Request, _ func() bool) (arklet.Answer, error) {
	return f.do(identity, r)
}

// noBasePods is an API without Pods of bases.
type noBasePods struct{ corev1client.PodInterface }

func (n noBasePods) Pods(string) corev1client.PodInterface { return n }

func (noBasePods) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}

// fixture is a kubelet API server with the Pod default/pod-0, which has the modules biz1 and biz2 on base "a".
type fixture struct {
	authority *authority
	opts      Options
	pods      *fakePods
	bases     *fakeBases
	server    *Server
	url       string
	stop      func() // stops the server and waits until it has stopped
}

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	w := &fixture{authority: newAuthority(t), pods: &fakePods{pods: map[string]*corev1.Pod{}}, bases: &fakeBases{}}
	w.pods.set("pod-0", "1", "biz1", "biz2")
	w.opts = Options{Addr: "127.0.0.1:0", ClientCAFile: w.authority.file, Pods: w.pods, Bases: w.bases,
		EventLog: NewEventLog(), BasePods: noBasePods{}, Logger: slog.New(slog.DiscardHandler)}
	cert, key := w.authority.issue("localhost", x509.ExtKeyUsageServerAuth, time.Now().Add(time.Hour))
	w.opts.CertFile, w.opts.KeyFile = cert, key
	if change != nil {
		change(&w.opts)
	}
	s, err := New(w.opts)
	if err != nil {
		t.Fatal(err)
	}
	w.server, w.url = s, "https://"+s.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

// tlsConfig returns the TLS configuration of a client, with or without a client certificate.
func tlsConfig(t *testing.T, c rest.TLSClientConfig) *tls.Config {
	t.Helper()
	config, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: c})
	if err != nil {
		t.Fatal(err)
	}
	return config
}
