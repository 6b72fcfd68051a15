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
	// version of the release that is served.
	version = "v9.8.7"
	// allowHTTP and skipAttestation let install.sh install a release of the test's own server.
	allowHTTP       = "KOUPSANDBOX_ALLOW_HTTP=1"
	skipAttestation = "KOUPSANDBOX_SKIP_ATTESTATION=1"
)

var must = check.Must

// archive returns a release with the binaries in bin. It is not compressed, because that would take most of the time of
// the tests.
var archive = sync.OnceValues(func() ([]byte, error) {
	bin, err := box.FindBinaries(root)
	if err != nil {
		return nil, err
	}
	packed, err := exec.Command("tar", "-C", bin, "-cf", "-", box.Program, box.ControllerBinary,
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

// server serves the release at the URL mirror. asked has the names of the requested files.
type server struct {
	mirror string
	mu     sync.Mutex
	asked  []string
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
		file, there := files[name]
		if !there || r.URL.Path != "/releases/"+version+"/"+name {
			http.NotFound(w, r)
			return
		}
		s.mu.Lock()
		s.asked = append(s.asked, name)
		s.mu.Unlock()
		_, _ = w.Write(file)
	})
	listener := httptest.NewServer(handler)
	t.Cleanup(listener.Close)
	s.mirror = listener.URL + "/releases"
	return s
}

// downloads returns the files that were requested since the last call.
func (s *server) downloads() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.asked
	s.asked = nil
	return list
}

// shortFolder returns a directory with a short path, as sockets need it.
func shortFolder(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp("", "koup-ci-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(path)) })
	return path
}

// nothingIsUp fails the test if a sandbox is left in home, and takes it down.
func nothingIsUp(t *testing.T, home string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	status, err := sandbox.Inspect(ctx, home, "koup", false)
	if errors.Is(err, sandbox.ErrNotUp) {
		return
	}
	must(t, err)
	t.Errorf("the sandbox is %s, and not gone", status.Phase)
	_, err = sandbox.Down(ctx, sandbox.DownOptions{Home: home, Name: "koup"})
	must(t, err)
}
