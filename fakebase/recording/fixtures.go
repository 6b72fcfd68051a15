package recording

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Fixtures provides the jars and addresses that replace the placeholders in an Exchange.
type Fixtures struct {
	modules, server, refusedURL string
	hanging                     hangingHandler
	http                        http.Server
}

// OpenFixtures serves the files of a directory over HTTP until Close is called.
func OpenFixtures(directory string) (*Fixtures, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for jar downloads: %w", err)
	}
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("finding an unused port: %w", err), l.Close())
	}
	f := &Fixtures{modules: directory, server: "http://" + l.Addr().String(), refusedURL: unused.Addr().String()}
	_ = unused.Close() // the port has not been used
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(directory)))
	mux.Handle("/hanging/", &f.hanging)
	f.http.Handler = mux
	go func() { _ = f.http.Serve(l) }() // ends with Close
	return f, nil
}

// Close closes the HTTP server.
func (f *Fixtures) Close() { _ = f.http.Close() } // all responses have been read

// gatePath returns the path of the gate file. A test module that gets this path as an argument waits until the file
// exists.
func (f *Fixtures) gatePath() string { return filepath.Join(f.modules, "go") }

func (f *Fixtures) closeGate() error {
	if err := os.Remove(f.gatePath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (f *Fixtures) openGate() error {
	f.hanging.release()
	return os.WriteFile(f.gatePath(), nil, 0o600)
}

func (f *Fixtures) expand(text string) string {
	return strings.NewReplacer("{modules}", f.modules, "{server}", f.server, "{refused}", f.refusedURL,
		"{oversized}", strings.Repeat("x", 1<<20+1)).Replace(text)
}

func (f *Fixtures) collapse(text string) string {
	return strings.NewReplacer(f.modules, "{modules}", f.server, "{server}", f.refusedURL, "{refused}").Replace(text)
}

// WriteJar writes a jar that contains a manifest and the files of the jar from. If from is empty, it adds no files.
// If the manifest is nil, it writes a file that is not a jar.
func WriteJar(to string, manifest Manifest, from string) error {
	if manifest == nil {
		return os.WriteFile(to, []byte("this is no jar\n"), 0o600)
	}
	var buf bytes.Buffer
	out := zip.NewWriter(&buf)
	w, err := out.Create(manifestFile)
	if err == nil {
		_, err = w.Write(manifest.format())
	}
	if err == nil && from != "" {
		err = copyFiles(out, from)
	}
	err = errors.Join(err, out.Close())
	if err != nil {
		return fmt.Errorf("writing the jar %s: %w", to, err)
	}
	return os.WriteFile(to, buf.Bytes(), 0o600)
}

const manifestFile = "META-INF/MANIFEST.MF"

func copyFiles(out *zip.Writer, from string) error {
	in, err := zip.OpenReader(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	for _, file := range in.File {
		switch {
		case file.Name == manifestFile:
		case file.FileInfo().IsDir():
			_, err = out.Create(file.Name)
		default:
			err = out.Copy(file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// format returns the text of a manifest, with lines of at most 70 bytes.
func (m Manifest) format() []byte {
	var keys []string
	for key := range m {
		if key != "Manifest-Version" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var buf bytes.Buffer
	buf.WriteString("Manifest-Version: 1.0\r\n")
	for _, key := range keys {
		line := key + ": " + m[key]
		for ; len(line) > 70; line = " " + line[70:] {
			buf.WriteString(line[:70] + "\r\n")
		}
		buf.WriteString(line + "\r\n")
	}
	return buf.Bytes()
}

// hangingHandler is an HTTP handler that blocks each request until release is called, and then responds with 404.
type hangingHandler struct {
	mu      sync.Mutex
	waiting int
	gate    chan struct{} // closed by release; nil if no request has arrived since the last release
}

// ServeHTTP blocks a request until release is called, and then responds with 404.
func (h *hangingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	if h.gate == nil {
		h.gate = make(chan struct{})
	}
	gate := h.gate
	h.waiting++
	h.mu.Unlock()
	select {
	case <-gate:
		http.NotFound(w, r)
	case <-r.Context().Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting--
}

func (h *hangingHandler) hasWaiting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting > 0
}

func (h *hangingHandler) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate != nil {
		close(h.gate)
		h.gate = nil
	}
}
