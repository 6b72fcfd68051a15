package ci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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

// archive is a release of the programs in bin, for this system. It is stored without being made
// smaller, which would take most of the test's time.
var archive = sync.OnceValues(func() ([]byte, error) {
	bin, err := box.FindPrograms(root)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
	if err != nil {
		return nil, err
	}
	packed := tar.NewWriter(zipped)
	for _, name := range []string{box.Program, box.ControllerProgram, sandbox.ControlPlaneProgram} {
		if err := add(packed, filepath.Join(bin, name), name); err != nil {
			return nil, err
		}
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
})

func archiveName() string {
	return fmt.Sprintf("koupsandbox_%s_%s_%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
}

func add(packed *tar.Writer, path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := packed.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(packed, f)
	return err
}

// server has the release. Its address is the mirror; asked notes what it was asked for.
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

// downloads returns what was asked for since the last call.
func (s *server) downloads() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.asked
	s.asked = nil
	return list
}

// shortFolder makes a folder with a short path, because sockets go there.
func shortFolder(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp("", "koup-ci-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(path)) })
	return path
}

// nothingIsUp fails the test if there is anything of a sandbox in home, and takes it down.
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
