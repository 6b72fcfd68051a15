// Package daemon is the process of a sandbox: it runs the broker and the bases, supervises the other processes, and
// serves the control API. It waits for a first up, and ends after down, on a signal, or when the first up fails or its
// command disconnects. Then it undoes what has begun, in reverse order.
package daemon
