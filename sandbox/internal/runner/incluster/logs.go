package incluster

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// logRetry is how long to wait before an interrupted log stream is read again.
const logRetry = time.Second

// logCopier copies the logs of the current container and the previous container of each Pod.
type logCopier struct {
	c     *Runner
	known map[string]bool // IDs of containers whose log has been or is being copied
	write sync.Mutex      // held while a line is written
}

// follow starts copying the logs of containers whose logs are not being copied yet, until ctx ends. It does not
// block.
func (l *logCopier) follow(ctx context.Context, readers *sync.WaitGroup) {
	l.c.mu.Lock()
	pods := podsOf(l.c.pods)
	l.c.mu.Unlock()
	for _, p := range pods {
		s := statusOf(p)
		if last := s.LastTerminationState.Terminated; last != nil && !l.known[last.ContainerID] {
			l.known[last.ContainerID] = true
			readers.Go(func() { l.read(ctx, p.Name, last.ContainerID, true) })
		}
		if s.ContainerID != "" && s.State.Waiting == nil && !l.known[s.ContainerID] {
			l.known[s.ContainerID] = true
			readers.Go(func() { l.read(ctx, p.Name, s.ContainerID, false) })
		}
	}
}

// read copies the log of a container from beginning to end. It retries while the API server is unavailable, and
// blocks until the container or ctx has ended.
func (l *logCopier) read(ctx context.Context, pod, container string, previous bool) {
	var last time.Time // timestamp of the last copied line
	for {
		l.stream(ctx, pod, previous, &last)
		select {
		case <-ctx.Done():
			return
		case <-time.After(logRetry): // gives the watch time to report the end of the container
		}
		if previous || !l.runs(pod, container) {
			return
		}
	}
}

// runs reports whether a container is running, as last reported by the Pod watch.
func (l *logCopier) runs(pod, container string) bool {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	for _, p := range podsOf(l.c.pods) {
		if s := statusOf(p); p.Name == pod && s.ContainerID == container {
			return s.State.Running != nil
		}
	}
	return false
}

// stream copies the log lines with timestamps after last. It blocks until the log or the connection ends, and sets
// last to the timestamp of the last copied line.
func (l *logCopier) stream(ctx context.Context, pod string, previous bool, last *time.Time) {
	o := &corev1.PodLogOptions{Follow: !previous, Previous: previous, Timestamps: true}
	since := *last
	if !since.IsZero() {
		o.SinceTime = &metav1.Time{Time: since} // has a resolution of seconds
	}
	stream, err := l.c.client.CoreV1().Pods(namespace).GetLogs(pod, o).Stream(ctx)
	if err != nil {
		return // the Pod may have been deleted
	}
	defer func() { _ = stream.Close() }() // opened for reading
	for lines := bufio.NewReader(stream); ; {
		line, err := lines.ReadString('\n')
		stamp, text, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if at, badTime := time.Parse(time.RFC3339Nano, stamp); found && badTime == nil && at.After(since) {
			*last = at
			l.write.Lock()
			_, _ = fmt.Fprintf(l.c.log, "%s %s\n", pod, text) // a failed write loses only log lines
			l.write.Unlock()
		}
		if err != nil {
			return
		}
	}
}
