package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/koupleless/koupsandbox/e2e/realbase"
	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// places are the jars, where they are, and an address where nobody listens.
type places struct {
	recording.Places
	manifests map[string]recording.Manifest
	hanging   recording.Hanging
	server    *http.Server
	done      chan error
}

// openPlaces makes the jars in a folder and serves them over HTTP.
func openPlaces(folder string) (*places, error) {
	p := &places{manifests: map[string]recording.Manifest{}, done: make(chan error, 1)}
	p.Modules = folder
	for name, changes := range jars {
		file := filepath.Join(folder, name)
		if changes == nil {
			if err := os.WriteFile(file, []byte("this is no jar\n"), 0o600); err != nil {
				return nil, fmt.Errorf("writing a file that is no jar: %w", err)
			}
			p.manifests[name] = nil
			continue
		}
		manifest, err := realbase.Variant(filepath.Join(target, realbase.ShopJar1), file, changes)
		if err != nil {
			return nil, err
		}
		delete(manifest, "build-time") // nobody reads it, and it differs from build to build
		p.manifests[name] = manifest
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serving jars: %w", err)
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("finding a port where nobody listens: %w", err)
	}
	p.Refused = nobody.Addr().String()
	if err := nobody.Close(); err != nil {
		return nil, fmt.Errorf("finding a port where nobody listens: %w", err)
	}
	p.Server = "http://" + l.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(folder)))
	mux.Handle("/hanging/", &p.hanging)
	p.server = &http.Server{Handler: mux}
	go func() { p.done <- p.server.Serve(l) }()
	return p, nil
}

func (p *places) close() {
	_ = p.server.Close() // the recordings are written
	if err := <-p.done; !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "record: serving jars:", err)
	}
}
