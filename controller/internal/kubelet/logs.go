package kubelet

import (
	"context"
	"fmt"
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

// noLines reports whether a log request has tailLines=0.
func noLines(ctx context.Context) bool {
	r, _ := ctx.Value(logRequestKey{}).(logRequest)
	return r.noLines
}

// sendHeaders sends the headers of the response to a log request.
func sendHeaders(ctx context.Context) {
	if r, found := ctx.Value(logRequestKey{}).(logRequest); found {
		r.sendHeaders()
	}
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

// logs implements api.ContainerLogsHandlerFunc. If the base runs in a Pod in the namespace of the module Pod, it
// returns the log of that Pod. Otherwise, it returns the log of the module, with the lines of the base in BaseLogFile.
func (s *Server) logs(ctx context.Context, namespace, pod, container string, opts api.ContainerLogOpts) (io.ReadCloser,
	error) {
	t, err := s.find(namespace, pod, container)
	if err != nil {
		return nil, err
	}
	note := ""
	log, err := s.basePodLog(ctx, t, opts)
	switch {
	case log != nil:
		return log, nil
	case opts.Previous && err != nil:
		return nil, errdefs.AsInvalidInput(err)
	case opts.Previous:
		return nil, errdefs.InvalidInput(
			"--previous is not supported for modules, because their logs continue after restarts; it requires a base " +
				"in a Pod in the same namespace")
	case err != nil:
		note = fmt.Sprintf("# %v; these are the commands and states of the module\n", err)
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
	ofBase, offset := s.baseLines(t, 0)
	entries = append(entries, ofBase...)
	sortByTime(entries)
	entries = slices.DeleteFunc(entries, func(e LogEntry) bool { return e.At.Before(since) })
	text := render(entries, t.biz, opts.Timestamps)
	if noLines(ctx) {
		text = ""
	} else if opts.Tail > 0 {
		text = tail(text, opts.Tail)
	}
	text = note + text
	from := io.NopCloser(strings.NewReader(text))
	if opts.Follow {
		sendHeaders(ctx)
		reader, writer := io.Pipe()
		// The goroutine ends with the request.
		go func() { _ = writer.CloseWithError(s.follow(ctx, writer, t, text, opts.Timestamps, last, offset)) }()
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

// exists reports whether the Pod of a target still exists, and this controller serves its base.
func (s *Server) exists(t target) bool {
	pod, _, err := s.opts.Pods.Pod(t.pod.Namespace, t.pod.Name)
	return err == nil && pod.UID == t.pod.UID
}

// baseLines returns the lines that the base of a Pod has written to BaseLogFile from an offset on, since this
// controller first saw the Pod. next is the offset of the next line.
func (s *Server) baseLines(t target, offset int64) (entries []LogEntry, next int64) {
	entries, next, err := readBaseLog(s.opts.BaseLogFile, t.identity, offset)
	if err != nil {
		s.opts.Logger.Warn("could not read the log of bases", "err", err)
	}
	return slices.DeleteFunc(entries, func(e LogEntry) bool { return e.At.Before(t.share.from) }), next
}

// follow writes text, and then new entries as they are added. last and offset are the positions of the next entries in
// the EventLog and in BaseLogFile. It blocks until ctx is done, the reader is closed, or the Pod is deleted.
func (s *Server) follow(ctx context.Context, w io.Writer, t target, text string, timestamps bool, last uint64,
	offset int64) error {
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
		if !s.exists(t) {
			return nil
		}
		var entries, ofBase []LogEntry
		entries, last = s.opts.EventLog.entriesAfter(moduleKey{t.identity, t.biz}, last, t.share)
		ofBase, offset = s.baseLines(t, offset)
		entries = append(entries, ofBase...)
		sortByTime(entries)
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
