package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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

func (s *stage) keepProfile(doing, part string, text []byte) error {
	err := os.MkdirAll(s.o.profile, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.o.profile, s.scenario+"-"+doing+"-"+part+".pprof"), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping a profile: %w", err)
	}
	return nil
}
