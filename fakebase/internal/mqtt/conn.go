package mqtt

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// readBuffer is small because there may be thousands: larger packets are read
// past it.
const readBuffer = 512

type conn struct {
	net  net.Conn
	br   *bufio.Reader
	opts *Options

	heard   atomic.Pointer[time.Time] // when something last arrived
	writers sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	out     []byte // encoded packets that wait for the writer
	writing bool   // a writer goroutine is at work
	nextID  uint16
	flying  map[uint16]struct{} // published, not yet acknowledged
	timer   *time.Timer
}

func reader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, readBuffer) }

func (c *Client) connect(ctx context.Context) (*conn, error) {
	dialCtx, cancel := context.WithTimeout(ctx, c.opts.divided(ConnectTimeout))
	defer cancel()
	nc, err := c.opts.Dial(dialCtx)
	if err != nil {
		return nil, fmt.Errorf("dialling broker: %w", err)
	}
	stop := context.AfterFunc(dialCtx, func() { _ = nc.Close() })
	defer stop()
	cn := &conn{net: nc, br: reader(nc), opts: &c.opts}
	if err := cn.handshake(); err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("connecting as %q: %w", c.opts.ClientID, err)
	}
	return cn, nil
}

func (cn *conn) handshake() error {
	o := cn.opts
	pk := packets.Packet{
		FixedHeader:     packets.FixedHeader{Type: packets.Connect},
		ProtocolVersion: 4,
		Connect: packets.ConnectParams{
			ProtocolName: []byte("MQTT"), Clean: true, ClientIdentifier: o.ClientID,
			Keepalive:    uint16(o.divided(KeepAlive) / time.Second), //nolint:gosec // it fits
			UsernameFlag: o.Username != "", Username: []byte(o.Username),
			PasswordFlag: o.Password != "", Password: []byte(o.Password),
		},
	}
	var buf bytes.Buffer
	if err := pk.ConnectEncode(&buf); err != nil {
		return fmt.Errorf("encoding CONNECT: %w", err)
	}
	if _, err := cn.net.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("sending CONNECT: %w", err)
	}
	ack, err := cn.next()
	if err != nil {
		return fmt.Errorf("reading CONNACK: %w", err)
	}
	switch {
	case ack.FixedHeader.Type != packets.Connack:
		return fmt.Errorf("broker answered CONNECT with packet type %d", ack.FixedHeader.Type)
	case ack.ReasonCode != 0:
		return fmt.Errorf("return code %d: %w", ack.ReasonCode, ErrRefused)
	}
	return nil
}

// read handles packets until the connection breaks.
func (cn *conn) read() error {
	for {
		// A client waits here most of the time. Waiting inside next would keep a large packet on each stack.
		if _, err := cn.br.Peek(1); err != nil {
			return err
		}
		if err := cn.handle(); err != nil {
			return err
		}
	}
}

func (cn *conn) handle() error {
	pk, err := cn.next()
	if err != nil {
		return err
	}
	cn.hear()
	switch pk.FixedHeader.Type {
	case packets.Publish:
		if pk.FixedHeader.Qos == 1 {
			ack := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: pk.PacketID}
			if err := cn.send(ack.PubackEncode); err != nil {
				return err
			}
		}
		cn.opts.OnMessage(pk.TopicName, pk.Payload)
	case packets.Puback:
		cn.mu.Lock()
		delete(cn.flying, pk.PacketID)
		if len(cn.flying) == 0 {
			cn.flying = nil
		}
		cn.mu.Unlock()
	case packets.Suback:
		for _, code := range pk.ReasonCodes {
			if code >= 0x80 {
				cn.opts.Logger.Warn("broker refused a subscription", "client", cn.opts.ClientID, "code", code)
			}
		}
	case packets.Pingresp:
	default:
		return fmt.Errorf("unexpected packet type %d from broker", pk.FixedHeader.Type)
	}
	return nil
}

