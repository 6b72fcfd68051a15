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

	"github.com/koupleless/koupsandbox/controller/internal/door"
)

// How long a review counts, as long as with a kubelet.
const (
	allowedFor = 5 * time.Minute
	deniedFor  = 30 * time.Second
	// maxReviews bounds the callers remembered; there is one API server, or a few.
	maxReviews    = 1000
	reviewTimeout = 10 * time.Second
)

// connKey is the key of a request's connection in its context.
type connKey struct{}

// admit lets through whom the API server says may use the kubelet API. Callers are known by their
// certificates, which TLS has verified.
func (s *Server) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			s.opts.Logger.Debug("a caller of the kubelet API has no certificate", "remote", r.RemoteAddr)
			http.Error(w, "Unauthorized: the kubelet API of the module controller needs a client certificate; start the API server with --kubelet-client-certificate", http.StatusUnauthorized)
			return
		}
		caller := r.TLS.PeerCertificates[0]
		allowed, reason, err := s.reviews.allow(r.Context(), caller, verb(r))
		switch {
		case err != nil:
			s.opts.Logger.Warn("could not review a caller of the kubelet API", "user", caller.Subject.CommonName, "err", err)
			http.Error(w, "the API server could not be asked for a review: "+err.Error(), http.StatusInternalServerError)
		case !allowed:
			s.opts.Logger.Warn("refused a caller of the kubelet API", "user", caller.Subject.CommonName, "reason", reason)
			http.Error(w, fmt.Sprintf("Forbidden: user %q may not %s nodes/proxy", caller.Subject.CommonName, verb(r)), http.StatusForbidden)
		default:
			door.Keep(r.Context().Value(connKey{}).(net.Conn)) // exec and followed logs last
			next.ServeHTTP(w, r)
		}
	})
}

// verb is what a request does to nodes/proxy. Exec counts as create, also where a WebSocket opens
// it with GET, so that who may only read cannot run anything.
func verb(r *http.Request) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if r.Method == http.MethodGet && (first == "containerLogs" || first == "pods") {
		return "get"
	}
	return "create"
}

// reviews asks for SubjectAccessReviews and remembers them for a while. A nil client allows
// everything.
type reviews struct {
	client authorizationv1.SubjectAccessReviewInterface
	cache  *cache.LRUExpireCache
}

type verdict struct {
	allowed bool
	reason  string
}

func newReviews(client authorizationv1.SubjectAccessReviewInterface) *reviews {
	return &reviews{client: client, cache: cache.NewLRUExpireCache(maxReviews)}
}

func (r *reviews) allow(ctx context.Context, caller *x509.Certificate, verb string) (allowed bool, reason string, err error) {
	if r.client == nil {
		return true, "", nil
	}
	user, groups := caller.Subject.CommonName, caller.Subject.Organization
	key := fmt.Sprintf("%q %q %s", user, groups, verb)
	if v, there := r.cache.Get(key); there {
		return v.(verdict).allowed, v.(verdict).reason, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := r.client.Create(ctx, &authorizationapi.SubjectAccessReview{Spec: authorizationapi.SubjectAccessReviewSpec{
		User: user, Groups: append([]string{"system:authenticated"}, groups...),
		// One server speaks for all Nodes, so no name: who may use only one Node's is refused.
		ResourceAttributes: &authorizationapi.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: "proxy"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, "", fmt.Errorf("reviewing whether %q may %s nodes/proxy: %w", user, verb, err)
	}
	v := verdict{review.Status.Allowed, review.Status.Reason}
	if v.allowed {
		r.cache.Add(key, v, allowedFor)
	} else {
		r.cache.Add(key, v, deniedFor)
	}
	return v.allowed, v.reason, nil
}
