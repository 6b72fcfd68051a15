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
	// messageInterval is the minimum interval between two messages to a browser.
	messageInterval = 100 * time.Millisecond
	// timeCheckInterval is the interval at which the board checks for changes that depend only on time.
	timeCheckInterval = time.Second
	// keepFor and keepBytes limit the age and the compressed size of the history.
	keepFor, keepBytes = time.Hour, 64 << 20
	// shutdownTimeout is how long the board waits for open responses to complete when it stops.
	shutdownTimeout = 2 * time.Second
)

// Options configures a Board. The board shows a sandbox (Sandbox, with its API), a cluster (only API), or a recorded
// scenario run (Run).
type Options struct {
	// Sandbox is the sandbox to show. Default: none.
	Sandbox *sandbox.Sandbox
	// API is a client for the Kubernetes API of the sandbox or the cluster. Required unless Run is set.
	API kubernetes.Interface
	// Run is the recorded scenario run to show. Default: none.
	Run *scenario.Run
	// Title is the title of the page, such as the name of the sandbox or the kubeconfig context. Default: the name of
	// the sandbox or the scenario.
	Title string
	// Flags are the flags that select the cluster or the sandbox in the commands that the page shows, for example
	// --context prod. Default: none.
	Flags []string
	// Scenarios lists the scenario files that the page can run. Default: none.
	Scenarios []string
	// AllowActions allows actions on a cluster. Actions on a sandbox are always allowed.
	AllowActions bool
	// Listener accepts the connections of the HTTP server. Start closes it. Required.
	Listener net.Listener
	// Hosts lists host names that browsers may use for the board, in addition to the names of this machine. Default:
	// none.
	Hosts []string
	// Reviews requires users to log in with their own bearer tokens, which the API validates with TokenReviews.
	// Default: a single user, who logs in with the URL that is passed to Opened.
	Reviews bool
	// Opened is called with a login URL that starts one session. It is called before New returns, and again after
	// each use of the previous URL. Required without Reviews.
	Opened func(url string)
	// Logger logs errors and the actions of users. Default: nothing is logged.
	Logger *slog.Logger
}

// Board is the server of the web UI. Create it with New.
type Board struct {
	o      Options
	epoch  string
	daemon daemon // client of the sandbox daemon; nil if there is none
	state  *boardState
	feed   *feed.Feed
	guard  *access.Guard
	acts   *actions
}

// New returns a Board. The board reads no data before Start is called.
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
		keep.KeepFor, keep.KeepBytes = 0, 0 // the history of a run is complete and has no limits
	case d != nil:
		row.Source = SourceSandbox
	case o.API == nil:
		return nil, errors.New("the web UI requires a sandbox, a cluster or a run")
	}
	b.acts = newActions(b)
	row.Actions = b.acts.available()
	b.state, b.feed = newBoardState(row), feed.New(keep)
	b.state.noDaemon = d == nil && o.Run == nil
	return b, b.admit()
}

func (b *Board) now() time.Time { return time.Now() }

func (b *Board) admit() error {
	address, ok := b.o.Listener.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("the web UI cannot listen on %s; use a TCP address", b.o.Listener.Addr())
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

// Start serves the web UI and blocks until ctx is done, then returns nil. It returns an error if the HTTP server or
// the replay of a recorded run fails.
func (b *Board) Start(ctx context.Context) error {
	if b.o.Run != nil {
		if err := replay(b.o.Run, b.state, b.feed); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b.acts.ctx = ctx
	var looking sync.WaitGroup
	defer looking.Wait()
	defer stop()
	b.startSources(ctx, &looking)
	server := &http.Server{Handler: b.handler(), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(b.o.Listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving the web UI: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		_ = server.Close() // the timeout of open responses is over
	}
	b.acts.wait()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the web UI: %w", err)
	}
	return nil
}

// startSources starts the sources that update the state of the board, and the goroutine that publishes the state.
func (b *Board) startSources(ctx context.Context, looking *sync.WaitGroup) {
	if b.o.Run != nil {
		return
	}
	known := make(chan struct{})
	if b.daemon == nil {
		close(known)
	} else {
		s := &daemonSource{state: b.state, daemon: b.daemon, now: b.now, known: known}
		looking.Go(func() { s.run(ctx) })
	}
	if b.o.API != nil {
		f := &follower{state: b.state, client: b.o.API, now: b.now}
		looking.Go(func() { f.follow(ctx, known) })
	}
	looking.Go(func() { b.publish(ctx) })
}

// publish sends state changes to browsers until ctx is done. It sends at most one message per messageInterval.
func (b *Board) publish(ctx context.Context) {
	rest := time.NewTicker(timeCheckInterval)
	defer rest.Stop()
	for {
		select {
		case <-b.state.changed:
		case <-rest.C:
		case <-ctx.Done():
			return
		}
		now, u := b.state.flush(b.now())
		if err := b.feed.Put(now, u); err != nil {
			b.o.Logger.Error("could not publish a change", "err", err)
		}
		wait(ctx, messageInterval)
	}
}
