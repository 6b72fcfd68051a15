package embedded

import (
	"bytes"
	"crypto/rand"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/koupleless/koupsandbox/controller/deploy"
)

// kubeletClientCA returns the path of the CA certificate for kubelet clients. The CA has issued only the client
// certificate that the API server presents to kubelets. A kubelet API that trusts only this CA therefore needs no
// further authorization.
func (c *ControlPlane) kubeletClientCA() string {
	return filepath.Join(c.pkiDir(), kubeletClientCA+".crt")
}

// usersWithTokens maps the users that send many requests to their groups (at most one each). These users authenticate
// with tokens, because verifying client certificates took 9 % of the API server's CPU time with 10,000 bases. The group
// system:masters lets the controller manager and the scheduler start before the default roles exist.
var usersWithTokens = map[string][]string{
	controllerManagerUser: {"system:masters"},
	schedulerUser:         {"system:masters"},
	deploy.User:           nil,
}

const (
	controllerManagerUser = "system:kube-controller-manager"
	schedulerUser         = "system:kube-scheduler"
)

func (c *ControlPlane) tokensFile() string { return filepath.Join(c.o.Dir, "tokens.csv") }

// makeTokens generates a token for each user in usersWithTokens, writes the tokens to the token file of the API
// server, and returns them by user.
func (c *ControlPlane) makeTokens() (map[string]string, error) {
	tokens := map[string]string{}
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	for user, groups := range usersWithTokens {
		tokens[user] = rand.Text()
		_ = w.Write(append([]string{tokens[user], user, user}, groups...)) // writes to memory
	}
	w.Flush()
	if err := os.WriteFile(c.tokensFile(), text.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("writing the tokens of the control plane: %w", err)
	}
	return tokens, nil
}

// adminKubeconfig writes the administrator's kubeconfig, which contains a client certificate.
func (c *ControlPlane) adminKubeconfig(server string) error {
	certificate, err := os.ReadFile(c.pki.crt(adminCertificate))
	if err != nil {
		return fmt.Errorf("reading the administrator's certificate: %w", err)
	}
	key, err := os.ReadFile(c.pki.key(adminCertificate))
	if err != nil {
		return fmt.Errorf("reading the administrator's key: %w", err)
	}
	return c.writeKubeconfig(c.o.Kubeconfig, server, adminUser,
		clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key})
}

func (c *ControlPlane) tokenKubeconfig(path, server, user string) error {
	return c.writeKubeconfig(path, server, user, clientcmdapi.AuthInfo{Token: c.tokens[user]})
}

func (c *ControlPlane) writeKubeconfig(path, server, user string, auth clientcmdapi.AuthInfo) error {
	name := c.contextName()
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: server, CertificateAuthorityData: c.pki.cas[clusterCA].PEM(),
	}
	config.AuthInfos[user] = &auth
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return nil
}
