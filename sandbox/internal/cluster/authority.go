package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// certificateLifetime is how long issued certificates are valid.
	certificateLifetime = 365 * 24 * time.Hour
	// backdate is how far in the past the validity of a certificate starts, to tolerate clocks that are slow.
	backdate = 5 * time.Minute
)

// Authority is a certificate authority (CA). It is immutable and safe for concurrent use.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	pem         []byte
}

// Subject describes the holder and the permitted use of a certificate.
type Subject struct {
	// Name is the common name of the certificate. Groups are its organizations.
	Name   string
	Groups []string
	// Hosts lists the DNS names and IP addresses in a server certificate. Default: the certificate is not valid for
	// server authentication.
	Hosts []string
	// Client makes the certificate valid for client authentication.
	Client bool
}

// PEM returns the CA certificate in PEM format.
func (a *Authority) PEM() []byte { return a.pem }

// Certificate returns the CA certificate. It must not be modified.
func (a *Authority) Certificate() *x509.Certificate { return a.certificate }

// NewAuthority creates a CA with a new key, and returns the CA and its key in PEM format. It does not write to disk.
func NewAuthority(name string) (a *Authority, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, fmt.Errorf("creating the key of a CA: %w", err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name, NotBefore: time.Now().Add(-backdate)},
		key)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a CA certificate: %w", err)
	}
	text, err := cert.EncodeCertificates(certificate)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a CA certificate: %w", err)
	}
	return &Authority{certificate: certificate, key: key, pem: text}, keyPEM, nil
}

// ParseAuthority parses the certificate and the key of a CA that NewAuthority created. It returns an error if the CA
// certificate would expire before a newly issued certificate.
func ParseAuthority(certPEM, keyPEM []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("the certificate is not a CA certificate")
	}
	if time.Now().Add(certificateLifetime).After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("the CA certificate expires at %s, before the certificates that it would issue",
			pair.Leaf.NotAfter)
	}
	return &Authority{certificate: pair.Leaf, key: key, pem: certPEM}, nil
}

// Issue issues a certificate with a new key. The certificate is valid for one year.
func (a *Authority) Issue(s Subject) (certPEM, keyPEM []byte, err error) {
	certPEM, keyPEM, err = a.issue(s)
	if err != nil {
		return nil, nil, fmt.Errorf("issuing a certificate for %s: %w", s.Name, err)
	}
	return certPEM, keyPEM, nil
}

func (a *Authority) issue(s Subject) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: s.Name, Organization: s.Groups}, SerialNumber: serial,
		NotBefore: time.Now().Add(-backdate), NotAfter: time.Now().Add(certificateLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, host := range s.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if len(s.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if s.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	certPEM, err = cert.EncodeCertificates(parsed)
	return certPEM, keyPEM, err
}

// newKey creates an ECDSA P-256 key, a key type that all components support.
func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, keyPEM, err
}
