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

// Places are the jars and addresses behind the names in braces of an Exchange.
type Places struct {
	modules, server, refused string
	hanging                  hanging
	http                     http.Server
}

// OpenPlaces serves the files of a directory over HTTP until Close.
func OpenPlaces(directory string) (*Places, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serving jars: %w", err)
	}
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("finding an unused port: %w", err), l.Close())
	}
	p := &Places{modules: directory, server: "http://" + l.Addr().String(), refused: unused.Addr().String()}
	_ = unused.Close() // nothing was sent
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(directory)))
	mux.Handle("/hanging/", &p.hanging)
	p.http.Handler = mux
	go func() { _ = p.http.Serve(l) }() // it ends with Close
	return p, nil
}

// Close ends the HTTP server.
func (p *Places) Close() { _ = p.http.Close() } // the answers have been read

// gate is the file that modules wait for that take its path as an argument.
func (p *Places) gate() string { return filepath.Join(p.modules, "go") }

func (p *Places) lock() error {
	if err := os.Remove(p.gate()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (p *Places) release() error {
	p.hanging.release()
	return os.WriteFile(p.gate(), nil, 0o600)
}

func (p *Places) fill(text string) string {
	return strings.NewReplacer("{modules}", p.modules, "{server}", p.server, "{refused}", p.refused,
		"{oversized}", strings.Repeat("x", 1<<20+1)).Replace(text)
}

func (p *Places) strip(text string) string {
	return strings.NewReplacer(p.modules, "{modules}", p.server, "{server}", p.refused, "{refused}").Replace(text)
}

// WriteJar writes a jar with a manifest, and with the other files of another jar; an empty name means none. A nil
// manifest writes a file that is not a jar.
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

// format returns the text of a manifest, in lines of at most 70 bytes.
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

// hanging is an HTTP handler that does not answer requests until release, and then with 404.
type hanging struct {
	mu      sync.Mutex
	waiting int
	gate    chan struct{} // closed by release; nil = no request has come since
}

// ServeHTTP lets a request wait.
func (h *hanging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

func (h *hanging) asked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting > 0
}

func (h *hanging) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate != nil {
		close(h.gate)
		h.gate = nil
	}
}
