package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// External contains the address and the credentials of an external broker.
type External struct {
	// Username and Password are the broker credentials. If both are empty, the client is anonymous.
	Username, Password string

	// CA, Cert and Key contain the configured PEM files. Fields without a configured file are empty.
	CA, Cert, Key []byte

	// URL is the configured URL. Addr is the host:port from the URL.
	URL, Addr string

	tls *tls.Config // nil without TLS
}

// NewExternal reads the configured certificate files. It also reads the password file unless password is set. It does
// not connect to the broker.
func NewExternal(b v1alpha1.Broker, password string) (*External, error) {
	at, err := v1alpha1.ParseBrokerURL(b.URL)
	if err != nil {
		return nil, fmt.Errorf("spec.broker.url: %w", err)
	}
	e := &External{Username: b.Username, Password: password, URL: b.URL, Addr: at.Addr}
	if b.PasswordFile != "" {
		text, err := os.ReadFile(b.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("reading the password for the broker: %w; check spec.broker.passwordFile", err)
		}
		e.Password = strings.TrimRight(string(text), "\r\n")
	}
	if e.Username == "" { // a password needs a user name
		e.Password = ""
	}
	if !at.TLS {
		return e, nil
	}
	host, _, err := net.SplitHostPort(at.Addr)
	if err != nil {
		return nil, fmt.Errorf("spec.broker.url: %w", err)
	}
	e.tls = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if b.CAFile != "" {
		e.CA, err = os.ReadFile(b.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the broker's CA certificate: %w; check spec.broker.caFile", err)
		}
		e.tls.RootCAs = x509.NewCertPool()
		if !e.tls.RootCAs.AppendCertsFromPEM(e.CA) {
			return nil, fmt.Errorf(
				"reading the broker's CA certificate: %s has no PEM certificate; check spec.broker.caFile", b.CAFile)
		}
	}
	if b.CertFile != "" {
		var pair tls.Certificate
		e.Cert, err = os.ReadFile(b.CertFile)
		if err == nil {
			e.Key, err = os.ReadFile(b.KeyFile)
		}
		if err == nil {
			pair, err = tls.X509KeyPair(e.Cert, e.Key)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the certificate for the broker: %w; check spec.broker.certFile and keyFile",
				err)
		}
		e.tls.Certificates = []tls.Certificate{pair}
	}
	return e, nil
}

// ClientURL returns the broker URL with the scheme tcp or ssl, as MQTT client libraries expect.
func (e *External) ClientURL() string {
	if e.tls != nil {
		return "ssl://" + e.Addr
	}
	return "tcp://" + e.Addr
}

// Dial connects to the broker. It uses TLS if the URL requires TLS. Its errors name the fix.
func (e *External) Dial(ctx context.Context) (net.Conn, error) {
	var d interface {
		DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	} = &net.Dialer{}
	if e.tls != nil {
		d = &tls.Dialer{Config: e.tls}
	}
	conn, err := d.DialContext(ctx, "tcp", e.Addr)
	if err != nil {
		return nil, e.explain(err)
	}
	return conn, nil
}

// explain adds advice to a connection error.
func (e *External) explain(err error) error {
	var (
		unknown  x509.UnknownAuthorityError
		name     x509.HostnameError
		invalid  x509.CertificateInvalidError
		notTLS   tls.RecordHeaderError
		op       *net.OpError
		notFound *net.DNSError
	)
	advice := "check that the broker runs, and that spec.broker.url is correct"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		advice = "nothing listens at this address: start the broker, or check spec.broker.url"
	case errors.As(err, &notFound):
		advice = "the host does not exist: check spec.broker.url"
	case errors.As(err, &unknown):
		advice = "the certificate authority is not trusted: set spec.broker.caFile to its certificate"
	case errors.As(err, &name):
		advice = "the certificate is for another name: use this name in spec.broker.url"
	case errors.As(err, &invalid):
		advice = "the certificate is not valid: renew it"
	case errors.As(err, &notTLS):
		advice = "the port does not use TLS: use mqtt:// in spec.broker.url, or the TLS port"
	case errors.As(err, &op) && op.Op == "remote error": // a TLS alert
		advice = "the broker rejected the TLS connection: if it requires a client certificate, set " +
			"spec.broker.certFile and keyFile"
	case e.tls != nil && endedEarly(err):
		advice = "the broker closed the connection in the TLS handshake: if the port does not use TLS, use mqtt:// " +
			"in spec.broker.url"
	case endedEarly(err):
		advice = "the broker closed the connection without a response: if the port uses TLS, use mqtts:// in " +
			"spec.broker.url"
	}
	return fmt.Errorf("the broker %s is unreachable (%w); %s", e.URL, err, advice)
}

func endedEarly(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}
