package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
)

// Listen opens a daemon's socket so that nobody but its user can open it. The folder around it is the
// user's own besides, and Server looks who calls.
func Listen(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening the daemon's socket: %w", err)
	}
	return l, nil
}

// NewServer serves the control API on a listener of Listen, to processes of the current user and of root. It refuses
// other users.
func NewServer(api http.Handler) *http.Server {
	return &http.Server{
		Handler: ownersOnly(api, os.Geteuid()), ReadHeaderTimeout: time.Minute,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			uid, err := peerUID(c)
			return context.WithValue(ctx, callerKey{}, known{uid, err})
		},
	}
}

type callerKey struct{}

// known is who called, by the word of the system.
type known struct {
	uid int
	err error
}

func ownersOnly(next http.Handler, owner int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := r.Context().Value(callerKey{}).(known)
		switch {
		case !ok || who.err != nil:
			rpc.WriteError(w, rpc.Errorf(http.StatusForbidden,
				"the system does not say who calls the daemon of the sandbox (%v): call it by its socket", who.err))
		case !trusted(who.uid, owner):
			rpc.WriteError(w, rpc.Errorf(http.StatusForbidden,
				"the sandbox is that of the user %d, and not yours, %d: bring up one of your own", owner, who.uid))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// trusted reports whether a process of the user owner trusts a process of the user uid.
func trusted(uid, owner int) bool { return uid == owner || uid == 0 }

// peerUID returns the user ID of the process at the other end of a unix socket connection.
func peerUID(c net.Conn) (uid int, err error) {
	unixConn, ok := c.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%T is no connection of a unix socket", c)
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var asked error
	err = raw.Control(func(fd uintptr) { uid, asked = peer(int(fd)) })
	return uid, errors.Join(err, asked)
}
