package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/koupleless/koupsandbox/e2e/realbase"
	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// phase is a time in the life of a base, and what it is asked at the end of it.
type phase struct {
	event   recording.Event
	seconds int
	steps   []step
}

// world is a base with a broker and a controller of its own, that come and go.
type world struct {
	places  *places
	tunnel  recording.Tunnel
	broker  *broker
	control *controller
	tap     *recording.Tap

	base *realbase.Base // nil = no process runs
	kill func() error   // ends it, and waits for that
	due  time.Time      // when the phase ends
}

// recordWorld lives through the phases of one condition.
func recordWorld(ctx context.Context, p *places, c condition, tunnel recording.Tunnel) (phases []recording.Phase, err error) {
	w := &world{places: p, tunnel: tunnel, due: time.Now()}
	if tunnel == recording.MQTT {
		if w.broker, err = openBroker(); err != nil {
			return nil, err
		}
		defer w.broker.close()
		w.tap = w.broker.tap
	} else {
		if w.control, err = openController(); err != nil {
			return nil, err
		}
		defer w.control.stop()
		w.tap = w.control.Tap
	}
	defer func() {
		if w.kill != nil {
			err = errors.Join(err, w.kill())
		}
	}()
	for _, ph := range c.phases {
		sent, err := w.live(ctx, ph)
		if err != nil {
			return nil, fmt.Errorf("phase %s: %w", ph.event, err)
		}
		played := recording.Phase{Event: ph.event, Seconds: ph.seconds, Sent: sent}
		if len(ph.steps) > 0 {
			pl := player{places: p, base: w.base, broker: w.broker, tunnel: tunnel}
			if played.Exchanges, err = pl.play(ctx, ph.steps); err != nil {
				return nil, fmt.Errorf("phase %s: %w", ph.event, err)
			}
		}
		phases = append(phases, played)
	}
	return phases, nil
}

// live lets one phase pass. Phases follow the base's own clock, which begins with the
// first thing that it sends: how long requests took does not move their ends.
func (w *world) live(ctx context.Context, ph phase) ([]recording.Sent, error) {
	first := w.tap.Expect()
	if err := w.happen(ctx, ph.event); err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if ph.event == recording.Start {
		if w.listens() {
			select {
			case <-first:
			case <-starting.Done():
				return nil, fmt.Errorf("waiting for the base to say something: %w", starting.Err())
			}
		}
		w.due = time.Now()
	}
	w.due = w.due.Add(time.Duration(ph.seconds) * time.Second)
	select {
	case <-time.After(time.Until(w.due)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	sent := w.tap.Take()
	if ph.event == recording.Start {
		return sent, w.base.WaitReady(starting)
	}
	return sent, nil
}

// listens tells whether somebody hears the base.
func (w *world) listens() bool {
	if w.tunnel == recording.MQTT {
		return w.broker.listening()
	}
	return w.control.server != nil
}

func (w *world) happen(ctx context.Context, event recording.Event) error {
	switch event {
	case recording.Start:
		return w.start(ctx)
	case recording.Kill:
		kill := w.kill
		w.kill = nil
		return kill()
	case recording.BrokerStops:
		w.broker.stop()
	case recording.BrokerReturns:
		return w.broker.listen()
	case recording.ConnectionBreaks:
		w.broker.cut()
	case recording.ControllerStops:
		w.control.stop()
	case recording.ControllerHangs, recording.ControllerFails:
		w.control.Set(event)
	case recording.ControllerReturns:
		w.control.Set(event)
		return w.control.listen()
	}
	return nil
}

func (w *world) start(ctx context.Context) error {
	o := options()
	if w.tunnel == recording.MQTT {
		o.Broker = w.broker.addr
	} else {
		o.Controller = "http://" + w.control.addr
	}
	base, kill, err := begin(ctx, o)
	if err == nil {
		w.base, w.kill = base, kill
	}
	return err
}

// begin starts a base, without waiting for it, and returns what kills it.
func begin(ctx context.Context, o realbase.Options) (base *realbase.Base, kill func() error, err error) {
	if base, err = realbase.New(o); err != nil {
		return nil, nil, err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- base.Start(running) }()
	return base, func() error {
		stop()
		return <-done
	}, nil
}

// controller takes heartbeats over HTTP, at one address.
type controller struct {
	*recording.Controller
	addr   string
	server *http.Server  // nil = nobody listens
	done   chan struct{} // closed when server has ended
}

func openController() (*controller, error) {
	c := &controller{Controller: &recording.Controller{Tap: &recording.Tap{}}, addr: "127.0.0.1:0"}
	return c, c.listen()
}

// listen opens the port, unless it is open: the first time any, then the same.
func (c *controller) listen() error {
	if c.server != nil {
		return nil
	}
	l, err := net.Listen("tcp", c.addr)
	if err != nil {
		return fmt.Errorf("listening for heartbeats: %w", err)
	}
	server, done := &http.Server{Handler: c.Controller}, make(chan struct{})
	c.addr, c.server, c.done = l.Addr().String(), server, done
	go func() {
		defer close(done)
		_ = server.Serve(l) // it ends with the listener
	}()
	return nil
}

// stop breaks all connections, and listens no more.
func (c *controller) stop() {
	if c.server != nil {
		_ = c.server.Close() // what counts is that nobody listens
		<-c.done
		c.server = nil
	}
}
