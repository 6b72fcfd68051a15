package certfile

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair is a self-signed certificate with its key, both in PEM format.
type pair struct {
	cert, key []byte
	leaf      *x509.Certificate
}

func newPair(t *testing.T, name string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), leaf,
	}
}

// secret is a directory that contains the files of a Source, like a mounted Secret.
type secret struct {
	t   *testing.T
	dir string
}

func (s secret) write(name string, data []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s secret) files() Files {
	return Files{
		Cert: File{"TLS_CERT", filepath.Join(s.dir, "tls.crt")}, Key: File{"TLS_KEY", filepath.Join(s.dir, "tls.key")},
		CA: File{"CLIENT_CA", filepath.Join(s.dir, "ca.crt")},
	}
}

func TestChangedFilesAreUsed(t *testing.T) {
	s := secret{t, t.TempDir()}
	first, second, third := newPair(t, "first"), newPair(t, "second"), newPair(t, "third")
	s.write("tls.crt", first.cert)
	s.write("tls.key", first.key)
	s.write("ca.crt", first.cert)
	var log bytes.Buffer
	source, err := Open(&tls.Config{MinVersion: tls.VersionTLS13}, s.files(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	is := func(when string, leaf, ca pair) {
		t.Helper()
		c := source.Config()
		authorities := x509.NewCertPool()
		authorities.AddCert(ca.leaf)
		if !bytes.Equal(c.Certificates[0].Certificate[0], leaf.leaf.Raw) || !c.ClientCAs.Equal(authorities) ||
			!c.RootCAs.Equal(authorities) || c.MinVersion != tls.VersionTLS13 {
			t.Errorf("%s: the configuration does not have the certificate %q and the CA certificate %q", when,
				leaf.leaf.Subject, ca.leaf.Subject)
		}
	}
	is("at the start", first, first)
	same := source.Config()
	s.write("ca.crt", second.cert)
	is("a new authority", first, second)
	changed := source.Config()
	if changed == same || source.Config() != changed {
		t.Error("the configuration is not cached, or not replaced after a change")
	}
	s.write("tls.crt", second.cert)
	is("a certificate whose key comes later", first, second)
	s.write("tls.key", second.key)
	is("its key", second, second)
	s.write("ca.crt", []byte("half a fi"))
	is("an authority that is broken", second, second)
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	is("without files", second, second)
	log.Reset()
	is("without files, again", second, second)
	if log.Len() > 0 {
		t.Errorf("the same failure is logged again: %s", log.String())
	}
	s.write("tls.crt", third.cert)
	s.write("tls.key", third.key)
	s.write("ca.crt", third.cert)
	is("all files again", third, third)
}

func TestFailuresAreLogged(t *testing.T) {
	s := secret{t, t.TempDir()}
	one := newPair(t, "one")
	s.write("ca.crt", one.cert)
	var log bytes.Buffer
	source, err := Open(&tls.Config{MinVersion: tls.VersionTLS12}, Files{CA: s.files().CA},
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	s.write("ca.crt", []byte("x"))
	source.Config()
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "PEM") {
		t.Errorf("log after an invalid file: %q", log.String())
	}
	log.Reset()
	s.write("ca.crt", one.cert)
	source.Config()
	s.write("ca.crt", newPair(t, "two").cert)
	source.Config()
	if !strings.Contains(log.String(), "level=INFO") || !strings.Contains(log.String(), "ca.crt") {
		t.Errorf("log after a new file: %q", log.String())
	}
}

// TestServerUsesChangedFiles checks that after the files have changed, a listener uses the new files for the next
// connection.
func TestServerUsesChangedFiles(t *testing.T) {
	s := secret{t, t.TempDir()}
	first, second := newPair(t, "first"), newPair(t, "second")
	files := s.files()
	files.CA = File{}
	s.write("tls.crt", first.cert)
	s.write("tls.key", first.key)
	source, err := Open(&tls.Config{MinVersion: tls.VersionTLS12}, files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", source.Server())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}()
	for _, p := range []pair{first, second} {
		s.write("tls.crt", p.cert)
		s.write("tls.key", p.key)
		c, err := tls.Dial("tcp", l.Addr().String(),
			&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // its certificate is compared
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().PeerCertificates[0].Subject.CommonName; got != p.leaf.Subject.CommonName {
			t.Errorf("the server presents the certificate of %q, want %q", got, p.leaf.Subject.CommonName)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
