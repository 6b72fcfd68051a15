// Package embedded gives a sandbox a Kubernetes API without a container engine: the upstream etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler as processes of this machine, all in
// the koup-controlplane binary.
//
// Everything listens on 127.0.0.1 with ports that the kernel picks, and speaks TLS. Who asks shows a
// certificate, or a token if it asks all the time. Authorisation and admission are those of a real
// cluster: Node and RBAC, NodeRestriction and the default plugins but one.
package embedded
