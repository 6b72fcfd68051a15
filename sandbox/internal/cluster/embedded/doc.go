// Package embedded provides a Kubernetes API without a container engine. It runs the upstream etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, all from the koup-controlplane binary, as processes on this machine.
//
// All processes listen with TLS on 127.0.0.1, on random ports. Clients authenticate with a certificate or, if they send
// many requests, with a token. Authorization and admission work as in a real cluster: the authorizers Node and RBAC,
// NodeRestriction, and the default plugins except TaintNodesByCondition.
package embedded
