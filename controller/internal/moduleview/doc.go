// Package moduleview keeps the resource behind `kubectl get module` (Module Controller V2 document
// 5.5): one Module for each container of a module Pod, with the state of the module on its base.
//
//	types.go   Module, v1alpha1 of koupleless.io; its definition is controller/deploy/crd.yaml
//	mirror.go  what a Module says, from Pod and Node; pure
//	view.go    Options, New, Start: a queue of Pods
//	write.go   creating and updating Modules, only where something differs
//
// The view is a convenience and stands behind everything else: it gathers changes for a moment and
// limits its writes. A Module belongs to its Pod, so Kubernetes' garbage collector removes it.
package moduleview
