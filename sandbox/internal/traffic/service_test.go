package traffic

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestClusterAddress(t *testing.T) {
	for _, c := range []struct {
		ip, port, want string // want is the expected address, or part of the expected error
	}{
		{"10.96.0.7", "", "10.96.0.7:80"},
		{"10.96.0.7", "http", "10.96.0.7:80"},
		{"10.96.0.7", "81", "10.96.0.7:81"},
		{"10.96.0.7", "9090", "10.96.0.7:81"},
		{"fd00::7", "admin", "[fd00::7]:81"},
		{"10.96.0.7", "shop", `"shop"`},
		{"", "", "shop/stock"},
		{corev1.ClusterIPNone, "", "via: bases"},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stock"},
			Spec: corev1.ServiceSpec{
				ClusterIP: c.ip,
				Ports: []corev1.ServicePort{
					{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)},
					{Name: "admin", Port: 81, TargetPort: intstr.FromInt32(9090)},
				},
			}}
		got, err := ClusterAddress(svc, c.port)
		if err == nil && got != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, port %q: %s (%v), want %s", c.ip, c.port, got, err, c.want)
		}
	}
}
