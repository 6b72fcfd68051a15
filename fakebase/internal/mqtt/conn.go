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

// readBuffer is the size of the read buffer of a connection. It is small because a process can have thousands of
// connections. Larger packets bypass the buffer.
const readBuffer = 512

type conn struct {
	net  net.Conn
	br   *bufio.Reader
	opts *Options

	lastRead atomic.Pointer[time.Time]
	writers  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	out      []byte // encoded packets that wait to be written
	writing  bool   // whether a writer goroutine is running
	nextID   uint16
	inFlight map[uint16]struct{} // IDs of packets that the broker has not acknowledged
	timer    *time.Timer
}

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, readBuffer) }

func (c *Client) connect(ctx context.Context) (*conn, error) {
	dialCtx, cancel := context.WithTimeout(ctx, c.opts.scaled(ConnectTimeout))
	defer cancel()
	nc, err := c.opts.Dial(dialCtx)
	if err != nil {
		return nil, fmt.Errorf("connecting to the broker: %w", err)
	}
	stop := context.AfterFunc(dialCtx, func() { _ = nc.Close() })
	defer stop()
	cn := &conn{net: nc, br: newReader(nc), opts: &c.opts, inFlight: map[uint16]struct{}{}}
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
			Keepalive:    uint16(o.scaled(KeepAlive) / time.Second), //nolint:gosec // it fits
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
		return fmt.Errorf("the broker answered CONNECT with packet type %d", ack.FixedHeader.Type)
	case ack.ReasonCode != 0:
		return fmt.Errorf("return code %d: %w", ack.ReasonCode, ErrRefused)
	}
	return nil
}

// read reads and handles packets until the connection ends.
func (cn *conn) read() error {
	for {
		// A client waits here most of the time. If it waited in next, the stack would have a large packet.
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
	cn.markRead()
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
		delete(cn.inFlight, pk.PacketID)
		cn.mu.Unlock()
	case packets.Suback:
		for _, code := range pk.ReasonCodes {
			if code >= 0x80 {
				cn.opts.Logger.Warn("the broker refused a subscription", "client", cn.opts.ClientID, "code", code)
			}
		}
	case packets.Pingresp:
	default:
		return fmt.Errorf("unexpected packet type %d from the broker", pk.FixedHeader.Type)
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
		return pk, fmt.Errorf("decoding the packet header: %w", err)
	}
	size, _, err := packets.DecodeLength(cn.br)
	switch {
	case err != nil:
		return pk, fmt.Errorf("decoding the packet length: %w", err)
	case size > maxPacket:
		return pk, fmt.Errorf("the packet has %d bytes; the maximum is %d", size, maxPacket)
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
			return pk, errors.New("received a message with QoS 2, although the client subscribed with QoS 1")
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
	id, err := cn.nextPacketID()
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

// nextPacketID returns a packet ID that no unacknowledged message uses.
func (cn *conn) nextPacketID() (uint16, error) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if len(cn.inFlight) >= MaxInFlight {
		return 0, ErrTooManyInFlight
	}
	for {
		cn.nextID++
		if _, taken := cn.inFlight[cn.nextID]; !taken && cn.nextID != 0 {
			cn.inFlight[cn.nextID] = struct{}{}
			return cn.nextID, nil
		}
	}
}

// send queues an encoded packet and starts the writer goroutine if it is not running. The reader goroutine does not
// write packets: if the client and the broker both stopped reading in order to write, they would block each other.
// The writer goroutine ends when the queue is empty.
func (cn *conn) send(encode func(*bytes.Buffer) error) error {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.closed {
		return ErrNotConnected
	}
	buf := bytes.NewBuffer(cn.out)
	if err := encode(buf); err != nil {
		return fmt.Errorf("encoding the packet: %w", err)
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

func (cn *conn) markRead() {
	now := time.Now()
	cn.lastRead.Store(&now)
}

// startKeepAlive starts the keep-alive timer. It sends a ping when no packet has arrived for half of KeepAlive, and
// closes the connection when no packet has arrived for one and a half KeepAlive. Sent packets need no separate timer,
// because the broker acknowledges them.
func (cn *conn) startKeepAlive() {
	cn.markRead()
	cn.startTimer()
}

func (cn *conn) startTimer() {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if !cn.closed {
		cn.timer = time.AfterFunc(cn.opts.scaled(KeepAlive)/2, cn.tick)
	}
}

func (cn *conn) tick() {
	half := cn.opts.scaled(KeepAlive) / 2
	idle := time.Since(*cn.lastRead.Load())
	if idle >= 3*half {
		cn.opts.Logger.Debug("received no packets from the broker; closing the connection", "client", cn.opts.ClientID)
		cn.close()
		return
	}
	if idle >= half {
		ping := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}}
		if err := cn.send(ping.PingreqEncode); err != nil {
			return
		}
	}
	cn.startTimer()
}

// close closes the connection. No writer goroutine starts afterwards.
func (cn *conn) close() {
	cn.mu.Lock()
	cn.closed = true
	if cn.timer != nil {
		cn.timer.Stop()
	}
	cn.mu.Unlock()
	_ = cn.net.Close()
}
