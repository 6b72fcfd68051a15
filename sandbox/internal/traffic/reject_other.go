//go:build !linux

package traffic

import "syscall"

// rejection does not detect rejected connections, because kube-proxy runs only on Linux.
type rejection struct{}

func (*rejection) watch(syscall.RawConn) error { return nil }

func (*rejection) detected() bool { return false }
