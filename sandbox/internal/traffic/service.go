package traffic

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// reachPause is between two attempts to reach a Service that nobody serves yet.
const reachPause = 10 * time.Millisecond

// errRejected is what an address of a Service without endpoints gives: kube-proxy
// answers in their place.
var errRejected = fmt.Errorf("%w: kube-proxy rejects connections to the Service", ErrNoEndpoint)

// ClusterAddress returns the IP:port of a port of a Service in its cluster. port is a name, number or target; empty =
// the first. A Service without an address is an error, because kube-proxy does not serve it.
func ClusterAddress(svc *corev1.Service, port string) (string, error) {
	name := svc.Namespace + "/" + svc.Name
	switch svc.Spec.ClusterIP {
	case corev1.ClusterIPNone:
		return "", fmt.Errorf(
			"kube-proxy does not serve Service %s, which is headless: give it an address of its own, or send via: bases", name)
	case "":
		return "", fmt.Errorf("kube-proxy does not serve Service %s, which has no address in the cluster", name)
	}
	p, ok := backendOf(svc, nil).port(port)
	if !ok {
		return "", fmt.Errorf("there is no port %q in Service %s", port, name)
	}
	return net.JoinHostPort(svc.Spec.ClusterIP, p.number), nil
}

// dialService connects to a Service at its address. The error wraps ErrNoEndpoint when
// kube-proxy has rejected the connection, which a client sees as a refusal.
func dialService(ctx context.Context, addr string) (net.Conn, error) {
	var rejected rejection
	d := dialer
	d.Control = func(_, _ string, c syscall.RawConn) error { return rejected.watch(c) }
	c, err := dialWith(ctx, &d, addr)
	if rejected.end() && err != nil {
		return nil, errRejected
	}
	return c, err
}

// reach waits until the module answers at the address of its Service, or ctx ends. kube-proxy applies its rules shortly
// after the endpoints change; before that, the address leads out of the cluster.
func (r *requester) reach(ctx context.Context) {
	defer r.close()
	for {
		switch r.do(ctx).Result {
		case OK, WrongVersion:
			return
		}
		select {
		case <-time.After(reachPause):
		case <-ctx.Done():
			return
		}
	}
}
