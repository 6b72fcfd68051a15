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

// logRetry is before a log that has broken off is read again.
const logRetry = time.Second

// logCopier reads the log of every container that there is, or was before the one that there is.
type logCopier struct {
	c     *Runner
	known map[string]bool // by container
	write sync.Mutex      // one line at a time
}

// follow begins to read what is not read yet; the readers end with ctx.
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

// read copies the log of a container to its end, also when the API server is away for a while.
func (l *logCopier) read(ctx context.Context, pod, container string, previous bool) {
	var last time.Time // of the lines so far
	for {
		l.stream(ctx, pod, previous, &last)
		select {
		case <-ctx.Done():
			return
		case <-time.After(logRetry): // until the watch has told how the container is
		}
		if previous || !l.runs(pod, container) {
			return
		}
	}
}

// runs reports whether a container runs, as far as is known.
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

// stream copies lines after last, which becomes the time of the newest, until the log ends or
// breaks off.
func (l *logCopier) stream(ctx context.Context, pod string, previous bool, last *time.Time) {
	o := &corev1.PodLogOptions{Follow: !previous, Previous: previous, Timestamps: true}
	since := *last
	if !since.IsZero() {
		o.SinceTime = &metav1.Time{Time: since} // to the second
	}
	stream, err := l.c.client.CoreV1().Pods(namespace).GetLogs(pod, o).Stream(ctx)
	if err != nil {
		return // the Pod may have gone
	}
	defer func() { _ = stream.Close() }() // only read
	for lines := bufio.NewReader(stream); ; {
		line, err := lines.ReadString('\n')
		stamp, text, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if at, badTime := time.Parse(time.RFC3339Nano, stamp); found && badTime == nil && at.After(since) {
			*last = at
			l.write.Lock()
			_, _ = fmt.Fprintf(l.c.log, "%s %s\n", pod, text) // a log that cannot be written is as good as none
			l.write.Unlock()
		}
		if err != nil {
			return
		}
	}
}
