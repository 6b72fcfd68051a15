package control

import "golang.org/x/sys/unix"

// peer returns the effective user ID of the process that connected to a socket.
func peer(fd int) (uid int, err error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(c.Uid), nil
}
