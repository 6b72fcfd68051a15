package broker

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

const (
	// firstAcceptPause is the pause after a failed Accept. It doubles up to lastAcceptPause while
	// Accept goes on to fail: net/http does the same.
	firstAcceptPause = 5 * time.Millisecond
	lastAcceptPause  = time.Second
)

// accept gives each connection of a listener to take, which must not block, until the listener is
// closed. Accept fails when there are too many open files, and when a client is gone already;
// neither ends the port. The first failure of a row is logged.
func accept(l net.Listener, log *slog.Logger, take func(net.Conn)) {
	pause := time.Duration(0)
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			if pause == 0 {
				log.Warn("connections cannot be accepted", "addr", l.Addr().String(), "err", err)
			}
			pause = min(max(2*pause, firstAcceptPause), lastAcceptPause)
			time.Sleep(pause)
			continue
		}
		if pause > 0 {
			log.Info("connections are accepted again", "addr", l.Addr().String())
		}
		pause = 0
		take(conn)
	}
}
