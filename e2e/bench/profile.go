package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// profileTime is how much of a change a profile covers.
const profileTime = 5 * time.Second

// startProfile takes CPU profiles of the controller and the API server while
// something is done, when the user asks for it. The returned function waits for them.
func (s *stage) startProfile(ctx context.Context, doing string) func() error {
	if s.o.profile == "" {
		return func() error { return nil }
	}
	seconds := strconv.Itoa(int(profileTime.Seconds()))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		text, status, err := s.AskController(ctx, "metrics", "/debug/pprof/profile?seconds="+seconds)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("profiling the controller: it answers %d", status)
		}
		if err != nil {
			return err
		}
		return s.keepProfile(doing, controllerPart, []byte(text))
	})
	group.Go(func() error {
		text, err := s.client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", seconds).DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("profiling the API server: %w", err)
		}
		return s.keepProfile(doing, "kube-apiserver", text)
	})
	return group.Wait
}

// profileHeap keeps what this process holds, when the user asks for it.
func (b *bench) profileHeap() error {
	if b.o.profile == "" {
		return nil
	}
	runtime.GC()
	var text bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&text, 0); err != nil {
		return fmt.Errorf("profiling the heap: %w", err)
	}
	return b.keepProfile("heap", daemonPart, text.Bytes())
}

func (b *bench) keepProfile(doing, part string, text []byte) error {
	err := os.MkdirAll(b.o.profile, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.o.profile, b.scenario+"-"+doing+"-"+part+".pprof"), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping a profile: %w", err)
	}
	return nil
}
