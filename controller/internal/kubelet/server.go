// Package kubelet serves logs and exec of module Pods to the API server, as a kubelet does.
//
// A module writes its output to the log of its base. kubectl logs prints this log if the base runs in a Pod in the
// namespace of the module Pod. Otherwise, it prints the commands to the base, their answers, and the states of the
// module. kubectl exec runs the commands of one program, ark, which queries the base.
package kubelet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/certfile"
	"github.com/koupleless/koupsandbox/controller/internal/connlimit"
)

// pods provides the module Pods that this controller serves.
type pods interface {
	// Pod returns a module Pod, and the identity of the base on which the Pod runs.
	Pod(namespace, name string) (pod *corev1.Pod, identity string, err error)
	// RequestedVersions returns the time when the controller first saw a Pod on its base, and the versions of a
	// module that the Pod has requested.
	RequestedVersions(pod *corev1.Pod, module string) (from time.Time, versions []string)
}

// bases sends requests to bases. base.RequestTracker implements it.
type bases interface {
	Modules(ctx context.Context, identity string, notBefore time.Time) (base.Snapshot, error)
	Health(ctx context.Context, identity string) (arklet.Health, error)
	Do(ctx context.Context, identity string, r arklet.Request, mayResend func() bool) (arklet.Answer, error)
	// DisplayName returns the name of a base for use in messages.
	DisplayName(identity string) string
	// Info returns the data that a base reports about itself. It is zero if the base is unknown.
	Info(identity string) base.Info
}

// Options configure a Server.
type Options struct {
	// Addr is the address to listen on, as host:port. Required.
	Addr string
	// CertFile and KeyFile are PEM files with the serving certificate and its key. They are read again when they
	// change. If they are empty, the server generates a self-signed certificate that is valid for one year. API
	// servers that verify kubelet certificates reject this certificate.
	CertFile, KeyFile string
	// ClientCAFile is a PEM file with the CA certificates that verify the client certificates of callers, such as the
	// --kubelet-client-certificate of the API server. It is read again when it changes. Required.
	ClientCAFile string
	// Reviews creates the SubjectAccessReviews that check whether the user of a client certificate has permission for
	// the verb get or create on nodes/proxy. If it is nil, the server admits every client with a valid certificate.
	Reviews  authorizationv1.SubjectAccessReviewInterface
	Pods     pods      // required
	Bases    bases     // required
	EventLog *EventLog // required
	// BasePods reads the Pods in which bases run, and their logs. Required.
	BasePods corev1client.PodsGetter
	// BaseLogFile is a log file in the text format of package slog. The log of a module contains its lines with the
	// attribute base=IDENTITY. Default: none.
	BaseLogFile string
	Logger      *slog.Logger
}

// Server serves the kubelet API for all bases of this controller.
type Server struct {
	opts     Options
	listener net.Listener
	reviews  *accessReviewer

	mu      sync.Mutex
	stopped bool
	shells  sync.WaitGroup // running exec sessions, whose connections the HTTP server does not track
}

// New reads the certificates and opens the listener. Connections are accepted after Start is called.
func New(opts Options) (*Server, error) {
	s := &Server{opts: opts, reviews: newReviews(opts.Reviews)}
	template := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.VerifyClientCertIfGiven, // a client without a certificate gets status 401
		NextProtos: []string{"http/1.1"},        // exec hijacks the connection, which HTTP/2 does not allow
	}
	switch {
	case opts.ClientCAFile == "":
		return nil, errors.New(
			"KUBELET_CLIENT_CA is empty; set it to the file with the CA certificate that verifies the " +
				"kubelet client certificate of the API server")
	case (opts.CertFile == "") != (opts.KeyFile == ""):
		return nil, errors.New(
			"KUBELET_TLS_CERT or KUBELET_TLS_KEY is empty; set both or neither")
	case opts.CertFile == "":
		pair, err := certfile.SelfSigned()
		if err != nil {
			return nil, err
		}
		template.Certificates = []tls.Certificate{pair}
	}
	certs, err := certfile.Open(template, certfile.Files{
		Cert: certfile.File{Setting: "KUBELET_TLS_CERT", Path: opts.CertFile},
		Key:  certfile.File{Setting: "KUBELET_TLS_KEY", Path: opts.KeyFile},
		CA:   certfile.File{Setting: "KUBELET_CLIENT_CA", Path: opts.ClientCAFile},
	}, opts.Logger)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("listening for the kubelet API: %w", err)
	}
	s.listener = tls.NewListener(connlimit.NewListener(l, connlimit.Limits{Connections: connections}), certs.Server())
	return s, nil
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

const (
	// connections is the maximum number of concurrent connections of clients that have not been admitted yet.
	connections   = 512
	headerTimeout = 10 * time.Second
	// streamIdle is the maximum idle time of an exec session, the same as in a kubelet.
	streamIdle  = 4 * time.Hour
	stopTimeout = 5 * time.Second
)

// Start serves requests until ctx is done. Then it closes followed logs and exec sessions.
func (s *Server) Start(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context,
			c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ErrorLog: slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
	}
	s.opts.Logger.Info("serving the kubelet API", "addr", s.Addr().String())
	if err := connlimit.Serve(ctx, server, s.listener, stopTimeout); err != nil {
		return fmt.Errorf("serving the kubelet API: %w", err)
	}
	s.stopSessions()
	return nil
}

// Error messages for the parts of the kubelet API that are not supported.
const (
	noAttach = "kubectl attach is not supported for modules; use kubectl logs -f to follow the states of " +
		"the module, or " +
		"kubectl exec -it POD -- ark to query the base"
	// Port forwarding would be unsafe, because bases report their own addresses: a malicious base could direct users
	// to any host on the network of the controller.
	noPortForward = "port forwarding to bases is not supported, because bases report their own address; " +
		"send requests " +
		"from within the cluster, or through the gateway of a sandbox (koupsandbox status shows its address)"
	noDebug = "kubectl debug is not supported, because a base runs no containers; use kubectl logs POD to show the " +
		"states of the module, or kubectl exec POD -- ark health to query the base"
)

// handler returns a handler for the kubelet API endpoints that the API server calls for Pods.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/attach/", refuse(noAttach))
	mux.HandleFunc("/portForward/", refuse(noPortForward))
	mux.Handle("/", withLogRequest(api.PodHandler(api.PodHandlerConfig{
		GetContainerLogs:  s.logs,
		RunInContainer:    s.exec,
		StreamIdleTimeout: streamIdle,
	}, false)))
	return s.admit(mux)
}

// refuse returns a handler that responds with a Status object, like the API server. Without a Status object, kubectl
// would parse the plain text as YAML.
func refuse(message string) http.HandlerFunc {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: "NotImplemented", Message: message,
	})
	utilruntime.Must(err)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotImplemented)
		_, _ = w.Write(body) // the client may have disconnected
	}
}
