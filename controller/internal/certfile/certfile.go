// Package certfile reads certificates and CA certificates from files. It reads them again for each connection, so that
// renewed certificates are used without a restart.
package certfile

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"

	certutil "k8s.io/client-go/util/cert"
)

// File is a PEM file at Path. Setting is the name of the setting that contains the path, for error messages.
type File struct{ Setting, Path string }

func (f File) read() ([]byte, error) {
	if f.Path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.Setting, err)
	}
	return data, nil
}

// Files are the files of one TLS configuration. A file with an empty path is not used. Cert and Key must both have a
// path, or neither of them.
type Files struct{ Cert, Key, CA File }

// Source provides the TLS configuration for new connections. Its methods are safe for concurrent use.
type Source struct {
	template *tls.Config
	files    Files
	logger   *slog.Logger

	mu      sync.Mutex
	config  *tls.Config
	content []byte // content of all files from which config was created
	failure string // last error that was logged; empty after a success
}

// SelfSigned returns a self-signed certificate for the host name module-controller, valid for one year.
func SelfSigned() (tls.Certificate, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("module-controller", nil, nil)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("creating a self-signed certificate: %w", err)
	}
	return tls.X509KeyPair(cert, key)
}

// Open reads the files and returns a Source. The configurations that the Source returns are copies of template, with
// the certificate from the files, and with the CA certificates from the files as RootCAs and ClientCAs.
func Open(template *tls.Config, files Files, logger *slog.Logger) (*Source, error) {
	s := &Source{template: template, files: files, logger: logger}
	if err := s.load(); err != nil {
		return nil, err
	}
	return s, nil
}

// Config reads the files and returns the configuration for a new connection. If the files cannot be used, Config
// returns the previous configuration, and logs the error unless the previous call failed with the same error.
func (s *Source) Config() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, failure := s.config, s.failure
	s.failure = ""
	if err := s.load(); err != nil {
		s.failure = err.Error()
		if s.failure != failure {
			s.logger.Warn("could not read the changed certificates; the previous certificates remain in use", "err",
				err)
		}
	} else if s.config != before {
		s.logger.Info("reloaded the changed certificates", "files", s.files)
	}
	return s.config
}

// Server returns a TLS configuration for a listener, which calls Config for each new connection.
func (s *Source) Server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.Config(), nil },
	}
}

// load reads the files. If their content has changed, load replaces the configuration.
func (s *Source) load() error {
	cert, errCert := s.files.Cert.read()
	key, errKey := s.files.Key.read()
	ca, errCA := s.files.CA.read()
	if err := cmp.Or(errCert, errKey, errCA); err != nil {
		return err
	}
	content := bytes.Join([][]byte{cert, key, ca}, []byte{0})
	if s.config != nil && bytes.Equal(content, s.content) {
		return nil
	}
	config := s.template.Clone()
	config.SessionTicketsDisabled = true // a resumed session is not verified with the new CA certificates
	if cert != nil {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("parsing %s and %s: %w", s.files.Cert.Setting, s.files.Key.Setting, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if ca != nil {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(ca) {
			return fmt.Errorf("%s %s contains no certificate in PEM format", s.files.CA.Setting, s.files.CA.Path)
		}
		config.RootCAs, config.ClientCAs = pool, pool
	}
	s.config, s.content = config, content
	return nil
}
