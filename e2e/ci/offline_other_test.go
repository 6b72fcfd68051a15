//go:build !linux

package ci

import "testing"

func TestOffline(t *testing.T) {
	t.Skip("*** OFFLINE USE IS NOT TESTED: only Linux has network namespaces ***")
}
