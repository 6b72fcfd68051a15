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

// Serve runs the streams of the Remote at the other end of conn, until conn or ctx ends, or nothing was received for
// longer than patience; 0 = unlimited. It returns when the streams have ended.
func Serve(ctx context.Context, conn net.Conn, patience time.Duration) error {
	var told rpc.Queue[traffic.LostRequest] // without a limit: a stream tells no more than traffic.MaxLost
	generator := traffic.NewGenerator(traffic.GeneratorOptions{Lost: func(l traffic.LostRequest) { told.Put(l) }})
	ctx, cancel := context.WithCancel(ctx)
	var err error
	var running sync.WaitGroup
	running.Go(func() { err = generator.Start(ctx) })
	stdio.Serve(ctx, conn, handler(generator, &told), patience)
	cancel()
	running.Wait()
	return err
}

func handler(g *traffic.Generator, told *rpc.Queue[traffic.LostRequest]) http.Handler {
	mux := http.NewServeMux()
	begin.Handle(mux, func(ctx context.Context, r beginRequest) (rpc.None, error) {
		if !r.Spec.Inside {
			if r.Spec.Address == "" {
				return rpc.None{},
					errors.New("the traffic agent sends to the addresses of Services, or to bases inside")
			}
			return rpc.None{}, g.StartStream(ctx, r.Group, r.Spec)
		}
		return rpc.None{}, g.StartStreamWith(ctx, r.Group, r.Spec, &r.TargetSet)
	})
	rpc.HandleClock(mux)
	of.Handle(mux, func(context.Context, rpc.None) (string, error) { return version.String(), nil })
	tell.Handle(mux, func(_ context.Context, r tellRequest) (rpc.None, error) {
		g.SetTargets(r.Group, r.Name, r.TargetSet)
		return rpc.None{}, nil
	})
	summaries.Handle(mux, func(_ context.Context, group string) ([]traffic.Summary, error) {
		return g.Summaries(group),
			nil
	})
	stop.Handle(mux, func(ctx context.Context, r streamRequest) (rpc.After[*traffic.StreamResult], error) {
		end, err := g.Stop(ctx, r.Group, r.Name)
		return rpc.After[*traffic.StreamResult]{Answer: end, Count: told.Count()}, err
	})
	drop.Handle(mux, func(_ context.Context, group string) (rpc.After[rpc.None], error) {
		g.Drop(group)
		return rpc.After[rpc.None]{Count: told.Count()}, nil
	})
	records.Handle(mux, func(ctx context.Context, r streamRequest, send func(traffic.Record)) error {
		all, err := g.Records(r.Group, r.Name)
		if err != nil {
			return err
		}
		for record := range all {
			if ctx.Err() != nil {
				break // nobody reads any more
			}
			send(record)
		}
		return nil
	})
	lost.Handle(mux, func(ctx context.Context, _ rpc.None, send func(traffic.LostRequest)) error {
		return told.Read(ctx, send)
	})
	return mux
}
