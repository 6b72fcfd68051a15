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

// External is a broker that the user has.
type External struct {
	// Username and Password for it; without a user name there is none of the two.
	Username, Password string

	// CA, Cert and Key are what the settings name, in PEM; each may be empty.
	CA, Cert, Key []byte

	// URL is the one that the user wrote, Addr its host:port.
	URL, Addr string

	tls *tls.Config // nil without TLS
}

// NewExternal reads what the settings name: certificates, and the password's file
// unless a password is given. Nothing is dialled.
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
	if e.Username == "" { // then it is for nobody
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
				"reading the broker's CA certificate: %s holds no PEM certificate; check spec.broker.caFile", b.CAFile)
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

// ClientURL is where it is, as clients of MQTT spell it that know tcp and ssl.
func (e *External) ClientURL() string {
	if e.tls != nil {
		return "ssl://" + e.Addr
	}
	return "tcp://" + e.Addr
}

// Dial connects, with TLS if the URL says so. The error is one sentence that says
// what to do.
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

// explain says what an error of the connection means for who wrote the settings.
func (e *External) explain(err error) error {
	var (
		unknown  x509.UnknownAuthorityError
		name     x509.HostnameError
		invalid  x509.CertificateInvalidError
		notTLS   tls.RecordHeaderError
		op       *net.OpError
		notFound *net.DNSError
	)
	advice := "is it up, and is spec.broker.url right?"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		advice = "nothing listens at that address: start the broker, or check spec.broker.url"
	case errors.As(err, &notFound):
		advice = "the host does not exist: check spec.broker.url"
	case errors.As(err, &unknown):
		advice = "its certificate is of an authority that is not trusted here: name that one's file in spec.broker.caFile"
	case errors.As(err, &name):
		advice = "its certificate is for another name: write that one in spec.broker.url"
	case errors.As(err, &invalid):
		advice = "its certificate is not valid: renew it"
	case errors.As(err, &notTLS):
		advice = "it speaks no TLS there: use mqtt:// in spec.broker.url, or its port with TLS"
	case errors.As(err, &op) && op.Op == "remote error": // a TLS alert
		advice = "it refuses the TLS connection: if it wants a client certificate, name yours in spec.broker.certFile and keyFile"
	case e.tls != nil && endedEarly(err):
		advice = "it ends the TLS handshake: if it speaks no TLS there, use mqtt:// in spec.broker.url"
	case endedEarly(err):
		advice = "it ends the connection without an answer: if it speaks TLS there, use mqtts:// in spec.broker.url"
	}
	return fmt.Errorf("the broker %s cannot be reached (%w): %s", e.URL, err, advice)
}

func endedEarly(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}
