// Package embedded gives a sandbox a Kubernetes API without a container engine: the upstream etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler as processes of this machine, all in
// the koup-controlplane binary.
//
// Everything listens on 127.0.0.1 with ports that the kernel picks, and speaks TLS. Who asks shows a
// certificate, or a token if it asks all the time. Authorisation and admission are those of a real
// cluster: Node and RBAC, NodeRestriction and the default plugins but one.
//
//	embedded.go     ControlPlane: the steps of bring-up, and Down
//	components.go   the flags of the four components, and why
//	ready.go        when a component counts as ready
//	ports.go        which ports, and trying others when one was taken in between
//	pki.go          certificate authorities, keys, certificates
//	identity.go     kubeconfigs, tokens, and certificates for others
//	controller.go   what a module controller gets of it
//	election.go     how it shows as components; those that lose their election with the API server
package embedded
