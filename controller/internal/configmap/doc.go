// Package configmap reads single values of ConfigMaps for module Pods whose version is a
// configMapKeyRef. It asks the API only when somebody wants to know: no list, no watch, and nothing
// at all at rest.
//
//	resolver.go  Options, Resolver: New, Start, Value
//	entry.go     what is known of one ConfigMap, and when it is read again
package configmap
