package broker

import (
	"errors"
	"log/slog"
	"net"
	"sync"

	"github.com/mochi-mqtt/server/v2/listeners"
)

// errDown says that the broker takes no connections.
var errDown = errors.New("the broker is down")

// gate gives connections to mochi and ends all of them when it closes, those
// that have not sent a first packet too: mochi waits for them, but closes only
// clients it knows.
type gate struct {
	id        string
	addr      net.Addr
	accept    net.Listener // nil = connections come through admit only
	establish func(id string, conn net.Conn) error
	through   func(net.Conn) net.Conn
	log       *slog.Logger

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	wg     sync.WaitGroup
}

var _ listeners.Listener = (*gate)(nil)

func newGate(id string, establish func(string, net.Conn) error, accept net.Listener, through func(net.Conn) net.Conn, log *slog.Logger) *gate {
	g := &gate{id: id, addr: pipeAddr(id), accept: accept, establish: establish, through: through, log: log, conns: map[net.Conn]struct{}{}}
	if accept != nil {
		g.addr = accept.Addr()
	}
	return g
}

// Init does nothing: the gate is complete already.
func (g *gate) Init(*slog.Logger) error { return nil }

// ID names the listener.
func (g *gate) ID() string { return g.id }

// Address is where it listens.
func (g *gate) Address() string { return g.addr.String() }

// Protocol is the network it listens on.
func (g *gate) Protocol() string { return g.addr.Network() }

// Serve accepts connections until the gate is closed. The given function is not
// used: each gate knows which handle on the server its clients belong to.
func (g *gate) Serve(listeners.EstablishFn) {
	if g.accept == nil {
		return
	}
	accept(g.accept, g.log, func(conn net.Conn) {
		if err := g.admit(conn); err != nil {
			_ = conn.Close() // nobody knows it yet, so nobody misses the error
		}
	})
}

// admit hands a connection to mochi and returns at once.
func (g *gate) admit(conn net.Conn) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errDown
	}
	conn = g.through(conn)
	g.conns[conn] = struct{}{}
	g.wg.Go(func() {
		if err := g.establish(g.id, conn); err != nil {
			g.log.Debug("client gone", "remote", conn.RemoteAddr().String(), "err", err)
		}
		_ = conn.Close() // mochi has closed it, save on its early errors
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.conns, conn)
	})
	return nil
}

// Close ends the listener and its connections and waits for the latter. The
// given function, which says goodbye to MQTT 5 clients first, is not used: in
// mochi v2.7.9 it takes the clients' read lock twice, and never gets it the second
// time when a client leaves in between. A cut connection is what a broker's end
// looks like to an MQTT 3.1.1 client anyway.
func (g *gate) Close(listeners.CloseFn) {
	g.mu.Lock()
	already := g.closed
	g.closed = true
	g.mu.Unlock()
	if already {
		return
	}
	if g.accept != nil {
		_ = g.accept.Close() // it ends Accept; there is nothing to do about an error
	}
	g.mu.Lock()
	for conn := range g.conns {
		_ = conn.Close() // as above
	}
	g.mu.Unlock()
	g.wg.Wait()
}
