package mqtt

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	certutil "k8s.io/client-go/util/cert"

	"github.com/koupleless/koupsandbox/controller/internal/certfile"
)

// TestRenewedCertificates changes the certificate files while the tunnel runs. The next connection must use the
// current certificate authority and the current client certificate.
func TestRenewedCertificates(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) certfile.File { return certfile.File{Setting: name, Path: filepath.Join(dir, name)} }
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var serving atomic.Pointer[tls.Certificate]
	shown := make(chan string, 100) // the client certificates
	// renew replaces all certificates.
	renew := func() (client string) {
		t.Helper()
		cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		server, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		serving.Store(&server)
		write("ca", cert)
		cert, key, err = certutil.GenerateSelfSignedCertKey("controller", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		write("cert", cert)
		write("key", key)
		own, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return string(own.Certificate[0])
	}
	first := renew()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serveBrokerOn(t, tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return serving.Load(), nil },
		VerifyConnection: func(c tls.ConnectionState) error {
			shown <- string(c.PeerCertificates[0].Raw)
			return nil
		},
	}), &aclHook{})
	source, err := certfile.Open(&tls.Config{MinVersion: tls.VersionTLS12},
		certfile.Files{Cert: file("cert"), Key: file("key"), CA: file("ca")}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	connected, wait := signal()
	startTunnelWith(t, Options{Broker: "ssl://" + l.Addr().String(), TLS: source.Config, OnConnected: connected},
		newRecorder())
	wait(t)
	if <-shown != first {
		t.Error("the tunnel does not present its client certificate")
	}
	second := renew()
	for _, id := range idsOfTunnel(s) {
		c, _ := s.Clients.Get(id)
		c.Stop(errors.New("the broker restarts"))
	}
	wait(t)
	if <-shown != second {
		t.Error("the tunnel does not present its new client certificate")
	}
}
