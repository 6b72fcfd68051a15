package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"sync"
)

// Once implements Tokens with a single-use token. After each use, it generates the next token. A user who can read
// the output of the process can open the page, but a URL from a browser history does not work again.
type Once struct {
	user string
	next func(token string)

	mu    sync.Mutex
	token string
}

// NewOnce returns a Once and generates its first token, with 130 random bits. It calls next with each new token, the
// first time before NewOnce returns.
func NewOnce(user string, next func(token string)) *Once {
	o := &Once{user: user, next: next}
	o.renew()
	return o
}

func (o *Once) renew() {
	o.token = rand.Text()
	o.next(o.token)
}

// Exchange implements Tokens. It accepts only the current token, and replaces it after use.
func (o *Once) Exchange(_ context.Context, token string) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if subtle.ConstantTimeCompare([]byte(token), []byte(o.token)) != 1 {
		return "", denied("this URL was already used, or belongs to another board; open the URL that the board " +
			"printed last")
	}
	o.renew()
	return o.user, nil
}

// Check implements Tokens. It accepts every session.
func (o *Once) Check(context.Context, string) error { return nil }
