// Package incluster runs module controllers in a cluster, from the manifests in controller/deploy. Each controller is a
// Deployment with one Pod. A watch of the Pods provides the state of the controllers without API requests.
package incluster
