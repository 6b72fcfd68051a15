package kubelet

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/workload"
)

// logRequest is what a request for logs holds beside api.ContainerLogOpts.
type logRequest struct {
	// noLines is tailLines=0, which the options can't tell from no limit: kubectl logs -f --tail 0
	// wants what comes, and nothing of before.
	noLines bool
	// begin sends the headers, so that who follows a module to which nothing happens knows that it
	// is followed.
	begin func()
}

type logRequestKey struct{}

// withLogRequest hands what virtual-kubelet leaves out on to logs.
func withLogRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := logRequest{
			noLines: r.URL.Query().Get("tailLines") == "0",
			begin:   func() { _ = http.NewResponseController(w).Flush() }, // the first write fails too
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), logRequestKey{}, a)))
	})
}

// target is what a request is about.
type target struct {
	pod      *corev1.Pod
	identity string
	biz      string // the container's name
	share    share
}

// find looks up a container of a Pod. The error is NotFound as virtual-kubelet knows it; for one of
// kubectl debug it is InvalidInput, whose text reaches kubectl.
func (s *Server) find(namespace, pod, container string) (target, error) {
	p, identity, err := s.opts.Pods.Pod(namespace, pod)
	if err != nil {
		return target{}, errdefs.AsNotFound(err)
	}
	is := func(c corev1.Container) bool { return c.Name == container }
	modules, others := workload.Modules(p.Spec)
	switch {
	case slices.ContainsFunc(modules, is):
		from, versions := s.opts.Pods.Asked(p, container)
		return target{p, identity, container, share{from, versions}}, nil
	case slices.ContainsFunc(others, is), slices.ContainsFunc(p.Spec.InitContainers, is):
		return target{}, errdefs.InvalidInputf("container %s is ignored: it is not a module, and a base runs only modules", container)
	case slices.ContainsFunc(p.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == container }):
		return target{}, errdefs.InvalidInput(noDebug)
	}
	return target{}, errdefs.NotFoundf("pod %s/%s has no container %q", namespace, pod, container)
}

// logs implements api.ContainerLogsHandlerFunc.
func (s *Server) logs(ctx context.Context, namespace, pod, container string, opts api.ContainerLogOpts) (io.ReadCloser, error) {
	if opts.Previous {
		return nil, errdefs.InvalidInput("a module has no previous container: its logs go on over restarts")
	}
	t, err := s.find(namespace, pod, container)
	if err != nil {
		return nil, err
	}
	since := opts.SinceTime
	if opts.SinceSeconds > 0 {
		since = time.Now().Add(-time.Duration(opts.SinceSeconds) * time.Second)
	}
	at := moduleKey{t.identity, t.biz}
	entries, last, next := s.opts.Journal.since(at, 0, t.share)
	if len(entries) == 0 {
		entries = s.opts.Journal.present(at, t.share)
	}
	inOrder(entries)
	text := render(nil, after(entries, since), t.biz, opts.Timestamps)
	a, _ := ctx.Value(logRequestKey{}).(logRequest)
	if a.noLines {
		text = nil
	} else if opts.Tail > 0 {
		text = tail(text, opts.Tail)
	}
	var from io.ReadCloser
	if opts.Follow {
		if a.begin != nil {
			a.begin()
		}
		reader, writer := io.Pipe()
		go func() { _ = writer.CloseWithError(s.follow(ctx, writer, t, text, opts.Timestamps, last, next)) }() // ends with the request
		from = reader
	} else {
		s.opts.Journal.stopWaiting(at)
		from = io.NopCloser(bytes.NewReader(text))
	}
	if opts.LimitBytes > 0 {
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(from, int64(opts.LimitBytes)), from}, nil
	}
	return from, nil
}

// stillThere is how often it is looked whether a Pod whose logs are followed is there.
const stillThere = 2 * time.Second

// follow writes what there is and then what comes, until ctx ends, the reader is closed or the Pod
// is gone.
func (s *Server) follow(ctx context.Context, w io.Writer, t target, text []byte, timestamps bool, last uint64, next <-chan struct{}) error {
	at := moduleKey{t.identity, t.biz}
	defer s.opts.Journal.stopWaiting(at)
	look := time.NewTicker(stillThere)
	defer look.Stop()
	for {
		if len(text) > 0 {
			if _, err := w.Write(text); err != nil {
				return err
			}
			text = text[:0]
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			if pod, _, err := s.opts.Pods.Pod(t.pod.Namespace, t.pod.Name); err != nil || pod.UID != t.pod.UID {
				return nil
			}
		case <-next:
			var entries []Entry
			entries, last, next = s.opts.Journal.since(at, last, t.share)
			text = render(text, entries, t.biz, timestamps)
		}
	}
}

func render(text []byte, entries []Entry, biz string, timestamps bool) []byte {
	for _, e := range entries {
		text = e.line(text, biz, timestamps)
	}
	return text
}

// tail returns the last n lines of a text that ends with a newline.
func tail(text []byte, n int) []byte {
	start := len(text)
	for ; n > 0 && start > 0; n-- {
		start = bytes.LastIndexByte(text[:start-1], '\n') + 1
	}
	return text[start:]
}
