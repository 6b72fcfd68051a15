package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certificateLife is longer than any sandbox.
const certificateLife = 365 * 24 * time.Hour

// Authority signs the serving certificates of a sandbox whose cluster keeps its own authority to
// itself. Its key is nowhere but here.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	pem         []byte
}

// PEM is its certificate, which others trust.
func (a *Authority) PEM() []byte { return a.pem }

// NewAuthority makes an authority with a key of its own, which is written nowhere.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of an authority: %w", err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, fmt.Errorf("making an authority: %w", err)
	}
	text, err := cert.EncodeCertificates(certificate)
	if err != nil {
		return nil, fmt.Errorf("making an authority: %w", err)
	}
	return &Authority{certificate: certificate, key: key, pem: text}, nil
}

// Issue issues a serving certificate for hosts, names or addresses.
func (a *Authority) Issue(hosts ...string) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key for %s: %w", hosts[0], err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate for %s: %w", hosts[0], err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, SerialNumber: serial,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate for %s: %w", hosts[0], err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err == nil {
		certPEM, err = cert.EncodeCertificates(parsed)
	}
	if err == nil {
		keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	}
	return certPEM, keyPEM, err
}
