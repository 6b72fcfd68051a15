package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

var errNotPrepared = errors.New("the control plane has no certificates before its first step")

// WriteKubeconfig issues a client certificate for user in groups and writes a kubeconfig with it,
// replacing the file. What the user may do is up to RBAC. It may be called concurrently, for
// different paths, after "Starting kube-apiserver": until then another port may take the place of
// the one that it names.
func (c *ControlPlane) WriteKubeconfig(path, user string, groups []string) error {
	if c.at.Load() == nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, errNotPrepared)
	}
	certPEM, keyPEM, err := c.pki.cas[clusterCA].issue(subject{name: user, groups: groups, client: true}, time.Now())
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return c.writeKubeconfig(path, c.url(apiserver), user, certPEM, keyPEM)
}

// IssueServing returns a certificate that proves hosts (DNS names and addresses, at least one) to
// whoever trusts CAFile, and its key, both as PEM. It may be called concurrently once the first of
// Steps has run.
func (c *ControlPlane) IssueServing(hosts ...string) (certPEM, keyPEM []byte, err error) {
	if c.at.Load() == nil {
		return nil, nil, fmt.Errorf("issuing a serving certificate: %w", errNotPrepared)
	}
	if len(hosts) == 0 {
		return nil, nil, errors.New("issuing a serving certificate: name at least one host")
	}
	return c.pki.cas[clusterCA].issue(subject{name: hosts[0], hosts: hosts}, time.Now())
}

// CAFile is the path of the authority that signed the API's certificate and everything from
// IssueServing.
func (c *ControlPlane) CAFile() string { return filepath.Join(c.pkiDir(), clusterCA+".crt") }

// KubeletClientCA is the path of the authority whose only client is the API server when it calls a
// kubelet for logs and exec. A kubelet API that trusts it, and nothing else, needs no further
// authorisation.
func (c *ControlPlane) KubeletClientCA() string {
	return filepath.Join(c.pkiDir(), kubeletClientCA+".crt")
}

// writeStoredKubeconfig writes a kubeconfig with a certificate of the PKI folder, so that it stays
// the same from start to start.
func (c *ControlPlane) writeStoredKubeconfig(path, server, file, user string) error {
	certPEM, err := os.ReadFile(c.pki.crt(file))
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	keyPEM, err := os.ReadFile(c.pki.key(file))
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return c.writeKubeconfig(path, server, user, certPEM, keyPEM)
}

func (c *ControlPlane) writeKubeconfig(path, server, user string, certPEM, keyPEM []byte) error {
	name := c.contextName()
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: server, CertificateAuthorityData: c.pki.cas[clusterCA].pem,
	}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return nil
}
