package board

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/user"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/board/internal/access"
	"github.com/koupleless/koupsandbox/sandbox/board/internal/feed"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

//go:generate go run ./internal/bundle

const (
	// messageEvery is the least time between two messages.
	messageEvery = 100 * time.Millisecond
	// restEvery is how often it is looked at what time alone may change.
	restEvery = time.Second
	// keepFor is how long the past is kept, keepBytes how much of it, compressed.
	keepFor, keepBytes = time.Hour, 64 << 20
	// endTime is how long answers may take that go on when the board ends.
	endTime = 2 * time.Second
)

// Options of a Board. It looks at one thing: at a sandbox (Sandbox, with its API), at a cluster (API
// alone), or at a run (Run).
type Options struct {
	// Sandbox that is looked at. Default: none.
	Sandbox *sandbox.Sandbox
	// API of the sandbox or the cluster. Default: none, of a run.
	API kubernetes.Interface
	// Run that is shown. Default: none.
	Run *scenario.Run
	// Title is the name of the sandbox or the context. Default: that of the sandbox or the scenario.
	Title string
	// Flags are words that tell kubectl and koupsandbox which cluster or sandbox is meant, for the
	// commands that the page shows: such as --context prod. Default: none.
	Flags []string
	// Scenarios are the files of scenarios that the page may run. Default: none.
	Scenarios []string
	// AllowActions lets the page act on a cluster. Of a sandbox it always may.
	AllowActions bool
	// Listener that the page is served at. Start closes it. Required.
	Listener net.Listener
	// Hosts by which the page may be called beside this machine's own names. Default: none.
	Hosts []string
	// Reviews has users log in with their own bearer tokens, of which API decides. Default: there is
	// one user, who opens the URL that Opened is called with.
	Reviews bool
	// Opened is called with a URL that begins one session, first before New returns, and again when
	// the one before was used. Required without Reviews.
	Opened func(url string)
	// Logger for what goes wrong, and for what users do. Default: nothing is logged.
	Logger *slog.Logger
}

// Board serves the page. Make it with New.
type Board struct {
	o      Options
	epoch  string
	daemon daemon // of the sandbox; nil if there is none
	world  *world
	feed   *feed.Feed
	guard  *access.Guard
	acts   *actions
}

// New returns a Board that looks at nothing yet.
func New(o Options) (*Board, error) {
	if o.Sandbox == nil {
		return newBoard(o, nil)
	}
	o.Title = o.Sandbox.Name
	return newBoard(o, o.Sandbox.Client)
}

func newBoard(o Options, d daemon) (*Board, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Board{o: o, epoch: rand.Text(), daemon: d}
	row := BoardRow{Source: SourceCluster, Title: o.Title, Since: millis(b.now()), CanWhy: o.API != nil}
	keep := feed.Options{Epoch: b.epoch, KeepFor: keepFor, KeepBytes: keepBytes}
	switch {
	case o.Run != nil:
		row = boardOf(o.Run)
		keep.KeepFor, keep.KeepBytes = 0, 0 // it is all there already
	case d != nil:
		row.Source = SourceSandbox
	case o.API == nil:
		return nil, errors.New("a board needs something to look at: a sandbox, a cluster or a run")
	}
	b.acts = newActions(b)
	row.Actions = b.acts.offered()
	b.world, b.feed = newWorld(row), feed.New(keep)
	b.world.alone = d == nil && o.Run == nil
	return b, b.admit()
}

func (b *Board) now() time.Time { return time.Now() }

func (b *Board) admit() error {
	address, ok := b.o.Listener.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("a board cannot be served at %s", b.o.Listener.Addr())
	}
	o := access.Options{Port: address.Port, Hosts: b.o.Hosts}
	if b.o.Reviews {
		o.Tokens = access.NewReviews(b.o.API, clock.RealClock{})
	} else {
		name := "someone"
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
		o.Tokens = access.NewOnce(name,
			func(token string) { b.o.Opened(fmt.Sprintf("http://%s/#token=%s", address, token)) })
	}
	b.guard = access.New(o)
	return nil
}

// Start looks and serves until ctx ends, and returns nil then.
func (b *Board) Start(ctx context.Context) error {
	if b.o.Run != nil {
		if err := replay(b.o.Run, b.world, b.feed); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b.acts.ctx = ctx
	var looking sync.WaitGroup
	defer looking.Wait()
	defer stop()
	b.look(ctx, &looking)
	server := &http.Server{Handler: b.handler(), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(b.o.Listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving the board: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		_ = server.Close() // they had their time
	}
	b.acts.wait()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the board: %w", err)
	}
	return nil
}

// look starts the sources of the world, and its publication.
func (b *Board) look(ctx context.Context, looking *sync.WaitGroup) {
	if b.o.Run != nil {
		return
	}
	known := make(chan struct{})
	if b.daemon == nil {
		close(known)
	} else {
		s := &daemonSource{world: b.world, daemon: b.daemon, now: b.now, known: known}
		looking.Go(func() { s.run(ctx) })
	}
	if b.o.API != nil {
		f := &follower{world: b.world, client: b.o.API, now: b.now}
		looking.Go(func() { f.follow(ctx, known) })
	}
	looking.Go(func() { b.publish(ctx) })
}

// publish sends changes, at most one message per messageEvery.
func (b *Board) publish(ctx context.Context) {
	rest := time.NewTicker(restEvery)
	defer rest.Stop()
	for {
		select {
		case <-b.world.changed:
		case <-rest.C:
		case <-ctx.Done():
			return
		}
		now, u := b.world.flush(b.now())
		if err := b.feed.Put(now, u); err != nil {
			b.o.Logger.Error("a change is not shown", "err", err)
		}
		wait(ctx, messageEvery)
	}
}
