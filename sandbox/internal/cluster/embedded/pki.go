package embedded

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
	"os"
	"path/filepath"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// validity of a certificate. A sandbox that lives longer gets new ones at its next start.
	validity = 365 * 24 * time.Hour
	// leftover is what must be left of it for a start to go on with it.
	leftover = 24 * time.Hour
	// backdate allows for clocks that are set back a little.
	backdate = 5 * time.Minute
)

// The authorities. What each signs is trusted for one purpose only, as in a real cluster: a client
// certificate of the API must not open etcd, nor pass for the API server in front of an aggregated
// API or a kubelet.
const (
	clusterCA       = "ca"
	etcdCA          = "etcd-ca"
	frontProxyCA    = "front-proxy-ca"
	kubeletClientCA = "kubelet-client-ca"
)

// The administrator's certificate, and what it says.
const (
	adminCertificate = "user-admin"
	adminUser        = "koupsandbox-admin"
)

// saKey signs the tokens of service accounts.
const saKey = "sa.key"

// subject is what a certificate says about its holder.
type subject struct {
	name   string
	groups []string
	// hosts are DNS names and addresses; a subject that has any may serve.
	hosts []string
	// client lets the holder present it to a server.
	client bool
}

// certificate is one file of the PKI folder.
type certificate struct {
	file, ca string
	subject
}

// certificates lists what the components need. first is the first address of the service network,
// which is that of the Service "kubernetes".
func certificates(first net.IP, clusterDomain string) []certificate {
	loopback := []string{"localhost", "127.0.0.1", "::1"}
	api := slices.Concat(loopback, []string{
		first.String(), "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + clusterDomain,
	})
	return []certificate{
		{"etcd", etcdCA, subject{name: "etcd", hosts: loopback, client: true}}, // also its own peer
		{"apiserver-etcd-client", etcdCA, subject{name: "kube-apiserver-etcd-client", client: true}},
		{"apiserver", clusterCA, subject{name: "kube-apiserver", hosts: api}},
		{"apiserver-kubelet-client", kubeletClientCA, subject{name: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}, client: true}}, // a kubelet asks whether it may
		{"front-proxy-client", frontProxyCA, subject{name: "front-proxy-client", client: true}},
		{"kube-controller-manager", clusterCA, subject{name: "kube-controller-manager", hosts: loopback}},
		{"kube-scheduler", clusterCA, subject{name: "kube-scheduler", hosts: loopback}},
		{adminCertificate, clusterCA, subject{name: adminUser, groups: []string{"system:masters"}, client: true}},
	}
}

// pki is a PKI folder in memory. It does not change once it is made, so it may be used concurrently.
type pki struct {
	dir string
	cas map[string]authority
}

type authority struct {
	cert *x509.Certificate
	pem  []byte
	key  crypto.Signer
}

func (p *pki) crt(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p *pki) key(name string) string { return filepath.Join(p.dir, name+".key") }

// ensurePKI loads the folder if everything in it is sound and lasts for another day, and else makes
// it anew as a whole; remade then says what was wrong, and is empty for a folder that was not
// there.
func ensurePKI(dir string, wanted []certificate, now time.Time) (p *pki, remade string, err error) {
	p, err = loadPKI(dir, wanted, now)
	if err == nil {
		return p, "", nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		remade = err.Error()
	}
	p, err = makePKI(dir, wanted, now)
	if err != nil {
		return nil, "", fmt.Errorf("making the certificates of the control plane: %w", err)
	}
	return p, remade, nil
}

// makePKI writes a new folder beside dir and moves it there when it is whole.
func makePKI(dir string, wanted []certificate, now time.Time) (*pki, error) {
	p := &pki{dir: dir + ".new", cas: map[string]authority{}}
	if err := os.RemoveAll(p.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, err
	}
	for _, name := range []string{clusterCA, etcdCA, frontProxyCA, kubeletClientCA} {
		key, keyPEM, err := newKey()
		if err != nil {
			return nil, err
		}
		cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "koupsandbox-" + name, NotBefore: now.Add(-backdate)}, key)
		if err != nil {
			return nil, err
		}
		certPEM, err := certutil.EncodeCertificates(cert)
		if err != nil {
			return nil, err
		}
		p.cas[name] = authority{cert: cert, pem: certPEM, key: key}
		if err := p.write(name, certPEM, keyPEM); err != nil {
			return nil, err
		}
	}
	for _, c := range wanted {
		certPEM, keyPEM, err := p.cas[c.ca].issue(c.subject, now)
		if err != nil {
			return nil, err
		}
		if err := p.write(c.file, certPEM, keyPEM); err != nil {
			return nil, err
		}
	}
	_, saPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(p.dir, saKey), saPEM, 0o600); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.Rename(p.dir, dir); err != nil {
		return nil, err
	}
	p.dir = dir
	return p, nil
}

func (p *pki) write(name string, certPEM, keyPEM []byte) error {
	if err := os.WriteFile(p.crt(name), certPEM, 0o600); err != nil {
		return err
	}
	return os.WriteFile(p.key(name), keyPEM, 0o600)
}

// loadPKI reads the folder and fails unless each wanted certificate is there, fits its key, was
// signed by its authority for its groups and hosts, and lasts.
func loadPKI(dir string, wanted []certificate, now time.Time) (*pki, error) {
	p := &pki{dir: dir, cas: map[string]authority{}}
	for _, name := range []string{clusterCA, etcdCA, frontProxyCA, kubeletClientCA} {
		pair, certPEM, err := p.read(name)
		if err != nil {
			return nil, err
		}
		key, ok := pair.PrivateKey.(crypto.Signer)
		if !ok || !pair.Leaf.IsCA {
			return nil, fmt.Errorf("%s is not a certificate authority", p.crt(name))
		}
		p.cas[name] = authority{cert: pair.Leaf, pem: certPEM, key: key}
	}
	for _, c := range wanted {
		pair, _, err := p.read(c.file)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AddCert(p.cas[c.ca].cert)
		_, err = pair.Leaf.Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: now.Add(leftover), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.crt(c.file), err)
		}
		if !slices.Equal(pair.Leaf.Subject.Organization, c.groups) { // an older version's
			return nil, fmt.Errorf("%s: it is for the groups %q, not %q", p.crt(c.file), pair.Leaf.Subject.Organization, c.groups)
		}
		for _, host := range c.hosts {
			if err := pair.Leaf.VerifyHostname(host); err != nil {
				return nil, fmt.Errorf("%s: %w", p.crt(c.file), err)
			}
		}
	}
	if _, err := keyutil.PrivateKeyFromFile(filepath.Join(dir, saKey)); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *pki) read(name string) (tls.Certificate, []byte, error) {
	certPEM, err := os.ReadFile(p.crt(name))
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	keyPEM, err := os.ReadFile(p.key(name))
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("%s: %w", p.crt(name), err)
	}
	return pair, certPEM, nil
}

// issue signs a certificate for a new key.
func (a authority) issue(s subject, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.name, Organization: s.groups},
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	for _, host := range s.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if len(s.hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if s.client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the certificate of %q: %w", s.name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	certPEM, err = certutil.EncodeCertificates(cert)
	return certPEM, keyPEM, err
}

// newKey makes an ECDSA P-256 key: every component accepts it and it takes microseconds.
func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, keyPEM, err
}
