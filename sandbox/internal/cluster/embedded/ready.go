package embedded

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// probeTimeout bounds one readiness question; a paused component accepts connections and never
// answers.
const probeTimeout = 2 * time.Second

func (c *ControlPlane) etcdReady(ctx context.Context) error {
	return c.checkHealth(ctx, etcd, "/readyz")
}

func (c *ControlPlane) apiHealthy(ctx context.Context) error {
	return c.checkHealth(ctx, apiserver, "/healthz")
}

func (c *ControlPlane) apiReady(ctx context.Context) error {
	return c.checkHealth(ctx, apiserver, "/readyz")
}

func (c *ControlPlane) schedulerReady(ctx context.Context) error {
	return c.checkHealth(ctx, scheduler, "/readyz")
}

// namespacesExist reports whether the administrator can work with the API, whom no role needs to allow
// anything: it answers, and has made the namespaces that every cluster has.
func (c *ControlPlane) namespacesExist(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for _, name := range []string{metav1.NamespaceSystem, metav1.NamespaceDefault} {
		if _, err := c.client().CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// controllersReady checks the health of the process, and that the default service account exists. /healthz succeeds
// before the first controller has started.
func (c *ControlPlane) controllersReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := c.checkHealth(ctx, controllerManager, "/healthz"); err != nil {
		return err
	}
	_, err := c.client().CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("no default service account yet: %w", err)
	}
	return nil
}

// checkHealth gets a health path of a component and says why the answer is not 200.
func (c *ControlPlane) checkHealth(ctx context.Context, component, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(component)+path, nil)
	if err != nil {
		return err
	}
	client := c.health
	if component == etcd {
		client = c.etcdHealth
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // what counts has been read
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s%s", path, response.Status, failedChecks(string(body)))
	}
	return nil
}

// newHealthClient trusts what ca signed and shows a certificate of the PKI folder.
func newHealthClient(p *pki, ca, user string) (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(p.crt(user), p.key(user))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.cas[ca].Certificate())
	// Without HTTP/2, whose idle connection would hold up the orderly end of etcd for a second.
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair},
			MinVersion: tls.VersionTLS12},
	}
	return &http.Client{Timeout: probeTimeout, Transport: transport}, nil
}

// failedChecks picks the failed checks from the list that health endpoints answer with.
func failedChecks(body string) string {
	var failed []string
	for line := range strings.Lines(body) {
		if check, ok := strings.CutPrefix(line, "[-]"); ok {
			check, _, _ = strings.Cut(check, " ")
			failed = append(failed, check)
		}
	}
	if len(failed) == 0 {
		return ""
	}
	return "; not passed: " + strings.Join(failed, ", ")
}

// exited reports whether err says that a component's process ended.
func exited(err error) bool {
	var notReady *supervise.NotReadyError
	return errors.As(err, &notReady) && notReady.Exited
}
