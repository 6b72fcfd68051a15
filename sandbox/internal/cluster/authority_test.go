package cluster_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
)

// TestAuthority checks that a client that trusts only the CA accepts an issued certificate for the hosts in the
// certificate, and rejects the certificate for other hosts.
func TestAuthority(t *testing.T) {
	a, _, err := cluster.NewAuthority("test")
	check.Must(t, err)
	certPEM, keyPEM, err := a.Issue(cluster.Subject{Name: "test", Hosts: []string{"172.18.0.1", "localhost"}})
	check.Must(t, err)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	check.Must(t, err)
	trusted, untrusting := x509.NewCertPool(), x509.NewCertPool()
	trusted.AppendCertsFromPEM(a.PEM())
	other, _, err := cluster.NewAuthority("test")
	check.Must(t, err)
	untrusting.AppendCertsFromPEM(other.PEM())
	got := map[string]bool{}
	for _, host := range []string{"172.18.0.1", "localhost", "127.0.0.1"} {
		got[host] = handshake(t, pair, &tls.Config{RootCAs: trusted, ServerName: host}) == nil
	}
	got["other CA with the same name"] = handshake(t, pair,
		&tls.Config{RootCAs: untrusting, ServerName: "localhost"}) == nil
	want := map[string]bool{"172.18.0.1": true, "localhost": true, "127.0.0.1": false,
		"other CA with the same name": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("accepted (-want +got):\n%s", diff)
	}
}

func handshake(t *testing.T, pair tls.Certificate, client *tls.Config) error {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	check.Must(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if conn, err := l.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1)) // the client reports the result of the handshake and disconnects
			_ = conn.Close()
		}
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		_ = conn.Close()
	}
	_ = l.Close()
	<-served
	return err
}