func (cn *conn) next() (packets.Packet, error) {
	pk := packets.Packet{ProtocolVersion: 4}
	head, err := cn.br.ReadByte()
	if err != nil {
		return pk, err
	}
	if err := pk.FixedHeader.Decode(head); err != nil {
		return pk, fmt.Errorf("decoding packet header: %w", err)
	}
	size, _, err := packets.DecodeLength(cn.br)
	switch {
	case err != nil:
		return pk, fmt.Errorf("decoding packet length: %w", err)
	case size > maxPacket:
		return pk, fmt.Errorf("packet of %d bytes is larger than %d", size, maxPacket)
	}
	pk.FixedHeader.Remaining = size
	body := make([]byte, size)
	if _, err := io.ReadFull(cn.br, body); err != nil {
		return pk, err
	}
	switch pk.FixedHeader.Type {
	case packets.Connack:
		err = pk.ConnackDecode(body)
	case packets.Publish:
		if pk.FixedHeader.Qos > 1 {
			return pk, errors.New("message with QoS 2, but only QoS 1 was asked for")
		}
		err = pk.PublishDecode(body)
	case packets.Puback:
		err = pk.PubackDecode(body)
	case packets.Suback:
		err = pk.SubackDecode(body)
	}
	if err != nil {
		return pk, fmt.Errorf("decoding packet type %d: %w", pk.FixedHeader.Type, err)
	}
	return pk, nil
}

func (cn *conn) publish(topic string, payload []byte) error {
	id, err := cn.fly()
	if err != nil {
		return err
	}
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1},
		TopicName:   topic, Payload: payload, PacketID: id,
	}
	return cn.send(pk.PublishEncode)
}

func (cn *conn) subscribe(filters []string) error {
	cn.mu.Lock()
	cn.nextID++
	if cn.nextID == 0 {
		cn.nextID++
	}
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1},
		PacketID:    cn.nextID,
	}
	cn.mu.Unlock()
	for _, f := range filters {
		pk.Filters = append(pk.Filters, packets.Subscription{Filter: f, Qos: 1})
	}
	return cn.send(pk.SubscribeEncode)
}

// fly takes a packet id that no unacknowledged message has.
func (cn *conn) fly() (uint16, error) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if len(cn.flying) >= MaxInFlight {
		return 0, ErrTooManyInFlight
	}
	if cn.flying == nil {
		cn.flying = map[uint16]struct{}{}
	}
	for {
		cn.nextID++
		if _, taken := cn.flying[cn.nextID]; !taken && cn.nextID != 0 {
			cn.flying[cn.nextID] = struct{}{}
			return cn.nextID, nil
		}
	}
}

// send encodes a packet behind those that wait and sees to it that a writer
// is at work. The writer is a goroutine that ends when nothing is left: were
// it the reader, two ends that write at the same time could block each other.
func (cn *conn) send(encode func(*bytes.Buffer) error) error {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.closed {
		return ErrNotConnected
	}
	buf := bytes.NewBuffer(cn.out)
	if err := encode(buf); err != nil {
		return fmt.Errorf("encoding packet: %w", err)
	}
	cn.out = buf.Bytes()
	if !cn.writing {
		cn.writing = true
		cn.writers.Go(cn.drain)
	}
	return nil
}

func (cn *conn) drain() {
	for {
		cn.mu.Lock()
		out := cn.out
		cn.out = nil
		if len(out) == 0 {
			cn.writing = false
			cn.mu.Unlock()
			return
		}
		cn.mu.Unlock()
		if _, err := cn.net.Write(out); err != nil {
			cn.close() // the reader reports it
			return
		}
	}
}

func (cn *conn) hear() {
	now := time.Now()
	cn.heard.Store(&now)
}

// watch keeps the connection alive: it pings when nothing has arrived for half of KeepAlive, and
// closes the connection after one and a half. Each message that is sent is acknowledged.
func (cn *conn) watch() {
	cn.hear()
	cn.arm()
}

func (cn *conn) arm() {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if !cn.closed {
		cn.timer = time.AfterFunc(cn.opts.divided(KeepAlive)/2, cn.tick)
	}
}

func (cn *conn) tick() {
	half := cn.opts.divided(KeepAlive) / 2
	silent := time.Since(*cn.heard.Load())
	if silent >= 3*half {
		cn.opts.Logger.Debug("broker is silent, connection given up", "client", cn.opts.ClientID)
		cn.close()
		return
	}
	if silent >= half {
		ping := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}}
		if err := cn.send(ping.PingreqEncode); err != nil {
			return
		}
	}
	cn.arm()
}

// close breaks the connection. After it no writer starts any more.
func (cn *conn) close() {
	cn.mu.Lock()
	cn.closed = true
	if cn.timer != nil {
		cn.timer.Stop()
	}
	cn.mu.Unlock()
	_ = cn.net.Close()
}
