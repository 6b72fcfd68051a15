package kubelet

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/workload"
)

// logRequest contains the data of a log request that api.ContainerLogOpts does not contain.
type logRequest struct {
	// noLines is true if the request has tailLines=0, as with kubectl logs -f --tail 0. In ContainerLogOpts, 0 means
	// no limit.
	noLines bool
	// sendHeaders sends the response headers before the first entry.
	sendHeaders func()
}

type logRequestKey struct{}

// withLogRequest adds a logRequest to the request context.
func withLogRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := logRequest{
			noLines:     r.URL.Query().Get("tailLines") == "0",
			sendHeaders: func() { _ = http.NewResponseController(w).Flush() }, // if it fails, the first write fails too
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), logRequestKey{}, a)))
	})
}

// target is the container of a Pod for which logs or exec were requested.
type target struct {
	pod      *corev1.Pod
	identity string
	biz      string // module name, which is the container name
	share    podEntries
}

// find returns the target for a container of a Pod. The error is NotFound or InvalidInput of package errdefs. kubectl
// shows the text of an InvalidInput error.
func (s *Server) find(namespace, pod, container string) (target, error) {
	p, identity, err := s.opts.Pods.Pod(namespace, pod)
	if err != nil {
		return target{}, errdefs.AsNotFound(err)
	}
	is := func(c corev1.Container) bool { return c.Name == container }
	modules, others := workload.Modules(p.Spec)
	switch {
	case slices.ContainsFunc(modules, is):
		from, versions := s.opts.Pods.RequestedVersions(p, container)
		return target{p, identity, container, podEntries{from, versions}}, nil
	case slices.ContainsFunc(others, is), slices.ContainsFunc(p.Spec.InitContainers, is):
		return target{}, errdefs.InvalidInputf(
			"container %s is ignored, because it is not a module and a base runs only modules", container)
	case slices.ContainsFunc(p.Spec.EphemeralContainers,
		func(c corev1.EphemeralContainer) bool { return c.Name == container }):
		return target{}, errdefs.InvalidInput(noDebug)
	}
	return target{}, errdefs.NotFoundf("pod %s/%s has no container %q", namespace, pod, container)
}

// logs implements api.ContainerLogsHandlerFunc.
func (s *Server) logs(ctx context.Context, namespace, pod, container string, opts api.ContainerLogOpts) (io.ReadCloser,
	error) {
	if opts.Previous {
		return nil, errdefs.InvalidInput(
			"--previous is not supported for modules, because their logs continue after restarts")
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
	entries, last := s.opts.EventLog.entriesAfter(at, 0, t.share)
	if len(entries) == 0 {
		entries = s.opts.EventLog.currentEntries(at, t.share)
	}
	sortByTime(entries)
	entries = slices.DeleteFunc(entries, func(e LogEntry) bool { return e.At.Before(since) })
	text := render(entries, t.biz, opts.Timestamps)
	a, _ := ctx.Value(logRequestKey{}).(logRequest)
	if a.noLines {
		text = ""
	} else if opts.Tail > 0 {
		text = tail(text, opts.Tail)
	}
	from := io.NopCloser(strings.NewReader(text))
	if opts.Follow {
		if a.sendHeaders != nil {
			a.sendHeaders()
		}
		reader, writer := io.Pipe()
		// The goroutine ends with the request.
		go func() { _ = writer.CloseWithError(s.follow(ctx, writer, t, text, opts.Timestamps, last)) }()
		from = reader
	}
	if opts.LimitBytes > 0 {
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(from, int64(opts.LimitBytes)), from}, nil
	}
	return from, nil
}

// followInterval is the time between two reads of the EventLog while logs are followed.
const followInterval = 200 * time.Millisecond

// follow writes text, and then new entries as they are added. It blocks until ctx is done, the reader is closed, or
// the Pod is deleted.
func (s *Server) follow(ctx context.Context, w io.Writer, t target, text string, timestamps bool, last uint64) error {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		if text != "" {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if pod, _, err := s.opts.Pods.Pod(t.pod.Namespace, t.pod.Name); err != nil || pod.UID != t.pod.UID {
			return nil
		}
		var entries []LogEntry
		entries, last = s.opts.EventLog.entriesAfter(moduleKey{t.identity, t.biz}, last, t.share)
		text = render(entries, t.biz, timestamps)
	}
}

func render(entries []LogEntry, biz string, timestamps bool) string {
	var text strings.Builder
	for _, e := range entries {
		text.WriteString(e.line(biz, timestamps))
	}
	return text.String()
}

// tail returns the last n lines of a text that ends with a line feed.
func tail(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-1-n):], "")
}
