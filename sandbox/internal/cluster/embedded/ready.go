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

// probeTimeout bounds one readiness question; a paused component accepts connections and never answers.
const probeTimeout = 2 * time.Second

// newProbe returns a function that gets a health path and says why the answer is not 200. user names a certificate of the PKI
// folder to show; empty shows none.
func (c *ControlPlane) newProbe(component, path, ca, user string) (func(context.Context) error, error) {
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AddCert(c.pki.cas[ca].cert)
	if user != "" {
		pair, _, err := c.pki.read(user)
		if err != nil {
			return nil, fmt.Errorf("preparing the readiness question to %s: %w", component, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	client := &http.Client{Timeout: probeTimeout, Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 1}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(component)+path, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		if err != nil {
			return err
		}
		if response.StatusCode == http.StatusOK {
			return nil
		}
		return fmt.Errorf("%s answers %s%s", path, response.Status, failedChecks(string(body)))
	}, nil
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

// controllersWork asks for something that only a running controller-manager makes, and that every Pod needs: the default
// service account. /healthz alone is fine before the first controller has started.
func (c *ControlPlane) controllersWork(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("no default service account yet: %w", err)
	}
	return nil
}

// both joins two readiness questions; the second is asked when the first is answered well.
func both(first, second func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := first(ctx); err != nil {
			return err
		}
		return second(ctx)
	}
}

// exited tells whether err says that a component's process ended.
func exited(err error) bool {
	var notReady *supervise.NotReadyError
	return errors.As(err, &notReady) && notReady.Exited
}
