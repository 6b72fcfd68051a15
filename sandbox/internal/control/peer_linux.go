package control

import "golang.org/x/sys/unix"

// peer is the effective user of the process that has connected a socket.
func peer(fd int) (uid int, err error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(c.Uid), nil
}
