//go:build !linux

package traffic

import "syscall"

// rejection knows nothing here: kube-proxy runs on Linux.
type rejection struct{}

func (*rejection) watch(syscall.RawConn) error { return nil }

func (*rejection) end() bool { return false }
