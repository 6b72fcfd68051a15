package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/connlimit"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// Address returns the address for probing a container, as host:port. The annotation base.koupleless.io/web-port
// overrides the port of the probe. Its value is a port or host:port. The annotation of the Pod takes precedence over
// the annotation of the Node. node may be nil. podIP is the IP address of the base.
func Address(pod *corev1.Pod, node *corev1.Node, podIP string, container corev1.Container,
	probe *corev1.HTTPGetAction) (string, error) {
	host := cmp.Or(probe.Host, podIP)
	annotation := pod.Annotations[labels.WebPort]
	if annotation == "" && node != nil {
		annotation = node.Annotations[labels.WebPort]
	}
	port := annotation
	switch {
	case len(annotation) > arklet.MaxName:
		return "", fmt.Errorf("annotation %s has %d bytes; the maximum is %d", labels.WebPort,
			len(annotation),
			arklet.MaxName)
	case strings.Contains(annotation, ":"):
		var err error
		host, port, err = net.SplitHostPort(annotation)
		if err != nil {
			return "", fmt.Errorf("annotation %s: %w", labels.WebPort, err)
		}
	case annotation == "" && probe.Port.Type == intstr.Int:
		port = strconv.Itoa(probe.Port.IntValue())
	case annotation == "":
		port = probe.Port.StrVal
		for _, p := range container.Ports {
			if p.Name == probe.Port.StrVal {
				port = strconv.Itoa(int(p.ContainerPort))
			}
		}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf(
			"invalid port %.80q for container %q: use a number from 1 to 65535, or the name of a container port",
			port, container.Name)
	}
	return net.JoinHostPort(host, port), nil
}

// maxResponseBytes is the maximum number of bytes that are read from the response to a probe.
const maxResponseBytes = 10 << 10

func newClient(o Options) *http.Client {
	t := o.Transport
	if t == nil {
		t = &http.Transport{
			DialContext: dialWithin(o.Dial), DisableKeepAlives: true, DisableCompression: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as in a kubelet
		}
	}
	return &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		switch {
		case r.URL.Hostname() != via[0].URL.Hostname():
			return http.ErrUseLastResponse
		case len(via) >= 10:
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}}
}

// requestKey is the context key for the original context of a request.
type requestKey struct{}

// dialWithin returns a dial function that uses the context of the request, and closes the connection when this
// context is done. Without it, http.Transport would continue the dial or the TLS handshake after the request has
// ended. If dial is nil, the returned function uses net.Dialer.DialContext.
func dialWithin(dial connlimit.DialFunc) connlimit.DialFunc {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	//nolint:contextcheck // the context of the request ends before the context of the transport
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if request, is := ctx.Value(requestKey{}).(context.Context); is {
			ctx = request
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		return conn, nil
	}
}

// get sends one probe request. It returns nil if the status is between 200 and 399. The caller must cancel ctx after
// get has returned. This closes the connection.
func get(ctx context.Context, client *http.Client, t Target, probe *corev1.HTTPGetAction) error {
	target, err := url.Parse(withContextPath(t.ContextPath, probe.Path))
	if err != nil {
		return err
	}
	target.Scheme, target.Host = strings.ToLower(cmp.Or(string(probe.Scheme), "http")), t.Address
	request, err := http.NewRequestWithContext(context.WithValue(ctx, requestKey{}, ctx), http.MethodGet,
		target.String(), nil)
	if err != nil {
		return err
	}
	for _, h := range probe.HTTPHeaders {
		request.Header.Add(h.Name, h.Value)
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "kube-probe/koupleless")
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "*/*")
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxResponseBytes)); err != nil {
		return err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("HTTP status %d from %s", response.StatusCode, target.Redacted())
	}
	return nil
}

// withContextPath returns path with the context path of the module as a prefix. It does not add the prefix if path
// already starts with it.
func withContextPath(contextPath, path string) string {
	path = "/" + strings.TrimPrefix(path, "/")
	prefix := "/" + strings.Trim(contextPath, "/")
	rest, within := strings.CutPrefix(path, prefix)
	if prefix == "/" || within && (rest == "" || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "?")) {
		return path
	}
	return prefix + path
}
