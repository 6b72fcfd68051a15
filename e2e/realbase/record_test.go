package realbase

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

var record = flag.Bool("record", false, "write the answers of real bases into the recordings of fakebase")

// recordings is the directory of all recordings.
var recordings = filepath.Join("..", "..", "fakebase", "testdata", "real")

// versions contains the versions in java/pom.xml and the versions of its dependencies.
var versions = recording.Versions{Koupleless: "2.1.6", SofaArk: "3.1.7", SpringBoot: "3.2.12", Fastjson: "1.2.83",
	Java: "17"}

const (
	// startTime is how long to wait for a base to start on a busy machine.
	startTime = 3 * time.Minute
	// playTime is how long the requests of a recording may take.
	playTime = 10 * time.Minute
	silence  = 3 * time.Second
)

// TestRecord sends the requests of all recordings to real bases, and writes the responses into the recordings. To add
// a recording, write a file without responses, and mark the requests that get no response. The jars of a recording
// have the module identity in the recording; their other content is from the module that Maven built.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("run it with: make record")
	}
	names, all, err := recording.Load(recordings)
	must(t, err)
	shared := map[recording.Settings][]string{}
	for _, name := range names {
		r := all[name]
		switch {
		case r.Phases != nil:
			t.Run(name, func(t *testing.T) {
				t.Parallel() // most of the time, a base waits
				recordPhases(t, name, r)
			})
		case r.OwnBase:
			recordExchanges(t, r.Base, []string{name}, all)
		default:
			shared[r.Base] = append(shared[r.Base], name)
		}
	}
	for settings, names := range shared {
		recordExchanges(t, settings, names, all)
	}
}

// recordExchanges records the exchanges of the named recordings with one base.
func recordExchanges(t *testing.T, settings recording.Settings, names []string, all map[string]recording.Recording) {
	t.Run(fmt.Sprintf("%+v", settings), func(t *testing.T) {
		w := &environment{server: openBroker(t), tap: recording.NewTap()}
		must(t, w.server.AddHook(w.tap, nil))
		must(t, w.serveBroker())
		defer w.stop()
		o := recordedOptions()
		o.Settings, o.Broker = settings, w.addr
		if settings.Disk > 0 {
			o.Downloads = t.TempDir()
			if err := NoSmallDisk(t.Context(), o.Downloads); err != nil {
				t.Skip(err)
			}
		}
		must(t, w.startBase(t.Context(), o))
		defer func() { must(t, w.kill()) }()
		starting, cancel := context.WithTimeout(t.Context(), startTime)
		defer cancel()
		must(t, w.Ready(starting))
		select {
		case <-w.tap.Subscribed:
		case <-starting.Done():
			t.Fatal("the base does not connect to the broker")
		}
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				r := all[name]
				playing, cancel := context.WithTimeout(t.Context(), playTime)
				defer cancel()
				answered, err := newPlayer(t, &r, w).Play(playing, r.Exchanges)
				must(t, err)
				r.Exchanges = answered
				must(t, uninstallAll(playing, w.base))
				save(t, name, r)
			})
		}
	})
}

// recordPhases records the phases of a recording with a base that has its own broker or controller.
func recordPhases(t *testing.T, name string, r recording.Recording) {
	w := &environment{tap: recording.NewTap()}
	if r.Tunnel == recording.MQTT {
		w.server = openBroker(t)
		must(t, w.server.AddHook(w.tap, nil))
		must(t, w.serveBroker())
	} else {
		w.control.Tap = w.tap
		must(t, w.serveController())
	}
	defer w.stop()
	defer func() {
		if w.kill != nil {
			must(t, w.kill())
		}
	}()
	var err error
	r.Phases, err = newPlayer(t, &r, w).PlayPhases(t.Context(), w, r.Phases)
	must(t, err)
	save(t, name, r)
}

// newPlayer creates the jars of a recording, and returns a player that sends requests to the base of the environment.
func newPlayer(t *testing.T, r *recording.Recording, w *environment) *recording.Player {
	directory, err := os.MkdirTemp("", "record") // answers contain its name, without the name of the test
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(directory)) })
	for name, recorded := range r.Jars {
		if recorded != nil {
			r.Jars[name] = identityOf(t, recorded)
		}
		must(t, recording.WriteJar(filepath.Join(directory, name), r.Jars[name], filepath.Join(target, ShopJar1)))
	}
	places, err := recording.OpenFixtures(directory)
	must(t, err)
	t.Cleanup(places.Close)
	return &recording.Player{
		Fixtures: places, Tunnel: r.Tunnel, Broker: w.server, Tap: w.tap, NoAnswerTimeout: silence,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", w.base.arklet)
		},
		Web: func(context.Context) (string, error) { return w.base.Web(), nil },
	}
}

// save writes a recording to its file.
func save(t *testing.T, name string, r recording.Recording) {
	r.Versions = versions
	if r.Tunnel == recording.MQTT {
		r.Versions.MQTT = "the tunnel of e2e/realbase/java: upstream's is not on Maven Central"
	}
	must(t, r.Save(recordings, filepath.Base(name)))
}

