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

// The authorities. Each is trusted for one purpose, as in a real cluster: a client certificate of the API is not
// accepted by etcd, an aggregated API or a kubelet.
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

// certificate is one file of the PKI directory.
type certificate struct {
	file, ca string
	cluster.Subject
}

// certificates lists the certificates of the components.
func certificates() []certificate {
	loopback := []string{"localhost", "127.0.0.1", "::1"}
	api := slices.Concat(loopback, []string{
		firstService, "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc." + clusterDomain,
	})
	return []certificate{
		{"etcd", etcdCA, cluster.Subject{Name: "etcd", Hosts: loopback, Client: true}}, // also its own peer
		{"apiserver-etcd-client", etcdCA, cluster.Subject{Name: "kube-apiserver-etcd-client", Client: true}},
		{"apiserver", clusterCA, cluster.Subject{Name: "kube-apiserver", Hosts: api}},
		// a kubelet asks whether it may
		{"apiserver-kubelet-client", kubeletClientCA,
			cluster.Subject{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}, Client: true}},
		{"front-proxy-client", frontProxyCA, cluster.Subject{Name: "front-proxy-client", Client: true}},
		{"kube-controller-manager", clusterCA, cluster.Subject{Name: "kube-controller-manager", Hosts: loopback}},
		{"kube-scheduler", clusterCA, cluster.Subject{Name: "kube-scheduler", Hosts: loopback}},
		{adminCertificate, clusterCA,
			cluster.Subject{Name: adminUser, Groups: []string{"system:masters"}, Client: true}},
	}
}

// pki is a PKI directory in memory. It does not change once it is made, so it may be used concurrently.
type pki struct {
	dir string
	cas map[string]*cluster.Authority
}

func (p *pki) crt(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p *pki) key(name string) string { return filepath.Join(p.dir, name+".key") }

// makePKI issues the wanted certificates. It keeps existing authorities and the key of service accounts, so that
// kubeconfigs and tokens stay valid after a restart. remade is the reason why an authority was replaced, or empty.
func makePKI(dir string, wanted []certificate) (p *pki, remade string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	p = &pki{dir: dir, cas: map[string]*cluster.Authority{}}
	for _, name := range []string{clusterCA, etcdCA, frontProxyCA, kubeletClientCA} {
		why, err := p.authority(name)
		if err != nil {
			return nil, "", err
		}
		if why != nil && !errors.Is(why, os.ErrNotExist) {
			remade = fmt.Sprintf("%s: %v", p.crt(name), why)
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
	return p, remade, nil
}

// authority reads an authority, or makes it; why says what is wrong with the files then.
func (p *pki) authority(name string) (why, err error) {
	certPEM, why := os.ReadFile(p.crt(name))
	if why == nil {
		var keyPEM []byte
		keyPEM, why = os.ReadFile(p.key(name))
		if why == nil {
			p.cas[name], why = cluster.ParseAuthority(certPEM, keyPEM)
		}
	}
	if why == nil {
		return nil, nil
	}
	ca, keyPEM, err := cluster.NewAuthority("koupsandbox-" + name)
	if err != nil {
		return why, err
	}
	p.cas[name] = ca
	return why, p.write(name, ca.PEM(), keyPEM)
}

func (p *pki) write(name string, certPEM, keyPEM []byte) error {
	if err := os.WriteFile(p.crt(name), certPEM, 0o600); err != nil {
		return err
	}
	return os.WriteFile(p.key(name), keyPEM, 0o600)
}
