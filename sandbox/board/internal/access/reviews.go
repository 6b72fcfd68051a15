package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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
	now    func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]review
}

type review struct {
	user string
	err  error
	at   time.Time
}

// NewReviews asks the API by a client that may create TokenReviews and SubjectAccessReviews. Default
// of now: time.Now.
func NewReviews(client kubernetes.Interface, now func() time.Time) *Reviews {
	if now == nil {
		now = time.Now
	}
	return &Reviews{client: client, now: now, known: map[[sha256.Size]byte]review{}}
}

// Exchange asks the API about a token.
func (r *Reviews) Exchange(ctx context.Context, token string) (string, error) {
	answer := r.ask(ctx, token)
	if answer.err == nil || isDenied(answer.err) {
		r.keep(token, answer)
	}
	return answer.user, answer.err
}

// Check asks again after a minute.
func (r *Reviews) Check(ctx context.Context, token string) error {
	r.mu.Lock()
	answer, known := r.known[sha256.Sum256([]byte(token))]
	r.mu.Unlock()
	if !known || r.now().Sub(answer.at) > reviewEvery {
		_, err := r.Exchange(ctx, token)
		return err
	}
	return answer.err
}

func (r *Reviews) keep(token string, answer review) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, x := range r.known {
		if answer.at.Sub(x.at) > reviewEvery {
			delete(r.known, key)
		}
	}
	r.known[sha256.Sum256([]byte(token))] = answer
}

func (r *Reviews) ask(ctx context.Context, token string) review {
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	at := r.now()
	asked, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return review{err: fmt.Errorf("asking the Kubernetes API whose token this is: %w", err), at: at}
	}
	if !asked.Status.Authenticated {
		return review{err: denied("the Kubernetes API does not know this token"), at: at}
	}
	u := asked.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range u.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	for _, what := range shown {
		answer, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra, ResourceAttributes: &what,
		}}, metav1.CreateOptions{})
		if err != nil {
			return review{err: fmt.Errorf("asking the Kubernetes API what %s may do: %w", u.Username, err), at: at}
		}
		if !answer.Status.Allowed {
			return review{err: denied("%s may not list %s in all namespaces, which the board shows", u.Username, what.Resource), at: at}
		}
	}
	return review{user: u.Username, at: at}
}
