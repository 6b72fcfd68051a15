// Package realbase runs a real Koupleless base, which is a JVM with arklet and sofa-ark. The tests compare the
// simulated base with it, and run the controller with it. make realbase builds the base; make record and make
// e2e-realbase use it.
//
//	java/          Maven projects of the base and of a module
//	record/        the recorder of fakebase/testdata/real
package realbase
