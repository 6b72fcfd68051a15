package traffic

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// reachInterval is the interval between attempts to reach a module through its Service.
const reachInterval = 10 * time.Millisecond

// errRejected is the error for a connection that kube-proxy has rejected because the Service has no endpoints.
var errRejected = fmt.Errorf("%w: kube-proxy rejects connections to the Service", ErrNoEndpoint)

// ClusterAddress returns the IP:port of a Service port in its cluster. port is a port name, number or target port. If
// it is empty, the first port is used. ClusterAddress returns an error for a Service without a cluster IP, which
// kube-proxy does not handle.
func ClusterAddress(svc *corev1.Service, port string) (string, error) {
	name := svc.Namespace + "/" + svc.Name
	switch svc.Spec.ClusterIP {
	case corev1.ClusterIPNone:
		return "", fmt.Errorf(
			"kube-proxy does not serve the headless Service %s; give the Service a clusterIP, or use via: bases", name)
	case "":
		return "", fmt.Errorf("kube-proxy does not serve Service %s, which has no clusterIP", name)
	}
	p, ok := backendOf(svc, nil).port(port)
	if !ok {
		return "", fmt.Errorf("service %s has no port %q", name, port)
	}
	return net.JoinHostPort(svc.Spec.ClusterIP, p.number), nil
}

// dialService connects to the cluster IP of a Service. The error wraps ErrNoEndpoint if kube-proxy has rejected the
// connection. For other clients, such a rejection looks like a refused connection.
func dialService(ctx context.Context, addr string) (net.Conn, error) {
	var rejected rejection
	d := dialer
	d.Control = func(_, _ string, c syscall.RawConn) error { return rejected.watch(c) }
	c, err := dialWith(ctx, &d, addr)
	if rejected.detected() && err != nil {
		return nil, errRejected
	}
	return c, err
}

// waitReachable sends requests until the module responds at the cluster IP of its Service, or ctx ends. It is needed
// because kube-proxy applies its rules shortly after the endpoints have changed. Until then, packets to the cluster
// IP leave the cluster.
func (r *requester) waitReachable(ctx context.Context) {
	defer r.close()
	for {
		switch r.do(ctx).Result {
		case OK, WrongVersion:
			return
		}
		select {
		case <-time.After(reachInterval):
		case <-ctx.Done():
			return
		}
	}
}
