package traffic

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestClusterAddress(t *testing.T) {
	for _, c := range []struct {
		ip, port, want string
	}{
		{"10.96.0.7", "", "10.96.0.7:80"},
		{"10.96.0.7", "http", "10.96.0.7:80"},
		{"10.96.0.7", "81", "10.96.0.7:81"},
		{"10.96.0.7", "9090", "10.96.0.7:81"},
		{"fd00::7", "admin", "[fd00::7]:81"},
		{"10.96.0.7", "shop", `there is no port "shop" in Service shop/stock`},
		{"", "", "kube-proxy does not serve Service shop/stock, which has no address in the cluster"},
		{corev1.ClusterIPNone, "", "kube-proxy does not serve Service shop/stock, which is headless: give it an address of its own, or send via: bases"},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stock"}, Spec: corev1.ServiceSpec{
			ClusterIP: c.ip,
			Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}, {Name: "admin", Port: 81, TargetPort: intstr.FromInt32(9090)},
			},
		}}
		got, err := ClusterAddress(svc, c.port)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, port %q: %s, want %s", c.ip, c.port, got, c.want)
		}
	}
}

func toAddress(addr string) func(*Spec) {
	return func(s *Spec) {
		viaService(s)
		s.Address = addr
	}
}

// What lies behind the address of a Service, in the ledger's words. That kube-proxy has
// rejected a connection, e2e/kind proves.
func TestResultsAtAnAddress(t *testing.T) {
	for name, c := range map[string]struct {
		addr string
		want Record
	}{
		"nobody listens": {closed(t), Record{Result: Refused, Error: "connection refused"}},
		"reset": {listen(t, func(c *net.TCPConn) {
			_ = c.SetLinger(0)
			_ = c.Close()
		}), Record{Result: Reset, Error: "connection reset"}},
		"another Service has got the address": {
			serve(t, answer("somebody", "biz2", "1")), Record{Result: Other, Status: 200, Version: "1", Error: "module biz2 answered instead of biz1"},
		},
		"ok": {serve(t, answer("somebody", "biz1", "1")), Record{Result: OK, Status: 200, Version: "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if end := r.run(t, spec("s", 1, 1, toAddress(c.addr), timeout(patience))); end.Route != RouteKubeProxy {
				t.Errorf("route %q", end.Route)
			}
			records, err := r.generator.Records("g", "s")
			if err != nil {
				t.Fatal(err)
			}
			c.want.Seq, c.want.Endpoint = 1, c.addr
			for got := range records {
				if d := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Record{}, "Due", "Sent", "Done")); d != "" {
					t.Errorf("record (-want +got):\n%s", d)
				}
			}
		})
	}
}

// The first answer of the module is waited for, and is none of the ledger's.
func TestStreamWaitsForItsAddress(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer func() { _ = file.Close() }()
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	began := make(chan error, 1)
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: bound.(*syscall.SockaddrInet4).Port}
	go func() { began <- r.generator.Begin(t.Context(), "g", spec("s", 1, 1, toAddress(addr.String()))) }()
	select {
	case err := <-began:
		t.Fatalf("the stream began without a listener: %v", err)
	case <-time.After(5 * reachPause):
	}
	if err := syscall.Listen(fd, 10); err != nil {
		t.Fatal(err)
	}
	l, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	answer := func(status string) {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	}
	answer("404 Not Found") // from somebody out of the cluster
	select {
	case err := <-began:
		t.Fatalf("the stream began without the module: %v", err)
	case <-time.After(reachPause / 2):
	}
	answer("200 OK")
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	answer("200 OK")
	if end := r.finish(t, "s"); end.Sent != 1 || end.Results[OK] != 1 {
		t.Errorf("%+v", end.Summary)
	}
}
