package traffic

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// rejection finds out why a connection has failed. A client gets the same error for a REJECT of kube-proxy and for a
// closed port. But a REJECT is an ICMP message, which Linux keeps with the socket.
type rejection struct{ fd int }

// portUnreachable by origin, type and code [RFC 792, RFC 4443].
var portUnreachable = map[[3]byte]bool{
	{unix.SO_EE_ORIGIN_ICMP, 3, 3}:  true,
	{unix.SO_EE_ORIGIN_ICMP6, 1, 4}: true,
}

// watch keeps the socket of a connection that is about to be made: the dialer closes
// its own as soon as it fails.
func (r *rejection) watch(c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { r.fd, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	return errors.Join(err, failed)
}

// end lets the socket go, and reports whether an ICMP message says that nobody has the
// port.
func (r *rejection) end() bool {
	if r.fd <= 0 {
		return false
	}
	defer func() { _ = unix.Close(r.fd) }() // nothing was written
	control := make([]byte, 256)
	_, n, _, _, err := unix.Recvmsg(r.fd, nil, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return false // there is none
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return false
	}
	return slices.ContainsFunc(messages, func(m unix.SocketControlMessage) bool {
		// struct sock_extended_err: the error number, then origin, type and code, a byte each.
		return len(m.Data) >= 7 && portUnreachable[[3]byte(m.Data[4:7])]
	})
}
