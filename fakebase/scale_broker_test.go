package fakebase

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/packets"
)

// cpuTime is what the process has used, user and system.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFleetOnABroker runs b.N bases on a real broker in this process and
// prints what both sides cost together, and what a heartbeat costs from base
// through broker to a subscriber.
func BenchmarkFleetOnABroker(b *testing.B) {
	// The broker's default queue of 8,192 messages takes 64 KB a client, more
	// than everything else together.
	limits := broker.NewDefaultServerCapabilities()
	limits.MaximumClientWritesPending = 1024
	s := broker.New(&broker.Options{InlineClient: true, Capabilities: limits, Logger: slog.New(slog.DiscardHandler)})
	if err := s.AddHook(new(auth.AllowHook), nil); err != nil {
		b.Fatal(err)
	}
	var beats atomic.Int64
	seen := make(chan struct{}, 1)
	if err := s.Subscribe("koupleless_dev/+/base/heart", 1, func(*broker.Client, packets.Subscription, packets.Packet) {
		if beats.Add(1)%int64(b.N) == 0 {
			select {
			case seen <- struct{}{}:
			default:
			}
		}
	}); err != nil {
		b.Fatal(err)
	}
	if err := s.Serve(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()

	before, goroutines := usage()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	catalogue := &Catalogue{}
	b.ResetTimer()
	for i := range b.N {
		base, err := New(Options{
			Identity: fmt.Sprintf("base-%d", i), Catalogue: catalogue, HeartbeatInterval: time.Second, HeartbeatJitter: time.Second,
			MQTT: &MQTTOptions{Dial: func(context.Context) (net.Conn, error) {
				near, far := net.Pipe()
				go func() { _ = s.EstablishConnection("memory", far) }()
				return near, nil
			}},
		})
		if err != nil {
			b.Fatal(err)
		}
		running.Go(func() {
			if err := base.Start(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	<-seen
	b.StopTimer()
	after, now := usage()
	b.ReportMetric(float64(after-before)/float64(b.N), "bytes/base+broker")
	b.ReportMetric(float64(now-goroutines)/float64(b.N), "goroutines/base+broker")

	first, begun := beats.Load(), cpuTime(b)
	for range 3 {
		<-seen
	}
	perBeat := (cpuTime(b) - begun) / time.Duration(beats.Load()-first)
	b.ReportMetric(float64(perBeat.Nanoseconds()), "cpu-ns/heartbeat")
	// A hundred idle bases beat ten times a second.
	b.ReportMetric(100*10*perBeat.Seconds(), "cpu-%/100bases")
	cancel()
	running.Wait()
}
