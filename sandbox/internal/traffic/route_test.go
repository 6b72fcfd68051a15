package traffic

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func service(change ...func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "biz1"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)},
			{Name: "admin", Port: 81, TargetPort: intstr.FromString("management")},
		}},
	}
	for _, c := range change {
		c(&s.Spec)
	}
	return s
}

// slice returns an EndpointSlice with the given endpoints and a port named http.
func slice(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: "biz1"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{
			{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
}

func at(ip, pod string, c discoveryv1.EndpointConditions) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: c,
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: pod}}
}

var (
	ready = discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true),
		Terminating: ptr.To(false)}
	notReady = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(false),
		Terminating: ptr.To(false)}
	draining = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true),
		Terminating: ptr.To(true)}
	ending = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(false),
		Terminating: ptr.To(true)}
	noConditions = discoveryv1.EndpointConditions{}
)

func TestWhichEndpointsCount(t *testing.T) {
	headless := func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }
	ipv6 := slice("v6", at("fd00::1", "six", ready))
	ipv6.AddressType = discoveryv1.AddressTypeIPv6
	other := slice("other", at("198.18.0.9", "other", ready))
	other.Ports[0].Name = ptr.To("other")
	for name, c := range map[string]struct {
		svc    *corev1.Service
		slices []*discoveryv1.EndpointSlice
		want   []string // IP and Pod of each endpoint
	}{
		"ready ones only": {
			slices: []*discoveryv1.EndpointSlice{
				slice("a", at("198.18.0.2", "b", ready), at("198.18.0.1", "a", notReady),
					at("198.18.0.3", "c", draining), at("198.18.0.4", "d", noConditions))},
			want: []string{"198.18.0.2 b", "198.18.0.4 d"},
		},
		"none is ready: those that serve while they terminate": {
			slices: []*discoveryv1.EndpointSlice{
				slice("a", at("198.18.0.1", "a", notReady), at("198.18.0.3", "c", draining)),
				slice("b", at("198.18.0.4", "d", ending))},
			want: []string{"198.18.0.3 c"},
		},
		"but not of a headless Service": {
			svc:    service(headless),
			slices: []*discoveryv1.EndpointSlice{slice("a", at("198.18.0.3", "c", draining))},
		},
		"serving counts only while terminating": {
			slices: []*discoveryv1.EndpointSlice{
				slice("a", at("198.18.0.1", "a",
					discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true)}))},
		},
		"none serves": {
			slices: []*discoveryv1.EndpointSlice{
				slice("a", at("198.18.0.1", "a", notReady), at("198.18.0.4", "d", ending))},
		},
		"no slice": {},
		"several slices, other ports and families": {
			slices: []*discoveryv1.EndpointSlice{slice("b", at("198.18.0.2", "b", ready)),
				slice("a", at("198.18.0.1", "a", ready)), ipv6, other},
			want: []string{"198.18.0.1 a", "198.18.0.2 b"},
		},
		"a Service of IPv6": {
			svc:    service(func(s *corev1.ServiceSpec) { s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }),
			slices: []*discoveryv1.EndpointSlice{slice("a", at("198.18.0.1", "a", ready)), ipv6},
			want:   []string{"fd00::1 six"},
		},
		"two Pods of one base: one that terminates never counts": {
			slices: []*discoveryv1.EndpointSlice{
				slice("a", at("198.18.0.1", "new", ready), at("198.18.0.1", "old", draining),
					at("198.18.0.2", "old2", draining), at("198.18.0.2", "new2", ready))},
			want: []string{"198.18.0.1 new", "198.18.0.2 new2"},
		},
		"two Pods of one base: a ready one counts": {
			slices: []*discoveryv1.EndpointSlice{
				slice("a", at("198.18.0.1", "new", ready), at("198.18.0.1", "old", notReady),
					at("198.18.0.2", "old2", notReady), at("198.18.0.2", "new2", ready))},
			want: []string{"198.18.0.1 new", "198.18.0.2 new2"},
		},
		"a named target port that no Pod has": {
			svc:    service(func(s *corev1.ServiceSpec) { s.Ports = s.Ports[1:] }),
			slices: []*discoveryv1.EndpointSlice{slice("a", at("198.18.0.1", "a", ready))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.svc == nil {
				c.svc = service()
			}
			var got []string
			for _, e := range backendOf(c.svc, c.slices).ports[0].endpoints {
				got = append(got, e.ip+" "+e.pod)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("endpoints (-want +got):\n%s", d)
			}
		})
	}
}

