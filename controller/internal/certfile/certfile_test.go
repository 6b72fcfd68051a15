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
	"sync"
	"testing"
	"time"
)

// pair is a self-signed certificate and its key, in PEM form.
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
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
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

// secret is a directory with the files of a Source.
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
		if !bytes.Equal(c.Certificates[0].Certificate[0], leaf.leaf.Raw) || !c.ClientCAs.Equal(authorities) || !c.RootCAs.Equal(authorities) || c.MinVersion != tls.VersionTLS13 {
			t.Errorf("%s: not the certificate %q and the authority %q", when, leaf.leaf.Subject, ca.leaf.Subject)
		}
	}
	is("at the start", first, first)
	same := source.Config()
	s.write("ca.crt", second.cert)
	is("a new authority", first, second)
	changed := source.Config()
	if changed == same || source.Config() != changed {
		t.Error("a configuration is made for each connection, or not again after a change")
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
	source, err := Open(&tls.Config{MinVersion: tls.VersionTLS12}, Files{CA: s.files().CA}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	s.write("ca.crt", []byte("x"))
	source.Config()
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "holds no certificate in PEM form") {
		t.Errorf("a broken file is logged as %q", log.String())
	}
	log.Reset()
	s.write("ca.crt", one.cert)
	source.Config()
	s.write("ca.crt", newPair(t, "two").cert)
	source.Config()
	if !strings.Contains(log.String(), "certificates were read again") {
		t.Errorf("a new file is logged as %q", log.String())
	}
}

// A file that has not changed for a while is not read for each connection. Kubernetes replaces files of a
// Secret by a symbolic link.
func TestUnchangedFilesAreNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	before, after := newPair(t, "before"), newPair(t, "after")
	old := time.Now().Add(-time.Hour)
	for name, p := range map[string]pair{"1": before, "2": after} {
		s := secret{t, filepath.Join(dir, name)}
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s.write("ca.crt", p.cert)
		if err := os.Chtimes(filepath.Join(s.dir, "ca.crt"), old, old); err != nil {
			t.Fatal(err)
		}
		old = old.Add(time.Minute)
	}
	link := filepath.Join(dir, "data")
	if err := os.Symlink("1", link); err != nil {
		t.Fatal(err)
	}
	source, err := Open(&tls.Config{MinVersion: tls.VersionTLS12}, Files{CA: File{"CA", filepath.Join(link, "ca.crt")}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	read := source.read
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { source.Config() })
	}
	all.Wait()
	if source.read != read {
		t.Error("a file that has not changed was read again")
	}
	if err := os.Symlink("2", link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	want := x509.NewCertPool()
	want.AddCert(after.leaf)
	if !source.Config().RootCAs.Equal(want) {
		t.Error("the files of another directory were not read")
	}
}

// After a failure the files are read again, because corrected permissions change neither the size nor the
// modification time.
func TestFilesAreReadAgainAfterAFailure(t *testing.T) {
	s := secret{t, t.TempDir()}
	before, after := newPair(t, "before"), newPair(t, "after")
	s.write("ca.crt", before.cert)
	var log bytes.Buffer
	source, err := Open(&tls.Config{MinVersion: tls.VersionTLS12}, Files{CA: s.files().CA}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	replace := func(data []byte) {
		s.write("ca.crt", data)
		if err := os.Chtimes(s.files().CA.Path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	replace(bytes.Repeat([]byte("x"), len(after.cert)))
	source.Config()
	source.Config()
	if n := strings.Count(log.String(), "cannot be used"); n != 1 {
		t.Errorf("a file that cannot be used is logged %d times, want once: %s", n, log.String())
	}
	replace(after.cert)
	want := x509.NewCertPool()
	want.AddCert(after.leaf)
	if !source.Config().RootCAs.Equal(want) {
		t.Error("the file was not read again after it was corrected")
	}
}

// An image builder or an unpacked archive gives all files one modification time.
func TestChangedFilesWithTheSameTimeAndSize(t *testing.T) {
	s := secret{t, t.TempDir()}
	before, after := newPair(t, "before"), newPair(t, "later!")
	epoch := time.Unix(1, 0)
	for name, p := range map[string]pair{"ca.crt": before, "new": after} {
		s.write(name, append(p.cert, bytes.Repeat([]byte("\n"), 2000-len(p.cert))...))
		if err := os.Chtimes(filepath.Join(s.dir, name), epoch, epoch); err != nil {
			t.Fatal(err)
		}
	}
	source, err := Open(&tls.Config{MinVersion: tls.VersionTLS12}, Files{CA: s.files().CA}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, "new"), s.files().CA.Path); err != nil {
		t.Fatal(err)
	}
	want := x509.NewCertPool()
	want.AddCert(after.leaf)
	if !source.Config().RootCAs.Equal(want) {
		t.Error("another file of the same size and modification time was not read")
	}
}

// A listener uses new files for the next connection.
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
		c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // its certificate is compared
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().PeerCertificates[0].Subject.CommonName; got != p.leaf.Subject.CommonName {
			t.Errorf("the server shows the certificate of %q, want %q", got, p.leaf.Subject.CommonName)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
