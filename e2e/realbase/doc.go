// Package realbase runs a real Koupleless base: a JVM with arklet and sofa-ark in
// it, which the simulated base and the controller are held against. make
// realbase builds it; make record and make e2e-realbase use it.
//
//	java/          the base and a module, as Maven projects
//	base.go        Base: one process, from start to stop
//	jars.go        what Maven built, and jars made from it that are broken in one way
//	record/        the recorder of fakebase/testdata/real
//	*_test.go      the controller drives real bases over both tunnels
package realbase
