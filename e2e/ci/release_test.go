package ci

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
)

const (
	root = "../.."
	// version is the version of the served release.
	version = "v9.8.7"
	// allowHTTP and skipAttestation are environment variables that make install.sh accept a release from the test
	// server.
	allowHTTP       = "KOUPSANDBOX_ALLOW_HTTP=1"
	skipAttestation = "KOUPSANDBOX_SKIP_ATTESTATION=1"
)

var must = check.Must

// archive returns the archive of a release with the binaries in bin. The archive is not compressed, because
// compression would take most of the test time.
var archive = sync.OnceValues(func() ([]byte, error) {
	bin, err := box.FindBinaries(root)
	if err != nil {
		return nil, err
	}
	packed, err := exec.Command("tar", "-C", bin, "-cf", "-", box.Binary, box.ControllerBinary,
		sandbox.ControlPlaneBinary).Output()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
	if err != nil {
		return nil, err
	}
	_, err = zipped.Write(packed)
	err = errors.Join(err, zipped.Close())
	return out.Bytes(), err
})

func archiveName() string {
	return fmt.Sprintf("koupsandbox_%s_%s_%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
}

// server serves the release at mirror, and records the names of the requested files.
type server struct {
	mirror    string
	mu        sync.Mutex
	requested []string
}

func serve(t *testing.T) *server {
	t.Helper()
	packed, err := archive()
	must(t, err)
	installer, err := os.ReadFile(filepath.Join(root, "install.sh"))
	must(t, err)
	name := archiveName()
	files := map[string][]byte{
		name:            packed,
		"checksums.txt": fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(packed), name),
		"install.sh":    installer,
	}
	s := &server{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := filepath.Base(r.URL.Path)
		file, found := files[name]
		if !found || r.URL.Path != "/releases/"+version+"/"+name {
			http.NotFound(w, r)
			return
		}
		s.mu.Lock()
		s.requested = append(s.requested, name)
		s.mu.Unlock()
		_, _ = w.Write(file)
	})
	listener := httptest.NewServer(handler)
	t.Cleanup(listener.Close)
	s.mirror = listener.URL + "/releases"
	return s
}

// downloads returns the names of the files that were requested since the last call.
func (s *server) downloads() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.requested
	s.requested = nil
	return list
}

// shortFolder creates a temporary directory. Its path is short enough for Unix sockets in the directory.
func shortFolder(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp("", "koup-ci-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(path)) })
	return path
}

// requireNoSandbox fails the test if home contains a sandbox, and removes this sandbox.
func requireNoSandbox(t *testing.T, home string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	status, err := sandbox.Inspect(ctx, home, "koup", false)
	if errors.Is(err, sandbox.ErrNotUp) {
		return
	}
	must(t, err)
	t.Errorf("the sandbox was not removed; it is %s", status.Phase)
	_, err = sandbox.Down(ctx, sandbox.DownOptions{Home: home, Name: "koup"})
	must(t, err)
}
