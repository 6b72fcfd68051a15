// Package daemon implements the process of a sandbox. It runs the broker and the bases, supervises the other processes,
// and serves the control API. The daemon waits for a first `up`. It ends after `down`, on a signal, or when the first
// `up` fails or its command disconnects. It then undoes what it has started, in reverse order.
package daemon
