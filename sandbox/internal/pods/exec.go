package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/net/http2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/koupleless/koupsandbox/fakebase/stdio"
)

// idleTimeout is how long the binary in a Pod runs without messages from this process, which sends pings. After this
// time, the binary exits and its bases stop.
const idleTimeout = "20s"

var errEnded = errors.New("the process in the Pod has ended")

// execution is a process that was started in a Pod.
type execution struct {
	*http2.ClientConn
	cancel context.CancelFunc
	done   chan struct{}
	err    error // error with which the process ended; valid after done is closed
}

func (p *Pods) exec(ctx context.Context, pod string) (connection, error) {
	return p.execute(ctx, pod, p.o.Log, program, "--stdio", "--patience", idleTimeout)
}

// execute runs a command in a Pod and blocks until the process responds. The process continues to run after ctx ends,
// until Close is called.
func (p *Pods) execute(ctx context.Context, pod string, log io.Writer, command ...string) (connection, error) {
	request := p.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource(
		"exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: command, Stdin: true, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	sockets, err := remotecommand.NewWebSocketExecutor(p.o.Config, "GET", request.URL().String())
	if err != nil {
		return nil, fmt.Errorf("creating an exec client for Pod %s: %w", pod, err)
	}
	old, err := remotecommand.NewSPDYExecutor(p.o.Config, "POST", request.URL())
	if err != nil {
		return nil, fmt.Errorf("creating an exec client for Pod %s: %w", pod, err)
	}
	executor, err := remotecommand.NewFallbackExecutor(sockets, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, fmt.Errorf("creating an exec client for Pod %s: %w", pod, err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	e := &execution{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		err := executor.StreamWithContext(life,
			remotecommand.StreamOptions{Stdin: theirIn, Stdout: theirOut, Stderr: log})
		e.err = cmp.Or(err, errEnded)
		_, _ = theirIn.Close(), theirOut.Close() // ends the connection
	}()
	e.ClientConn, err = stdio.Dial(stdio.Join(out, in))
	if err == nil {
		err = e.Ping(ctx)
	}
	if err != nil {
		_ = e.Close()
		if !errors.Is(e.err, context.Canceled) {
			err = e.err // more specific
		}
		return nil, err
	}
	return e, nil
}

// Done returns a channel that is closed when the process has ended.
func (e *execution) Done() <-chan struct{} { return e.done }

// Err returns the reason why the process has ended. It must only be called after the channel of Done is closed.
func (e *execution) Err() error { return e.err }

// Close stops the process and blocks until the connection to it has ended.
func (e *execution) Close() error {
	if e.ClientConn != nil {
		_ = e.ClientConn.Close() // it may have ended already
	}
	e.cancel()
	<-e.done
	return nil
}
