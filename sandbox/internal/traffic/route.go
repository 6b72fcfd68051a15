package traffic

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// backend is a Service as its clients see it.
type backend struct {
	ports []backendPort
	// affinity is the session affinity timeout, during which a client keeps its endpoint; 0 means no session
	// affinity.
	affinity time.Duration
}

type backendPort struct {
	name, number, target string
	endpoints            []endpoint // endpoints to which clients connect
	unresolved           bool       // whether target is a port name that no Pod of the Service defines
	headless             bool       // whether the Service has no cluster IP, so its ports are not mapped
}

// dialled returns the port of the endpoint e to which a client connects if the client requests the Service port
// asked, a name, a number or a target port. A client of a headless Service connects to the number that it requests,
// or to the number in the DNS SRV record of a port name.
func (p *backendPort) dialled(e endpoint, asked string) string {
	_, err := strconv.Atoi(asked)
	switch {
	case !p.headless:
		return e.port
	case asked == "":
		return p.number
	case err == nil:
		return asked
	}
	return e.port
}

// endpoint is an endpoint address of a Service, and the Pod with this address.
type endpoint struct {
	ip, port, pod               string
	ready, serving, terminating bool
}

// port returns the Service port with the given name, number or target port. If p is empty, it returns the first port.
func (b *backend) port(p string) (*backendPort, bool) {
	for i := range b.ports {
		c := &b.ports[i]
		if p == "" || p == c.name || p == c.number {
			return c, true
		}
	}
	for i := range b.ports {
		if p == b.ports[i].target {
			return &b.ports[i], true
		}
	}
	return nil, false
}

// backendOf selects endpoints by the rules of kube-proxy [kubernetes/pkg/proxy, CategorizeEndpoints]: all ready
// endpoints or, if no endpoint is ready, the endpoints that are serving and terminating. A headless Service has only
// its ready endpoints, as in DNS. backendOf ignores traffic policies and topology hints, because the client has no
// Node and no zone.
func backendOf(svc *corev1.Service, sliceList []*discoveryv1.EndpointSlice) *backend {
	b := &backend{}
	if svc.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		b.affinity = time.Duration(corev1.DefaultClientIPServiceAffinitySeconds) * time.Second
		if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			b.affinity = time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
		}
	}
	family := discoveryv1.AddressTypeIPv4
	if len(svc.Spec.IPFamilies) > 0 && svc.Spec.IPFamilies[0] == corev1.IPv6Protocol {
		family = discoveryv1.AddressTypeIPv6
	}
	sliceList = slices.DeleteFunc(slices.Clone(sliceList),
		func(s *discoveryv1.EndpointSlice) bool { return s.AddressType != family })
	slices.SortFunc(sliceList, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		bp := backendPort{name: p.Name, number: strconv.Itoa(int(p.Port)), target: p.TargetPort.String(),
			headless: svc.Spec.ClusterIP == corev1.ClusterIPNone}
		all := endpointsOf(sliceList, p)
		bp.unresolved = p.TargetPort.Type == intstr.String && len(all) == 0 &&
			slices.ContainsFunc(sliceList, func(s *discoveryv1.EndpointSlice) bool { return len(s.Endpoints) > 0 })
		bp.endpoints = slices.DeleteFunc(slices.Clone(all), func(e endpoint) bool { return !e.ready })
		if len(bp.endpoints) == 0 && !bp.headless {
			bp.endpoints = slices.DeleteFunc(all, func(e endpoint) bool { return !e.serving || !e.terminating })
		}
		b.ports = append(b.ports, bp)
	}
	return b
}

// endpointsOf returns the endpoints of a port, one for each address, sorted by address. Pods on the same base share
// an address. If the old and the new Pod on a base are both endpoints, endpointsOf prefers an endpoint that is not
// terminating, like kube-proxy. If this does not decide, the choice of kube-proxy is undefined, and endpointsOf
// prefers a ready endpoint.
func endpointsOf(sliceList []*discoveryv1.EndpointSlice, p *corev1.ServicePort) []endpoint {
	byIP := map[string]endpoint{}
	for _, s := range sliceList {
		port := portOf(s, p)
		if port == "" {
			continue
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if len(e.Addresses) == 0 {
				continue
			}
			n := endpoint{
				ip: e.Addresses[0], port: port,
				ready: ptr.Deref(e.Conditions.Ready, true), serving: ptr.Deref(e.Conditions.Serving, true),
				terminating: ptr.Deref(e.Conditions.Terminating, false),
			}
			if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
				n.pod = e.TargetRef.Name
			}
			old, double := byIP[n.ip]
			if !double || supersedes(n, old) {
				byIP[n.ip] = n
			}
		}
	}
	out := make([]endpoint, 0, len(byIP))
	for _, e := range byIP {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b endpoint) int { return cmp.Compare(a.ip, b.ip) })
	return out
}

func supersedes(n, old endpoint) bool {
	return !n.terminating && (old.terminating || n.ready || !old.ready)
}

// portOf returns the number that a Service port has at the endpoints of an EndpointSlice. It returns an empty string
// if the EndpointSlice does not contain the port.
func portOf(s *discoveryv1.EndpointSlice, p *corev1.ServicePort) string {
	for _, q := range s.Ports {
		if q.Name != nil && *q.Name == p.Name && q.Port != nil && *q.Port != 0 &&
			ptr.Deref(q.Protocol, corev1.ProtocolTCP) == cmp.Or(p.Protocol, corev1.ProtocolTCP) {
			return strconv.Itoa(int(*q.Port))
		}
	}
	return ""
}
