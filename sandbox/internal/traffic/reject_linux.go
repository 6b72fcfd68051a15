package traffic

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// rejection detects that kube-proxy has rejected a connection. The client gets the same error from a REJECT rule of
// kube-proxy as from a closed port. But a REJECT rule sends an ICMP message, which Linux stores in the error queue of
// the socket. A rejection means that the Service has no endpoints; a closed port means that the base is down.
type rejection struct{ fd int }

// portUnreachable contains the ICMP messages for an unreachable port, by origin, type and code [RFC 792, RFC 4443].
var portUnreachable = map[[3]byte]bool{
	{unix.SO_EE_ORIGIN_ICMP, 3, 3}:  true,
	{unix.SO_EE_ORIGIN_ICMP6, 1, 4}: true,
}

// watch duplicates the socket before the connection is opened. The duplicate is needed because the dialer closes its
// socket immediately after a failure.
func (r *rejection) watch(c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { r.fd, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	return errors.Join(err, failed)
}

// detected reports whether the socket has received an ICMP message for an unreachable port, and closes the duplicate
// of the socket.
func (r *rejection) detected() bool {
	if r.fd <= 0 {
		return false
	}
	defer func() { _ = unix.Close(r.fd) }() // nothing was written
	control := make([]byte, 256)
	_, n, _, _, err := unix.Recvmsg(r.fd, nil, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return false // no message
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return false
	}
	return slices.ContainsFunc(messages, func(m unix.SocketControlMessage) bool {
		// struct sock_extended_err: error number, then origin, type and code of one byte each.
		return len(m.Data) >= 7 && portUnreachable[[3]byte(m.Data[4:7])]
	})
}
