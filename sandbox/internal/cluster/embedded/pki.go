package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/util/keyutil"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
)

// The names of the CAs. As in a real cluster, each CA has one purpose. For example, etcd, aggregated API servers and
// kubelets reject client certificates for the Kubernetes API.
const (
	clusterCA       = "ca"
	etcdCA          = "etcd-ca"
	frontProxyCA    = "front-proxy-ca"
	kubeletClientCA = "kubelet-client-ca"
)

// The file name and the common name of the administrator certificate.
const (
	adminCertificate = "user-admin"
	adminUser        = "koupsandbox-admin"
)

// saKey is the name of the file with the key that signs service account tokens.
const saKey = "sa.key"

// certificate describes a certificate in the PKI directory.
type certificate struct {
	file, ca string
	cluster.Subject
}

// certificates returns the certificates of the components.
func certificates() []certificate {
	loopback := []string{"localhost", "127.0.0.1", "::1"}
	api := slices.Concat(loopback, []string{
		firstService, "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc." + clusterDomain,
	})
	return []certificate{
		// client: etcd connects to itself
		{"etcd", etcdCA, cluster.Subject{Name: "etcd", Hosts: loopback, Client: true}},
		{"apiserver-etcd-client", etcdCA, cluster.Subject{Name: "kube-apiserver-etcd-client", Client: true}},
		{"apiserver", clusterCA, cluster.Subject{Name: "kube-apiserver", Hosts: api}},
		// system:masters, because kubelets request an access review
		{"apiserver-kubelet-client", kubeletClientCA,
			cluster.Subject{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}, Client: true}},
		{"front-proxy-client", frontProxyCA, cluster.Subject{Name: "front-proxy-client", Client: true}},
		{"kube-controller-manager", clusterCA, cluster.Subject{Name: "kube-controller-manager", Hosts: loopback}},
		{"kube-scheduler", clusterCA, cluster.Subject{Name: "kube-scheduler", Hosts: loopback}},
		{adminCertificate, clusterCA,
			cluster.Subject{Name: adminUser, Groups: []string{"system:masters"}, Client: true}},
	}
}

// pki is a PKI directory. It is immutable and safe for concurrent use.
type pki struct {
	dir string
	cas map[string]*cluster.Authority
}

func (p *pki) crt(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p *pki) key(name string) string { return filepath.Join(p.dir, name+".key") }

// makePKI issues the certificates in wanted. It keeps existing CAs and the service account key, so that kubeconfigs
// and tokens stay valid after a restart. If a CA had to be replaced, replaced is the reason.
func makePKI(dir string, wanted []certificate) (p *pki, replaced string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	p = &pki{dir: dir, cas: map[string]*cluster.Authority{}}
	for _, name := range []string{clusterCA, etcdCA, frontProxyCA, kubeletClientCA} {
		reason, err := p.authority(name)
		if err != nil {
			return nil, "", err
		}
		if reason != nil && !errors.Is(reason, os.ErrNotExist) {
			replaced = fmt.Sprintf("%s: %v", p.crt(name), reason)
		}
	}
	for _, c := range wanted {
		certPEM, keyPEM, err := p.cas[c.ca].Issue(c.Subject)
		if err != nil {
			return nil, "", err
		}
		if err := p.write(c.file, certPEM, keyPEM); err != nil {
			return nil, "", err
		}
	}
	if _, _, err := keyutil.LoadOrGenerateKeyFile(filepath.Join(dir, saKey)); err != nil {
		return nil, "", err
	}
	return p, replaced, nil
}

// authority loads a CA from the PKI directory. If loading fails, it creates a new CA, and reason is the load error.
func (p *pki) authority(name string) (reason, err error) {
	certPEM, reason := os.ReadFile(p.crt(name))
	if reason == nil {
		var keyPEM []byte
		keyPEM, reason = os.ReadFile(p.key(name))
		if reason == nil {
			p.cas[name], reason = cluster.ParseAuthority(certPEM, keyPEM)
		}
	}
	if reason == nil {
		return nil, nil
	}
	ca, keyPEM, err := cluster.NewAuthority("koupsandbox-" + name)
	if err != nil {
		return reason, err
	}
	p.cas[name] = ca
	return reason, p.write(name, ca.PEM(), keyPEM)
}

func (p *pki) write(name string, certPEM, keyPEM []byte) error {
	if err := os.WriteFile(p.crt(name), certPEM, 0o600); err != nil {
		return err
	}
	return os.WriteFile(p.key(name), keyPEM, 0o600)
}
