package metricsapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/certfile"
	"github.com/koupleless/koupsandbox/controller/internal/door"
)

// Options configure a Server.
type Options struct {
	// Addr is where to listen, host:port. Required.
	Addr string
	// CertFile and KeyFile hold the serving certificate in PEM form, and are read again when they change. If
	// they are empty, the server generates a self-signed certificate that is valid for a year, for an
	// APIService with insecureSkipTLSVerify.
	CertFile, KeyFile string
	// Nodes are those of bases, of all controllers. Required.
	Nodes corev1listers.NodeLister
	// ConfigMaps reads those of the namespace kube-system. Required.
	ConfigMaps configMaps
	// Logger is where the start and refused callers go; nil discards them.
	Logger *slog.Logger
}

// Server is the metrics API. It serves nobody but the API server, which has reviewed already what
// its users may do: what headers say about them is not looked at.
type Server struct {
	opts     Options
	certs    *certfile.Source
	listener net.Listener
	callers  *memory
}

// New reads the serving certificate and listens, so that what is wrong with either stops the start.
// Connections wait until Start serves them.
func New(opts Options) (*Server, error) {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	s := &Server{opts: opts, callers: &memory{from: opts.ConfigMaps, now: time.Now}}
	template := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"http/1.1"},
	}
	if opts.CertFile == "" {
		pair, err := certfile.SelfSigned()
		if err != nil {
			return nil, err
		}
		template.Certificates = []tls.Certificate{pair}
	}
	var err error
	if s.certs, err = certfile.Open(template, certfile.Files{
		Cert: certfile.File{Setting: "KUBELET_TLS_CERT", Path: opts.CertFile}, Key: certfile.File{Setting: "KUBELET_TLS_KEY", Path: opts.KeyFile},
	}, opts.Logger); err != nil {
		return nil, fmt.Errorf("reading the serving certificate of the metrics API: %w", err)
	}
	l, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("serving the metrics API: %w", err)
	}
	s.listener = l
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// tls is what one connection is served with: whoever is not the API server's aggregator gets none.
func (s *Server) tls(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	known, fresh, err := s.callers.get(hello.Context())
	if err != nil {
		if fresh {
			s.opts.Logger.Warn("the metrics API serves nobody", "err", err)
		}
		return nil, err
	}
	config := s.certs.Config().Clone()
	config.ClientCAs, config.VerifyConnection = known.authorities, known.verify
	return config, nil
}

// connections are how many are open at once: the API server needs a few.
const connections = 64

// Start serves until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:          slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
	}
	s.opts.Logger.Info("serving the metrics API", "addr", s.Addr().String())
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // closing listeners has no error worth a word
	defer stop()
	listener := tls.NewListener(door.Limit(s.listener, door.Limits{Connections: connections}), &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: s.tls})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the metrics API on %s: %w", s.Addr(), err)
	}
	return nil
}
