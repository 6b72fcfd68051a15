package apifault

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/valve"
)

const (
	loopback = "127.0.0.1"
	// maxStreams is the maximum number of concurrent requests per connection. It exceeds the limit of the API server,
	// so that the proxy never restricts a client further.
	maxStreams = 2000
)

// endpoint is the proxy listener for one controller.
type endpoint struct {
	listener   net.Listener
	valve      *valve.Valve
	token      string
	kubeconfig string
	server     *http.Server
	serving    sync.WaitGroup

	mu   sync.Mutex
	next http.Handler // forwards requests to the API server
}

// newEndpoint listens on a loopback port with a new certificate, and writes a kubeconfig with the address and the
// token of the endpoint. The valve calls onBlocked when a fault holds back data.
func newEndpoint(dir, name string, onBlocked func()) (*endpoint, error) {
	authority, _, err := cluster.NewAuthority("koupsandbox API proxy")
	if err != nil {
		return nil, err
	}
	certPEM, keyPEM, err := authority.Issue(cluster.Subject{Name: loopback, Hosts: []string{loopback}})
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("parsing the certificate of the API proxy: %w", err)
	}
	e := &endpoint{valve: valve.New(onBlocked), token: rand.Text(),
		kubeconfig: filepath.Join(dir, name+".view.kubeconfig")}
	e.listener, err = net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, fmt.Errorf("opening a port of the API proxy: %w", err)
	}
	const entry = "proxy"
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{entry: {
			Server: "https://" + e.listener.Addr().String(), CertificateAuthorityData: authority.PEM(),
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{entry: {Token: e.token}},
		Contexts:       map[string]*clientcmdapi.Context{entry: {Cluster: entry, AuthInfo: entry}},
		CurrentContext: entry,
	})
	if err == nil {
		err = state.WriteFile(e.kubeconfig, text)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s: %w", e.kubeconfig, err), e.listener.Close())
	}
	// The log is discarded, because faults abort requests on purpose.
	e.server = &http.Server{
		Handler: e, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	return e, nil
}

// serve accepts connections until close is called.
func (e *endpoint) serve() {
	e.serving.Go(func() { _ = e.server.ServeTLS(valveListener{e.listener, e.valve}, "", "") }) // ends with close
}

// setUpstream sets the URL of the API server and the transport to it, which adds the credentials.
func (e *endpoint) setUpstream(to *url.URL, transport http.RoundTripper) {
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		ErrorLog:  log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Authorization") // the token of this port; the transport adds the credentials
			// API servers since Kubernetes 1.37 compress watch responses, and a stream cannot find events in them.
			r.Out.Header.Set("Accept-Encoding", "identity")
		},
		// As without the proxy, the controller gets a closed connection.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next = proxy
}

// ServeHTTP forwards requests that have the token of the endpoint, and rejects all other requests.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+e.token)) != 1 {
		q := parseRequest(r, "")
		refused := statusResponse(r, errorStatus(http.StatusUnauthorized, &q, 0))
		w.Header().Set("Content-Type", refused.Header.Get("Content-Type"))
		w.WriteHeader(refused.StatusCode)
		_, _ = io.Copy(w, refused.Body) // the client may have disconnected
		return
	}
	e.mu.Lock()
	next := e.next
	e.mu.Unlock()
	next.ServeHTTP(w, r)
}

// close aborts in-flight requests and closes the port.
func (e *endpoint) close() error {
	e.valve.Set(false)
	err := e.server.Close()
	e.serving.Wait()
	return err
}

// valveListener is a listener whose connections pass through a valve.
type valveListener struct {
	net.Listener
	valve *valve.Valve
}

// Accept implements net.Listener.
func (l valveListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.valve.Wrap(conn), nil
}
