package rights

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Nobody but its user reads anything of a sandbox, although its folder lies where everybody may look
// and the user's umask takes nothing away.
func TestFilesAreTheUsersOwn(t *testing.T) {
	looked := 0
	err := filepath.WalkDir(shared.Folder(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if os.IsNotExist(err) { // a file that was for a moment
			return nil
		}
		if err != nil {
			return err
		}
		looked++
		want := fs.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has the permissions %#o, not %#o", path, got, want)
		}
		return nil
	})
	must(t, err)
	for _, file := range []string{"kubeconfig", "module-controller.view.kubeconfig", "broker.json", "kubelet.key", "pki/ca.key", "etcd/member/snap/db", "logs/daemon.log"} {
		if _, err := os.Stat(filepath.Join(shared.Folder(), file)); err != nil {
			t.Errorf("the test looks in the wrong place: %v", err)
		}
	}
	t.Logf("%d files and folders", looked)
}
