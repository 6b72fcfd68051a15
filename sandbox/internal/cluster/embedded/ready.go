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

// probeTimeout is the timeout of one readiness check. A paused component accepts connections but does not respond.
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

// namespacesExist returns nil if the administrator can use the API and the namespaces kube-system and default exist.
// Unlike other users, the administrator does not need the default roles.
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

// controllersReady returns nil if the controller manager is healthy and the default service account exists. It checks
// the service account because /healthz succeeds before the first controller has started.
func (c *ControlPlane) controllersReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := c.checkHealth(ctx, controllerManager, "/healthz"); err != nil {
		return err
	}
	_, err := c.client().CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("waiting for the default ServiceAccount: %w", err)
	}
	return nil
}

// checkHealth returns an error unless the health endpoint path of a component returns status 200.
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
	defer func() { _ = response.Body.Close() }() // only the body matters
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returned %s%s", path, response.Status, failedChecks(string(body)))
	}
	return nil
}

// newHealthClient returns an HTTP client that trusts the named CA and presents the certificate of the named user,
// both from the PKI directory.
func newHealthClient(p *pki, ca, user string) (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(p.crt(user), p.key(user))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.cas[ca].Certificate())
	// HTTP/2 is not enabled, because its idle connection would delay the shutdown of etcd by a second.
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair},
			MinVersion: tls.VersionTLS12},
	}
	return &http.Client{Timeout: probeTimeout, Transport: transport}, nil
}

// failedChecks returns the names of the failed checks in the response of a health endpoint, as text to append to an
// error message. It returns an empty string if no check failed.
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
	return "; failed checks: " + strings.Join(failed, ", ")
}

// exited reports whether err means that the process of a component has exited.
func exited(err error) bool {
	var notReady *supervise.NotReadyError
	return errors.As(err, &notReady) && notReady.Exited
}
