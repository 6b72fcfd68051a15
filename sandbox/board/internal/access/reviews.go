package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

const (
	// reviewInterval is how long the result of a token review is cached. A revoked token remains valid until the cached
	// result expires.
	reviewInterval = time.Minute
	// reviewTimeout is the timeout of one request to the API server.
	reviewTimeout = 10 * time.Second
)

// shown lists the resources that the page shows. A user must have permission to list them in all namespaces.
var shown = []authorizationv1.ResourceAttributes{
	{Verb: "list", Resource: "nodes"},
	{Verb: "list", Resource: "pods"},
	{Verb: "list", Resource: "events"},
	{Verb: "list", Group: "apps", Resource: "deployments"},
}

// Reviews implements Tokens with the Kubernetes API server. A token is valid while the API server accepts it and its
// user has permission to list the resources that the page shows.
type Reviews struct {
	client kubernetes.Interface
	known  *cache.Expiring // results of token reviews, by the hash of the token
}

type review struct {
	user string
	err  error
}

// NewReviews returns a Reviews. The client must have permission to create TokenReviews and SubjectAccessReviews.
func NewReviews(client kubernetes.Interface, clock clock.Clock) *Reviews {
	return &Reviews{client: client, known: cache.NewExpiringWithClock(clock)}
}

// Exchange implements Tokens. It validates the token with a TokenReview, checks the permissions of its user, and
// caches the result for Check.
func (r *Reviews) Exchange(ctx context.Context, token string) (string, error) {
	answer := r.ask(ctx, token)
	if answer.err == nil || isDenied(answer.err) {
		r.known.Set(sha256.Sum256([]byte(token)), answer, reviewInterval)
	}
	return answer.user, answer.err
}

// Check implements Tokens. It uses the cached result of the last token review. After reviewInterval, it reviews the
// token again.
func (r *Reviews) Check(ctx context.Context, token string) error {
	if answer, known := r.known.Get(sha256.Sum256([]byte(token))); known {
		return answer.(review).err //nolint:forcetypeassert // it has only reviews
	}
	_, err := r.Exchange(ctx, token)
	return err
}

func (r *Reviews) ask(ctx context.Context, token string) review {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	asked, err := r.client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return review{err: fmt.Errorf("reviewing the token: %w", err)}
	}
	if !asked.Status.Authenticated {
		return review{err: denied("the Kubernetes API server rejected this token")}
	}
	u := asked.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range u.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	for _, what := range shown {
		answer, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
			&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra, ResourceAttributes: &what,
			}}, metav1.CreateOptions{})
		if err != nil {
			return review{err: fmt.Errorf("reviewing the permissions of %s: %w", u.Username, err)}
		}
		if !answer.Status.Allowed {
			return review{err: denied("%s has no permission to list %s in all namespaces, which the board requires",
				u.Username,
				what.Resource)}
		}
	}
	return review{user: u.Username}
}
