package incluster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// followPause is between two looks for Pods whose log is not read yet.
const followPause = time.Second

// Follow writes what the controller's Pods log to w, each line whole, until ctx ends. The lines of more than one Pod begin with the
// Pod's name.
func (c *Controller) Follow(ctx context.Context, w io.Writer) {
	var mu sync.Mutex // one line at a time
	var readers sync.WaitGroup
	defer readers.Wait()
	known := map[string]bool{}
	for {
		pods, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		for i := 0; err == nil && i < len(pods.Items); i++ { // an API that is away may come back
			p := &pods.Items[i]
			for _, status := range p.Status.ContainerStatuses {
				run := fmt.Sprintf("%s/%d", p.UID, status.RestartCount)
				if status.State.Running == nil || known[run] {
					continue
				}
				known[run] = true
				prefix := ""
				if c.o.Replicas > 1 {
					prefix = p.Name + " "
				}
				readers.Go(func() { c.read(ctx, p.Name, prefix, &mu, w) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(followPause):
		}
	}
}

func (c *Controller) read(ctx context.Context, pod, prefix string, mu *sync.Mutex, w io.Writer) {
	stream, err := c.client.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return // the Pod may have gone
	}
	defer func() { _ = stream.Close() }() // only read
	for lines := bufio.NewReader(stream); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			mu.Lock()
			_, writeErr := fmt.Fprintln(w, prefix+strings.TrimSuffix(line, "\n"))
			mu.Unlock()
			if writeErr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
