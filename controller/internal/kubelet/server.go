// Package kubelet serves logs and exec of module Pods to the API server, as a kubelet does.
//
// A module writes its output to the log of its base. kubectl logs prints the commands to the base, their answers, and the
// states of the module instead. kubectl exec runs the commands of one program, ark, which queries the base.
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

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/certfile"
	"github.com/koupleless/koupsandbox/controller/internal/door"
)

// pods are the served Pods.
type pods interface {
	// Pod returns a module Pod and the identity of its base.
	Pod(namespace, name string) (pod *corev1.Pod, identity string, err error)
	// RequestedVersions returns the time at which the controller first saw a Pod on its base, and the versions of a module that
	// the Pod has requested.
	RequestedVersions(pod *corev1.Pod, module string) (from time.Time, versions []string)
}

// bases are the bases, as base.Dialog has them.
type bases interface {
	Modules(ctx context.Context, identity string, notBefore time.Time) (base.Snapshot, error)
	Health(ctx context.Context, identity string) (arklet.Health, error)
	Do(ctx context.Context, identity string, r arklet.Request, again func() bool) (arklet.Answer, error)
	// Called returns the name of a base for texts.
	Called(identity string) string
}

// Options configure a Server.
type Options struct {
	// Addr is the address to listen on, host:port. Required.
	Addr string
	// CertFile and KeyFile hold the serving certificate in PEM form. They are read again when they change.
	// If they are empty, the server generates a self-signed certificate that is valid for a year. An API server that
	// verifies kubelets refuses it.
	CertFile, KeyFile string
	// ClientCAFile holds the CA certificates in PEM form for the certificates of callers, such as the API server's
	// --kubelet-client-certificate. It is read again when it changes. Required.
	ClientCAFile string
	// Reviews reviews whether the owner of a certificate has the verbs get and create on nodes/proxy. Nil admits every
	// certificate of ClientCAFile.
	Reviews authorizationv1.SubjectAccessReviewInterface
	Pods    pods     // required
	Bases   bases    // required
	Journal *Journal // required
	Logger  *slog.Logger
}

// Server is the kubelet API of all bases of this controller.
type Server struct {
	opts     Options
	listener net.Listener
	reviews  *reviews

	mu      sync.Mutex
	stopped bool
	shells  sync.WaitGroup // the HTTP server does not know the connections of exec any more
}

// New reads the certificates and listens. Connections wait until Start serves them.
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
			"the kubelet API has no authority of callers: set KUBELET_CLIENT_CA to the file with the authority of the API server's kubelet client certificate")
	case (opts.CertFile == "") != (opts.KeyFile == ""):
		return nil, errors.New(
			"the serving certificate of the kubelet API lacks a part: set both of KUBELET_TLS_CERT and KUBELET_TLS_KEY, or none")
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
		return nil, fmt.Errorf("serving the kubelet API: %w", err)
	}
	s.listener = tls.NewListener(door.Limit(l, door.Limits{Connections: connections}), certs.Server())
	return s, nil
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

const (
	// connections is the maximum number of concurrent connections of callers that are not admitted.
	connections   = 512
	headerTimeout = 10 * time.Second
	// streamIdle is how long a prompt may wait for a line, as in a kubelet.
	streamIdle  = 4 * time.Hour
	stopTimeout = 5 * time.Second
)

// Start serves until ctx is done. Followed logs and prompts end then too.
func (s *Server) Start(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.handler(ctx),
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
	if err := door.Serve(ctx, server, s.listener, stopTimeout); err != nil {
		return fmt.Errorf("the kubelet API: %w", err)
	}
	s.leave()
	return nil
}

// Messages for the parts of the kubelet API that are not served.
const (
	noAttach = "a module has no console to attach to: kubectl logs -f follows its states on the base, kubectl exec " +
		"-it POD -- ark queries the base"
	// A base reports its address itself, so port forwarding would give access to the network of the controller.
	noPortForward = "ports of a base are not forwarded, because the base reports its address itself; send requests " +
		"from within the cluster, or through the gateway of a sandbox (koupsandbox status shows it)"
	noDebug = "a base runs no containers, so kubectl debug has nothing to attach to: kubectl logs POD shows the " +
		"states of the module, kubectl exec POD -- ark health queries the base"
)

// handler serves the part of the kubelet API that the API server uses for Pods.
func (s *Server) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/attach/", refuse(noAttach))
	mux.HandleFunc("/portForward/", refuse(noPortForward))
	mux.Handle("/", withLogRequest(api.PodHandler(api.PodHandlerConfig{
		GetContainerLogs: s.logs,
		// The context of virtual-kubelet does not end with the server.
		RunInContainer: func(_ context.Context, namespace, pod, container string, cmd []string,
			attach api.AttachIO) error {
			if !s.enter() {
				return exit(exitFailed)
			}
			defer s.shells.Done()
			return s.exec(ctx, namespace, pod, container, cmd, attach)
		},
		StreamIdleTimeout: streamIdle,
	}, false)))
	return s.admit(mux)
}

// refuse answers with a Status, as the API server does: kubectl parses plain text as YAML.
func refuse(sentence string) http.HandlerFunc {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: "NotImplemented", Message: sentence,
	})
	utilruntime.Must(err)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotImplemented)
		_, _ = w.Write(body) // the client may have disconnected
	}
}
