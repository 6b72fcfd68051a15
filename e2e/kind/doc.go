// Package kind proves the provider kind on a real container engine: a cluster with the controller
// in it, real traffic during a rolling update, and what up and down do about clusters that are
// there already.
//
// They need a container engine and minutes, so they run with E2E_KIND=1 only: `make e2e-kind`,
// which says so where no engine answers.
package kind
