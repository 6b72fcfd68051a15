package kubelet

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	authorizationapi "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/koupleless/koupsandbox/controller/internal/connlimit"
)

const (
	// allowedFor and deniedFor are how long the result of an access review is cached. A kubelet uses the same
	// durations.
	allowedFor = 5 * time.Minute
	deniedFor  = 30 * time.Second
	// maxReviews is the maximum number of cached review results.
	maxReviews    = 1000
	reviewTimeout = 10 * time.Second
)

// connKey is the context key for the connection of a request.
type connKey struct{}

// admit returns a handler that passes a request to next if the user of the client certificate has permission to use the
// kubelet API.
func (s *Server) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			s.opts.Logger.Debug("a client of the kubelet API has no certificate", "remote", r.RemoteAddr)
			http.Error(w, "Unauthorized: the kubelet API of the module controller requires a client "+
				"certificate; start "+
				"the API server with --kubelet-client-certificate", http.StatusUnauthorized)
			return
		}
		caller := r.TLS.PeerCertificates[0]
		allowed, reason, err := s.reviews.allow(r.Context(), caller, verb(r))
		switch {
		case err != nil:
			s.opts.Logger.Warn("could not check the permissions of a kubelet API client", "user",
				caller.Subject.CommonName, "err",
				err)
			http.Error(w, "could not check the permissions of the client: "+err.Error(),
				http.StatusInternalServerError)
		case !allowed:
			s.opts.Logger.Warn("rejected a client of the kubelet API", "user", caller.Subject.CommonName, "reason",
				reason)
			http.Error(w, fmt.Sprintf("Forbidden: user %q has no permission to %s nodes/proxy",
				caller.Subject.CommonName, verb(r)),
				http.StatusForbidden)
		default:
			connlimit.Exempt(r.Context().Value(connKey{}).(net.Conn)) // exec and followed logs are long-running
			next.ServeHTTP(w, r)
		}
	})
}

// verb returns the RBAC verb of a request on nodes/proxy. For exec, the verb is create, even if the request is a
// WebSocket request that starts with GET.
func verb(r *http.Request) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if r.Method == http.MethodGet && (first == "containerLogs" || first == "pods") {
		return "get"
	}
	return "create"
}

// accessReviewer creates SubjectAccessReviews and caches their results. If the client is nil, all users are allowed.
type accessReviewer struct {
	client authorizationv1.SubjectAccessReviewInterface
	cache  *cache.LRUExpireCache
}

func newReviews(client authorizationv1.SubjectAccessReviewInterface) *accessReviewer {
	return &accessReviewer{client: client, cache: cache.NewLRUExpireCache(maxReviews)}
}

func (r *accessReviewer) allow(ctx context.Context, caller *x509.Certificate, verb string) (allowed bool, reason string,
	err error) {
	if r.client == nil {
		return true, "", nil
	}
	user, groups := caller.Subject.CommonName, caller.Subject.Organization
	key := fmt.Sprintf("%q %q %s", user, groups, verb)
	if v, there := r.cache.Get(key); there {
		status := v.(authorizationapi.SubjectAccessReviewStatus)
		return status.Allowed, status.Reason, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := r.client.Create(ctx,
		&authorizationapi.SubjectAccessReview{Spec: authorizationapi.SubjectAccessReviewSpec{
			User: user, Groups: append([]string{"system:authenticated"}, groups...),
			// The server serves all Nodes, so a permission for a single Node is not sufficient.
			ResourceAttributes: &authorizationapi.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes",
				Subresource: "proxy"},
		}}, metav1.CreateOptions{})
	if err != nil {
		return false, "", fmt.Errorf("checking whether user %q has permission to %s nodes/proxy: %w", user, verb, err)
	}
	valid := deniedFor
	if review.Status.Allowed {
		valid = allowedFor
	}
	r.cache.Add(key, review.Status, valid)
	return review.Status.Allowed, review.Status.Reason, nil
}
