package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/internal/version"
)

// Serve runs an agent, which runs the streams that the Remote at the other end of conn starts. It blocks until conn
// closes, ctx ends, or no message has arrived for timeout (0 means no timeout), and all streams have ended.
func Serve(ctx context.Context, conn net.Conn, timeout time.Duration) error {
	var lostQueue rpc.Queue[traffic.LostRequest] // unlimited, since a stream reports at most traffic.MaxLost
	generator := traffic.NewGenerator(traffic.GeneratorOptions{Lost: func(l traffic.LostRequest) { lostQueue.Put(l) }})
	ctx, cancel := context.WithCancel(ctx)
	var err error
	var running sync.WaitGroup
	running.Go(func() { err = generator.Start(ctx) })
	stdio.Serve(ctx, conn, handler(generator, &lostQueue), timeout)
	cancel()
	running.Wait()
	return err
}

func handler(g *traffic.Generator, lostQueue *rpc.Queue[traffic.LostRequest]) http.Handler {
	mux := http.NewServeMux()
	startStream.Handle(mux, func(ctx context.Context, r startStreamRequest) (rpc.Empty, error) {
		if !r.Spec.Inside {
			if r.Spec.Address == "" {
				return rpc.Empty{},
					errors.New("the traffic agent sends only to addresses of Services, or to bases in the cluster")
			}
			return rpc.Empty{}, g.StartStream(ctx, r.Group, r.Spec)
		}
		return rpc.Empty{}, g.StartStreamWith(ctx, r.Group, r.Spec, &r.TargetSet)
	})
	rpc.HandleClock(mux)
	getVersion.Handle(mux, func(context.Context, rpc.Empty) (string, error) { return version.String(), nil })
	setTargets.Handle(mux, func(_ context.Context, r setTargetsRequest) (rpc.Empty, error) {
		g.SetTargets(r.Group, r.Name, r.TargetSet)
		return rpc.Empty{}, nil
	})
	summaries.Handle(mux, func(_ context.Context, group string) ([]traffic.Summary, error) {
		return g.Summaries(group),
			nil
	})
	stop.Handle(mux, func(ctx context.Context, r streamRequest) (rpc.OrderedAnswer[*traffic.StreamResult], error) {
		end, err := g.Stop(ctx, r.Group, r.Name)
		return rpc.OrderedAnswer[*traffic.StreamResult]{Answer: end, Count: lostQueue.Count()}, err
	})
	drop.Handle(mux, func(_ context.Context, group string) (rpc.OrderedAnswer[rpc.Empty], error) {
		g.Drop(group)
		return rpc.OrderedAnswer[rpc.Empty]{Count: lostQueue.Count()}, nil
	})
	records.Handle(mux, func(ctx context.Context, r streamRequest, send func(traffic.Record)) error {
		all, err := g.Records(r.Group, r.Name)
		if err != nil {
			return err
		}
		for record := range all {
			if ctx.Err() != nil {
				break // the caller has disconnected
			}
			send(record)
		}
		return nil
	})
	lost.Handle(mux, func(ctx context.Context, _ rpc.Empty, send func(traffic.LostRequest)) error {
		return lostQueue.Read(ctx, send)
	})
	return mux
}
