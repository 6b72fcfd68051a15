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
	// reviewEvery is how long a review counts: so long a token that was withdrawn may still be used.
	reviewEvery = time.Minute
	// reviewTime bounds one question to the API.
	reviewTime = 10 * time.Second
)

// shown are the resources that the page shows. Its user must be allowed to list them in all namespaces.
var shown = []authorizationv1.ResourceAttributes{
	{Verb: "list", Resource: "nodes"},
	{Verb: "list", Resource: "pods"},
	{Verb: "list", Resource: "events"},
	{Verb: "list", Group: "apps", Resource: "deployments"},
}

// Reviews lets the Kubernetes API decide: a token is a user's own, and counts for as long as the API
// knows it and its user may list what the page shows.
type Reviews struct {
	client kubernetes.Interface
	known  *cache.Expiring // reviews, by the hash of the token
}

type review struct {
	user string
	err  error
}

// NewReviews returns Reviews that use a client with permission to create TokenReviews and SubjectAccessReviews.
func NewReviews(client kubernetes.Interface, clock clock.Clock) *Reviews {
	return &Reviews{client: client, known: cache.NewExpiringWithClock(clock)}
}

// Exchange asks the API about a token.
func (r *Reviews) Exchange(ctx context.Context, token string) (string, error) {
	answer := r.ask(ctx, token)
	if answer.err == nil || isDenied(answer.err) {
		r.known.Set(sha256.Sum256([]byte(token)), answer, reviewEvery)
	}
	return answer.user, answer.err
}

// Check asks again after a minute.
func (r *Reviews) Check(ctx context.Context, token string) error {
	if answer, known := r.known.Get(sha256.Sum256([]byte(token))); known {
		return answer.(review).err //nolint:forcetypeassert // it has only reviews
	}
	_, err := r.Exchange(ctx, token)
	return err
}

func (r *Reviews) ask(ctx context.Context, token string) review {
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	asked, err := r.client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return review{err: fmt.Errorf("asking the Kubernetes API whose token this is: %w", err)}
	}
	if !asked.Status.Authenticated {
		return review{err: denied("the Kubernetes API does not know this token")}
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
			return review{err: fmt.Errorf("asking the Kubernetes API what %s may do: %w", u.Username, err)}
		}
		if !answer.Status.Allowed {
			return review{err: denied("%s may not list %s in all namespaces, which the board shows", u.Username,
				what.Resource)}
		}
	}
	return review{user: u.Username}
}
