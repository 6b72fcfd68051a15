// Package own proves that the scenarios with the label conformance judge any module controller that
// spec.controller.command names.
//
//	naive/       the naive controller
package own
