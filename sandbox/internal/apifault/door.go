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
	// mostStreams is how many requests one connection may have at once, so that a controller meets the
	// limits of the API server and not those of the proxy.
	mostStreams = 2000
)

// door is where one controller comes in.
type door struct {
	listener   net.Listener
	valve      *valve.Valve
	token      string
	kubeconfig string
	server     *http.Server
	serving    sync.WaitGroup

	mu   sync.Mutex
	next http.Handler // the way to the API server
}

// newDoor opens a port of the loopback address, with a certificate of its own, and writes the
// kubeconfig of whoever may come in.
func newDoor(folder, name string, held func()) (*door, error) {
	authority, _, err := cluster.NewAuthority("koupsandbox API view")
	if err != nil {
		return nil, err
	}
	certPEM, keyPEM, err := authority.Issue(cluster.Subject{Name: loopback, Hosts: []string{loopback}})
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the API view: %w", err)
	}
	d := &door{valve: valve.New(held), token: rand.Text(), kubeconfig: filepath.Join(folder, name+".view.kubeconfig")}
	d.listener, err = net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, fmt.Errorf("opening a port of the API view: %w", err)
	}
	const own = "view"
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{own: {
			Server: "https://" + d.listener.Addr().String(), CertificateAuthorityData: authority.PEM(),
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{own: {Token: d.token}},
		Contexts:       map[string]*clientcmdapi.Context{own: {Cluster: own, AuthInfo: own}},
		CurrentContext: own,
	})
	if err == nil {
		err = state.WriteFile(d.kubeconfig, text)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s: %w", d.kubeconfig, err), d.listener.Close())
	}
	// What net/http logs is dropped: requests that break off are what is wanted.
	d.server = &http.Server{
		Handler: d, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: mostStreams},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	return d, nil
}

// open begins to serve who comes in, until close.
func (d *door) open() {
	d.serving.Go(func() { _ = d.server.ServeTLS(valved{d.listener, d.valve}, "", "") }) // its end is asked for
}

// lead has what comes in go to the API server behind a transport, which brings the identity. to may
// have a path that all requests begin with.
func (d *door) lead(to *url.URL, by http.RoundTripper) {
	proxy := &httputil.ReverseProxy{
		Transport: by,
		ErrorLog:  log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Authorization") // it is ours; the controller's own comes with the transport
		},
		// The controller sees what it would see without the proxy: a connection that breaks.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = proxy
}

// ServeHTTP lets in who has the token.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+d.token)) != 1 {
		q := read(r, "")
		refused := answer(r, refusal(http.StatusUnauthorized, &q, 0))
		w.Header().Set("Content-Type", refused.Header.Get("Content-Type"))
		w.WriteHeader(refused.StatusCode)
		_, _ = io.Copy(w, refused.Body) // whoever asks may go away
		return
	}
	d.mu.Lock()
	next := d.next
	d.mu.Unlock()
	next.ServeHTTP(w, r)
}

// close ends open requests and closes the port.
func (d *door) close() error {
	d.valve.Set(false)
	err := d.server.Close()
	d.serving.Wait()
	return err
}

// valved is a listener whose connections have a valve in them.
type valved struct {
	net.Listener
	valve *valve.Valve
}

// Accept implements net.Listener.
func (l valved) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.valve.Through(conn), nil
}
