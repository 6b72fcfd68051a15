// Package kind tests the provider kind on a real container engine: a controller in the cluster, requests through
// kube-proxy during a rolling update, and up and down with existing clusters.
//
// It needs a container engine and minutes, so it runs only with E2E_KIND=1: make e2e-kind.
package kind
