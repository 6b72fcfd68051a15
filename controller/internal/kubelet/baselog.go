package kubelet

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// defaultContainer is the container of a base without a BaseContainer label, as in ModuleController V2.
const defaultContainer = "base"

// basePod returns the Pod in which the base of a module Pod runs, or nil if there is none in the namespace of the
// module Pod. As in ModuleController V2, the name of the Pod is the host name of the base.
//
// A base reports its own host name and address, so basePod does not trust them. A user with access to the log of the
// module Pod can usually read all logs in its namespace. The Pod must have the address of the base, and must not be
// a module Pod, because the API server would send a request for its log to this server.
func (s *Server) basePod(ctx context.Context, t target) (*corev1.Pod, error) {
	b := s.opts.Bases.Info(t.identity)
	if len(validation.IsDNS1123Subdomain(b.HostName)) > 0 {
		return nil, nil
	}
	pod, err := s.opts.BasePods.Pods(t.pod.Namespace).Get(ctx, b.HostName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the Pod of base %s: %w", b.HostName, err)
	}
	ip := net.ParseIP(b.IP)
	hasIP := func(p corev1.PodIP) bool { return ip != nil && ip.Equal(net.ParseIP(p.IP)) }
	if workload.IsModule(pod.Labels) || !slices.ContainsFunc(pod.Status.PodIPs, hasIP) {
		return nil, nil
	}
	return pod, nil
}

// basePodLog returns the log of the Pod in which the base of a module Pod runs, or nil if there is no such Pod. A log
// that is followed ends with the module Pod.
func (s *Server) basePodLog(ctx context.Context, t target, opts api.ContainerLogOpts) (io.ReadCloser, error) {
	pod, err := s.basePod(ctx, t)
	if pod == nil {
		return nil, err
	}
	container := pod.Labels[labels.BaseContainer]
	if len(pod.Spec.Containers) == 1 {
		container = cmp.Or(container, pod.Spec.Containers[0].Name)
	}
	o := &corev1.PodLogOptions{Container: cmp.Or(container, defaultContainer),
		Follow: opts.Follow, Previous: opts.Previous, Timestamps: opts.Timestamps}
	if opts.Tail > 0 || noLines(ctx) {
		o.TailLines = ptr.To(int64(opts.Tail))
	}
	if opts.LimitBytes > 0 {
		o.LimitBytes = ptr.To(int64(opts.LimitBytes))
	}
	if opts.SinceSeconds > 0 {
		o.SinceSeconds = ptr.To(int64(opts.SinceSeconds))
	}
	if !opts.SinceTime.IsZero() {
		o.SinceTime = ptr.To(metav1.NewTime(opts.SinceTime))
	}
	ctx, cancel := context.WithCancel(ctx)
	log, err := s.opts.BasePods.Pods(pod.Namespace).GetLogs(pod.Name, o).Stream(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("reading the log of base Pod %s: %w", pod.Name, err)
	}
	if opts.Follow {
		sendHeaders(ctx)
		go func() { // ends with the request
			defer cancel()
			s.waitForEnd(ctx, t)
		}()
	}
	return &baseLog{log, ctx.Err, cancel}, nil
}

// baseLog is the log of a Pod. It ends when the context of its request is canceled, which Close does.
type baseLog struct {
	io.ReadCloser
	ended  func() error // context.Context.Err
	cancel context.CancelFunc
}

// Read implements io.Reader. An error after the end of the context is not part of the log.
func (l *baseLog) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err != nil && l.ended() != nil {
		err = io.EOF
	}
	return n, err
}

func (l *baseLog) Close() error {
	l.cancel()
	return l.ReadCloser.Close()
}

// waitForEnd blocks until the Pod of a target is deleted, or until ctx is done.
func (s *Server) waitForEnd(ctx context.Context, t target) {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for ctx.Err() == nil && s.exists(t) {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// readBaseLog returns the lines about a base in a log file of package slog, from an offset on. It returns at most
// maxEntries lines. next is the offset of the first line that is not complete yet. A file that does not exist has no
// lines.
func readBaseLog(path, identity string, offset int64) (entries []LogEntry, next int64, err error) {
	if path == "" {
		return nil, 0, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, offset, err
	}
	defer func() { _ = f.Close() }() // the file was only read
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, offset, err
	}
	attribute := " base=" + identity + " "
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return entries, offset, nil
		}
		if err != nil {
			return entries, offset, err
		}
		offset += int64(len(line))
		stamp, text, _ := strings.Cut(strings.TrimSuffix(line, "\n")+" ", " ")
		at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(stamp, "time="))
		if err != nil || !strings.Contains(text, attribute) {
			continue
		}
		if len(entries) == maxEntries {
			entries = entries[1:]
		}
		entries = append(entries, LogEntry{At: at, OfBase: true,
			Event: strings.TrimSpace(strings.Replace(text, attribute, " ", 1))})
	}
}