// TestPortsOfEndpoints checks that the port number of an endpoint can differ between the ports of a Service and
// between Pods. If no Pod has a port with the requested name, the Service port must have no endpoints.
func TestPortsOfEndpoints(t *testing.T) {
	svc := service(func(s *corev1.ServiceSpec) {
		s.Ports = append(s.Ports, corev1.ServicePort{Name: "plain", Port: 82, TargetPort: intstr.FromInt32(9999)})
	})
	one, two := slice("a", at("198.18.0.1", "a", ready)), slice("b", at("198.18.0.2", "b", ready))
	two.Ports[0].Port = ptr.To[int32](9090)
	for _, s := range []*discoveryv1.EndpointSlice{one, two} {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr.To("plain"), Port: ptr.To[int32](9999)})
	}
	got := map[string][]string{}
	for _, p := range backendOf(svc, []*discoveryv1.EndpointSlice{one, two}).ports {
		if p.unresolved {
			got[p.name] = []string{"unresolved"}
		}
		for _, e := range p.endpoints {
			got[p.name] = append(got[p.name], e.ip+":"+e.port)
		}
	}
	want := map[string][]string{
		"http": {"198.18.0.1:8080", "198.18.0.2:9090"}, "plain": {"198.18.0.1:9999", "198.18.0.2:9999"},
		"admin": {"unresolved"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("ports of endpoints (-want +got):\n%s", d)
	}
}

// TestPortsOfAHeadlessService checks that a client of a headless Service connects to the port number that it
// requests, because the ports of such a Service are not mapped.
func TestPortsOfAHeadlessService(t *testing.T) {
	for name, c := range map[string]struct {
		address string
		want    map[string]string // expected endpoint port, by requested port
	}{
		"with an address": {"10.0.0.1", map[string]string{"": "8080", "http": "8080", "80": "8080", "8080": "8080"}},
		"headless": {corev1.ClusterIPNone,
			map[string]string{"": "80", "http": "8080", "80": "80", "8080": "8080"}},
	} {
		b := backendOf(service(func(s *corev1.ServiceSpec) { s.ClusterIP = c.address }),
			[]*discoveryv1.EndpointSlice{slice("a", at("198.18.0.1", "a", ready))})
		got := map[string]string{}
		for asked := range c.want {
			p, _ := b.port(asked)
			got[asked] = p.dialled(p.endpoints[0], asked)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestPortsAndAffinityOfAService(t *testing.T) {
	b := backendOf(service(), nil)
	for p, want := range map[string]string{"": "http", "http": "http", "80": "http", "8080": "http", "admin": "admin",
		"81": "admin", "management": "admin"} {
		if got, ok := b.port(p); !ok || got.name != want {
			t.Errorf("port %q is %v, want %s", p, got, want)
		}
	}
	if _, ok := b.port("443"); ok {
		t.Error("a port that is not there was found")
	}
	sticky := func(seconds *int32) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) {
			s.SessionAffinity = corev1.ServiceAffinityClientIP
			s.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: seconds}}
		}
	}
	got := []time.Duration{b.affinity, backendOf(service(sticky(nil)), nil).affinity,
		backendOf(service(sticky(ptr.To[int32](7))), nil).affinity}
	if d := cmp.Diff([]time.Duration{0, 3 * time.Hour, 7 * time.Second}, got); d != "" {
		t.Errorf("affinity (-want +got):\n%s", d)
	}
}
