// Package incluster runs module controllers inside a cluster, from the manifests in controller/deploy. Each
// controller is a Deployment with one Pod.
//
// A watch follows the Pods, so that their state is known without calls of the API.
package incluster
