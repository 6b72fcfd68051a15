package metricsapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The ConfigMap of kube-system in which an API server says how its aggregator calls.
const (
	authentication = "extension-apiserver-authentication"
	authoritiesKey = "requestheader-client-ca-file"
	namesKey       = "requestheader-allowed-names"
)

const (
	// believedFor is for how long the ConfigMap counts as read, so that strangers who connect cost
	// the API server nothing.
	believedFor = time.Minute
	// retryAfter is the pause after it could not be read.
	retryAfter  = 5 * time.Second
	readTimeout = 5 * time.Second
)

// configMaps reads those of kube-system.
type configMaps interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error)
}

// callers is how the aggregator of the API server is known: by a certificate, as one of the names.
type callers struct {
	authorities *x509.CertPool
	names       []string // empty: any, which is what Kubernetes means by it
}

// verify refuses whoever is no aggregator. The certificate has been verified against authorities.
func (c *callers) verify(state tls.ConnectionState) error {
	if name := state.PeerCertificates[0].Subject.CommonName; len(c.names) > 0 && !slices.Contains(c.names, name) {
		return fmt.Errorf("%q is not the aggregator of the API server", name)
	}
	return nil
}

// readCallers reads them from the cluster.
func readCallers(ctx context.Context, from configMaps) (*callers, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout) // what is read counts for others too
	defer cancel()
	m, err := from.Get(ctx, authentication, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading how the API server calls: %w", err)
	}
	c := &callers{authorities: x509.NewCertPool()}
	if !c.authorities.AppendCertsFromPEM([]byte(m.Data[authoritiesKey])) {
		return nil, fmt.Errorf("ConfigMap kube-system/%s names no authority of the API server's aggregator: start the API server with --requestheader-client-ca-file", authentication)
	}
	if text := m.Data[namesKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &c.names); err != nil {
			return nil, fmt.Errorf("ConfigMap kube-system/%s: %s: %w", authentication, namesKey, err)
		}
	}
	return c, nil
}

// memory keeps the callers for a while. It may be used concurrently.
type memory struct {
	from configMaps
	now  func() time.Time

	mu    sync.Mutex
	known *callers
	err   error
	until time.Time
}

// get returns those that were read last; fresh says whether they were read just now.
func (m *memory) get(ctx context.Context) (known *callers, fresh bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now().Before(m.until) {
		return m.known, false, m.err
	}
	c, err := readCallers(ctx, m.from)
	m.known, m.err, m.until = c, err, m.now().Add(believedFor)
	if err != nil {
		m.until = m.now().Add(retryAfter)
	}
	return m.known, true, m.err
}
