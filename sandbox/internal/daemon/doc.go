// Package daemon is the process behind a sandbox: it runs the broker and the bases itself, supervises
// everything else as processes of their own, and answers the control API.
//
// The life of a daemon: it listens, waits for a first up, and ends after down, on a signal, or when
// the first up fails or the command that asked for it goes away. Whatever ends it, it undoes the
// steps that have begun, backwards.
package daemon
