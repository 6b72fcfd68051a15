// Package own proves that the scenarios with the label conformance judge any module controller that
// spec.controller.command names.
//
//	own_test.go  the bundled controller passes them, a naive controller does not
//	naive/       the naive controller
package own
