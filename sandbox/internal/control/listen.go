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

// Listen opens the socket of a daemon. The permissions of the socket allow only the user of the daemon to connect. As
// further protection, the directory belongs to this user, and NewServer checks the user of each caller.
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

// NewServer serves the control API on a listener returned by Listen. It accepts connections from processes of the
// current user and of root, and rejects other users.
func NewServer(api http.Handler) *http.Server {
	return &http.Server{
		Handler: ownersOnly(api, os.Geteuid()), ReadHeaderTimeout: time.Minute,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			uid, err := peerUID(c)
			return context.WithValue(ctx, callerKey{}, peerUser{uid, err})
		},
	}
}

type callerKey struct{}

// peerUser is the user of the calling process, as the kernel reports it.
type peerUser struct {
	uid int
	err error
}

func ownersOnly(next http.Handler, owner int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, ok := r.Context().Value(callerKey{}).(peerUser)
		switch {
		case !ok || caller.err != nil:
			rpc.WriteError(w, rpc.Errorf(http.StatusForbidden,
				"the user of the calling process is unknown (%v); connect to the Unix socket of the daemon",
				caller.err))
		case !trusted(caller.uid, owner):
			rpc.WriteError(w, rpc.Errorf(http.StatusForbidden,
				"the sandbox belongs to user %d, and you are user %d; create your own sandbox", owner, caller.uid))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// trusted reports whether processes of the user ID owner trust processes of the user ID uid.
func trusted(uid, owner int) bool { return uid == owner || uid == 0 }

// peerUID returns the user ID of the process at the other end of a Unix socket connection.
func peerUID(c net.Conn) (uid int, err error) {
	unixConn, ok := c.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%T is not a Unix socket connection", c)
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var callErr error
	err = raw.Control(func(fd uintptr) { uid, callErr = peer(int(fd)) })
	return uid, errors.Join(err, callErr)
}
