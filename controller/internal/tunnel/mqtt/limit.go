package mqtt

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"net/url"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
	"golang.org/x/net/proxy"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// packetLimiter limits the size of the MQTT 3.1.1 packets that are read from a connection. Without it, the library
// would allocate memory for the length in the header of a packet, up to 256 MiB.
//
// It truncates a PUBLISH with a longer payload to one byte more than the limit, so that the tunnel rejects and
// acknowledges the message. Otherwise, the broker would send a retained message again on each connection. Any other
// packet above the limit is an error.
type packetLimiter struct {
	net.Conn
	in        *bufio.Reader
	limit     int
	header    []byte // unread part of the fixed header of the current packet
	passBytes int    // number of bytes of the current packet after the header to pass on before the skip bytes
	skip      int    // number of bytes to discard at the end of the current packet
}

// dial connects to the broker in the same way as the library, and adds a packetLimiter.
func dial(broker *url.URL, o paho.ClientOptions) (conn net.Conn, err error) {
	if broker.Scheme == "ssl" {
		conn, err = (&tls.Dialer{NetDialer: o.Dialer, Config: o.TLSConfig}).Dial("tcp", broker.Host)
	} else {
		conn, err = proxy.FromEnvironmentUsing(o.Dialer).Dial("tcp", broker.Host)
	}
	if err != nil {
		return nil, err
	}
	return newPacketLimiter(conn, arklet.MaxPayload), nil
}

func newPacketLimiter(c net.Conn, limit int) *packetLimiter {
	return &packetLimiter{Conn: c, in: bufio.NewReader(c), limit: limit}
}

func (l *packetLimiter) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if len(l.header) == 0 && l.passBytes == 0 {
		if _, err := l.in.Discard(l.skip); err != nil {
			return 0, err
		}
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	if len(l.header) > 0 {
		n := copy(b, l.header)
		l.header = l.header[n:]
		return n, nil
	}
	n, err := l.in.Read(b[:min(len(b), l.passBytes)])
	l.passBytes -= n
	return n, err
}

// maxRemaining is the maximum length of a packet after its fixed header [MQTT-2.2.3].
const maxRemaining = 1<<28 - 1

// next reads the fixed header of the next packet [MQTT-2.2].
func (l *packetLimiter) next() error {
	first, err := l.in.ReadByte()
	if err != nil {
		return err
	}
	remaining, err := binary.ReadUvarint(l.in)
	if err != nil {
		return err
	}
	l.passBytes, l.skip = int(min(remaining, maxRemaining)), 0 //nolint:gosec // at most maxRemaining
	if l.passBytes > l.limit {
		if first>>4 != packets.Publish || remaining > maxRemaining {
			return fmt.Errorf("the broker sent a packet of type %d with %d bytes, more than the limit of %d", first>>4,
				remaining, l.limit)
		}
		topic, err := l.in.Peek(2)
		if err != nil {
			return err
		}
		beforePayload := 2 + int(binary.BigEndian.Uint16(topic))
		if qos := first >> 1 & 3; qos > 0 {
			beforePayload += 2 // the packet identifier
		}
		l.passBytes = min(l.passBytes, beforePayload+l.limit+1)
		l.skip = int(remaining) - l.passBytes //nolint:gosec // at most maxRemaining
	}
	l.header = binary.AppendUvarint([]byte{first}, uint64(l.passBytes)) //nolint:gosec // pass is not negative
	return nil
}
