// Package realbase runs a real Koupleless base: a JVM with arklet and sofa-ark in
// it, which the simulated base and the controller are held against. make
// realbase builds it; make record and make e2e-realbase use it.
//
//	java/          the base and a module, as Maven projects
//	record/        the recorder of fakebase/testdata/real
package realbase