// uninstallAll uninstalls all modules of a base. It returns an error if modules are still installed afterwards.
func uninstallAll(ctx context.Context, base *Base) error {
	list, err := base.Modules(ctx)
	if err != nil {
		return err
	}
	for _, module := range list {
		identity, _, _ := strings.Cut(module, " ")
		name, version, _ := strings.Cut(identity, ":")
		if _, err := base.Command(ctx, "uninstallBiz",
			fmt.Sprintf(`{"bizName":%q,"bizVersion":%q}`, name, version)); err != nil {
			return err
		}
	}
	left, err := base.Modules(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("modules are still installed: %s", strings.Join(left, ", "))
	}
	return err
}

// recordedOptions returns the options of a base from which responses are recorded.
func recordedOptions() Options {
	return Options{
		Jar: filepath.Join(target, BaseJar), Log: filepath.Join(target, "record.log"), Identity: recording.Identity,
		Username: "any", Password: "any",
		// Arklet runs a command on the thread that reads from the connection, and all connections
		// of that thread wait. With the default of two threads per core, requests during an install would wait for it.
		JVM: []string{"-Dio.netty.eventLoopThreads=64"},
	}
}

// environment is a base with its own broker or controller.
type environment struct {
	server  *broker.Server // nil if the tunnel is HTTP
	control recording.Controller
	tap     *recording.Tap

	addr     string       // host:port of the broker or the controller
	listener net.Listener // nil if the port is closed
	http     *http.Server // HTTP server of the controller

	base *Base
	kill func() error // kills the base and blocks until it has exited; nil if the base is not running
}

// Listens reports whether the port of the broker or the controller is open.
func (w *environment) Listens() bool { return w.listener != nil }

// Ready blocks until arklet responds.
func (w *environment) Ready(ctx context.Context) error { return w.base.WaitReady(ctx) }

// Apply makes an event of a recording happen, such as a restart of the base or a broker outage.
func (w *environment) Apply(ctx context.Context, event recording.Event) error {
	switch event {
	case recording.Start:
		o := recordedOptions()
		if w.server != nil {
			o.Broker = w.addr
		} else {
			o.Controller = "http://" + w.addr
		}
		return w.startBase(ctx, o)
	case recording.Kill:
		kill := w.kill
		w.kill = nil
		return kill()
	case recording.BrokerStops, recording.ControllerStops:
		w.stop()
	case recording.BrokerReturns:
		return w.serveBroker()
	case recording.ConnectionBreaks:
		w.closeConnections()
	case recording.ControllerHangs, recording.ControllerFails:
		w.control.Set(event)
	case recording.ControllerReturns:
		w.control.Set(event)
		if w.listener == nil {
			return w.serveController()
		}
	}
	return nil
}

// startBase starts a base and returns without waiting until arklet responds.
func (w *environment) startBase(ctx context.Context, o Options) error {
	base, err := New(o)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- base.Start(running) }()
	w.base, w.kill = base, func() error {
		stop()
		return <-done
	}
	return nil
}

// openBroker returns a broker that accepts any password. The broker does not listen on a port yet.
func openBroker(t *testing.T) *broker.Server {
	server := broker.New(&broker.Options{InlineClient: true, Logger: slog.New(slog.DiscardHandler)})
	must(t, server.AddHook(new(auth.AllowHook), nil))
	must(t, server.Serve())
	t.Cleanup(func() { _ = server.Close() }) // the recordings are written
	return server
}

// listen opens a free port the first time, and the same port again afterwards.
func (w *environment) listen() (err error) {
	if w.addr == "" {
		w.addr = "127.0.0.1:0"
	}
	w.listener, err = net.Listen("tcp", w.addr)
	if err == nil {
		w.addr = w.listener.Addr().String()
	}
	return err
}

func (w *environment) serveBroker() error {
	if err := w.listen(); err != nil {
		return err
	}
	go func(l net.Listener) {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the listener is closed
			}
			go func() { _ = w.server.EstablishConnection("tcp", conn) }() // until the connection ends
		}
	}(w.listener)
	return nil
}

func (w *environment) serveController() error {
	if err := w.listen(); err != nil {
		return err
	}
	w.http = &http.Server{Handler: &w.control}
	go func(s *http.Server, l net.Listener) { _ = s.Serve(l) }(w.http, w.listener) // until the listener is closed
	return nil
}

// closeConnections closes all connections to the broker.
func (w *environment) closeConnections() {
	for _, c := range w.server.Clients.GetAll() {
		c.Stop(errors.New("connection cut by the test"))
	}
}

// stop closes the port and all connections. It has no effect if the port is closed.
func (w *environment) stop() {
	if w.listener == nil {
		return
	}
	_ = w.listener.Close() // no connections are expected
	w.listener = nil
	if w.server != nil {
		w.closeConnections()
	} else {
		_ = w.http.Close() // open requests are not answered
	}
}

// identityOf returns the manifest of the module that Maven built, with the module identity of a recorded manifest.
func identityOf(t *testing.T, recorded recording.Manifest) recording.Manifest {
	m, err := manifest()
	must(t, err)
	delete(m, "build-time") // no base reads it, and it differs between builds
	for _, key := range []string{"Ark-Biz-Name", "Ark-Biz-Version", "Main-Class", "Start-Class", "web-context-path",
		"priority"} {
		m[key] = recorded[key]
		if m[key] == "" {
			delete(m, key)
		}
	}
	return m
}
