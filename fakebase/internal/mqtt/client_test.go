package mqtt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// server is the broker side of a test connection. Tests read and write its packets.
type server struct {
	t    *testing.T
	conn net.Conn
	c    *conn // decodes the packets that conn receives
}

// newClient returns a client and a channel that delivers the broker side of each of its connections.
func newClient(t *testing.T, change func(*Options)) (*Client, <-chan *server) {
	t.Helper()
	connections := make(chan *server, 100)
	opts := Options{
		ClientID: "p@@@b1", Username: "u", Password: "s",
		Dial: func(context.Context) (net.Conn, error) {
			clientEnd, serverEnd := net.Pipe()
			connections <- &server{t, serverEnd, newConn(serverEnd)}
			return clientEnd, nil
		},
		Speed: 1, OnConnect: func(bool) {}, OnMessage: func(string, []byte) {}, OnLost: func(error) {},
		Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&opts)
	}
	return New(opts), connections
}

func newConn(nc net.Conn) *conn { return &conn{net: nc, br: newReader(nc)} }

// run runs a client until the test ends.
func run(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// readPacket reads a packet. It also decodes the packets that only clients send: CONNECT, SUBSCRIBE and PINGREQ.
func (s *server) readPacket() packets.Packet {
	s.t.Helper()
	pk, body, err := s.readRawPacket()
	if err != nil {
		s.t.Fatal(err)
	}
	switch pk.FixedHeader.Type {
	case packets.Connect:
		err = pk.ConnectDecode(body)
	case packets.Subscribe:
		err = pk.SubscribeDecode(body)
	case packets.Publish:
		err = pk.PublishDecode(body)
	case packets.Puback:
		err = pk.PubackDecode(body)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return pk
}

func (s *server) readRawPacket() (packets.Packet, []byte, error) {
	pk := packets.Packet{ProtocolVersion: 4}
	head, err := s.c.br.ReadByte()
	if err != nil {
		return pk, nil, err
	}
	if err := pk.FixedHeader.Decode(head); err != nil {
		return pk, nil, err
	}
	n, _, err := packets.DecodeLength(s.c.br)
	if err != nil {
		return pk, nil, err
	}
	body := make([]byte, n)
	_, err = io.ReadFull(s.c.br, body)
	return pk, body, err
}

func (s *server) write(b ...byte) {
	s.t.Helper()
	if _, err := s.conn.Write(b); err != nil {
		s.t.Fatal(err)
	}
}

func TestHandshakeAndTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 1)
		var c *Client
		var connections <-chan *server
		c, connections = newClient(t, func(o *Options) {
			o.OnConnect = func(bool) {
				if err := c.Subscribe("a/+", "b"); err != nil {
					t.Error(err)
				}
			}
			o.OnMessage = func(topic string, payload []byte) { got <- topic + " " + string(payload) }
		})
		if err := c.Publish("x", nil); !errors.Is(err, ErrNotConnected) {
			t.Errorf("Publish() before Run = %v, want ErrNotConnected", err)
		}
		run(t, c)
		s := <-connections
		connect := s.readPacket().Connect
		if connect.ClientIdentifier != "p@@@b1" || string(connect.Username) != "u" || string(connect.Password) != "s" ||
			!connect.Clean || connect.Keepalive != 60 || connect.WillFlag {
			t.Errorf("CONNECT = %+v", connect)
		}
		s.write(0x20, 2, 0, 0)
		sub := s.readPacket()
		if len(sub.Filters) != 2 || sub.Filters[0].Filter != "a/+" || sub.Filters[0].Qos != 1 ||
			sub.Filters[1].Filter != "b" {
			t.Errorf("SUBSCRIBE = %+v", sub.Filters)
		}
		s.write(0x90, 4, byte(sub.PacketID>>8), byte(sub.PacketID), 1, 1)
		s.write(0x32, 7, 0, 1, 'b', 0, 9, 'h', 'i')
		if ack := s.readPacket(); ack.FixedHeader.Type != packets.Puback || ack.PacketID != 9 {
			t.Errorf("PUBACK = %+v, want packet ID 9", ack)
		}
		if m := <-got; m != "b hi" {
			t.Errorf("message = %q", m)
		}
		s.write(0x30, 4, 0, 1, 'b', '0') // QoS 0 needs no acknowledgement
		if m := <-got; m != "b 0" {
			t.Errorf("message = %q", m)
		}
		if err := c.Publish("t", []byte("data")); err != nil {
			t.Fatal(err)
		}
		pub := s.readPacket()
		if pub.FixedHeader.Qos != 1 || pub.FixedHeader.Retain || pub.TopicName != "t" ||
			string(pub.Payload) != "data" || pub.PacketID == 0 {
			t.Errorf("PUBLISH = %+v", pub)
		}
	})
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, connections := newClient(t, nil)
		run(t, c)
		s := <-connections
		s.readPacket()
		begun := time.Now()
		s.write(0x20, 2, 0, 0)
		for i := range 3 {
			if pk := s.readPacket(); pk.FixedHeader.Type != packets.Pingreq {
				t.Fatalf("packet type = %d, want PINGREQ", pk.FixedHeader.Type)
			}
			if idle := time.Since(begun); idle > KeepAlive {
				t.Errorf("ping %d after %s, want at most %s", i, idle, KeepAlive)
			}
			begun = time.Now()
			s.write(0xd0, 0)
		}
		// The client closes the connection after one and a half KeepAlive without a response.
		for {
			if _, _, err := s.readRawPacket(); err != nil {
				break
			}
		}
		if took := time.Since(begun); took < 85*time.Second || took > 150*time.Second {
			t.Errorf("connection was closed after %s, want 85s to 150s", took)
		}
		if reconnected := <-connections; reconnected == s {
			t.Error("client did not reconnect")
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, connections := newClient(t, nil)
		run(t, c)
		begun := time.Now()
		for _, want := range []time.Duration{0, 1, 3, 7} {
			s := <-connections
			if at := time.Since(begun); at != want*time.Second {
				t.Errorf("attempt after %s, want %ds", at, want)
			}
			s.readPacket()
			_ = s.conn.Close()
		}
		s := <-connections // after 15 s; the broker accepts it
		s.readPacket()
		s.write(0x20, 2, 0, 0)
		synctest.Wait()
		begun = time.Now()
		_ = s.conn.Close()
		<-connections
		if pause := time.Since(begun); pause != time.Second {
			t.Errorf("delay after a successful connection = %s, want 1s", pause)
		}
	})
}

func TestHoldAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan error, 10)
		c, connections := newClient(t, func(o *Options) { o.OnLost = func(err error) { lost <- err } })
		run(t, c)
		s := <-connections
		s.readPacket()
		s.write(0x20, 2, 0, 0)
		synctest.Wait()
		if !c.Connected() {
			t.Fatal("not connected")
		}
		c.Hold()
		c.Hold()
		t.Logf("lost: %v", <-lost)
		<-time.After(time.Hour)
		if len(connections) != 0 || c.Connected() {
			t.Error("reconnected while held")
		}
		c.Release()
		c.Release()
		<-connections
	})
}

func TestRunErrorsAndLimits(t *testing.T) {
	first := func(o *Options) { o.FailFirst = true }
	tests := []struct {
		name   string
		answer []byte
		want   string
	}{
		{"bad credentials", []byte{0x20, 2, 0, 5}, "5: " + ErrRefused.Error()},
		{"unexpected packet", []byte{0xd0, 0}, "type 13"},
		{"invalid header", []byte{0x2f, 0}, "decoding the packet header"},
		{"invalid length", []byte{0x20, 0xff, 0xff, 0xff, 0xff, 0xff}, "decoding the packet length"},
		{"packet too large", []byte{0x20, 0xff, 0xff, 0xff, 0x7f}, "the maximum is"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, connections := newClient(t, first)
				done := make(chan error, 1)
				go func() { done <- c.Run(t.Context()) }()
				s := <-connections
				s.readPacket()
				_, _ = s.conn.Write(tt.answer) // the client may close the connection first
				if err := <-done; err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Run() = %v, want %q", err, tt.want)
				}
			})
		})
	}
	t.Run("no response", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, connections := newClient(t, first)
			done := make(chan error, 1)
			begun := time.Now()
			go func() { done <- c.Run(t.Context()) }()
			(<-connections).readPacket()
			if err := <-done; err == nil || time.Since(begun) != 30*time.Second {
				t.Errorf("Run() = %v after %s, want an error after 30s", err, time.Since(begun))
			}
		})
	})
	t.Run("too many in flight", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, connections := newClient(t, nil)
			run(t, c)
			s := <-connections
			s.readPacket()
			s.write(0x20, 2, 0, 0)
			go func() { _, _ = io.Copy(io.Discard, s.conn) }()
			synctest.Wait()
			for i := range MaxInFlight {
				if err := c.Publish("t", nil); err != nil {
					t.Fatalf("Publish() %d = %v", i, err)
				}
			}
			if err := c.Publish("t", nil); !errors.Is(err, ErrTooManyInFlight) {
				t.Errorf("Publish() above the limit = %v, want ErrTooManyInFlight", err)
			}
			s.write(0x40, 2, 0, 1)
			synctest.Wait()
			if err := c.Publish("t", nil); err != nil {
				t.Errorf("Publish() after an acknowledgement = %v", err)
			}
		})
	})
}

// FuzzNext checks that the packet reader does not panic, and does not return more data than its input contains.
func FuzzNext(f *testing.F) {
	for _, seed := range [][]byte{{0x20, 2, 0, 0}, {0x32, 7, 0, 1, 'b', 0, 9, 'h', 'i'}, {0x90, 4, 0, 1, 1, 1},
		{0x40, 2, 0, 1}, {0xd0, 0}, {0x30, 0}, {0x40, 0}, {0x34, 5, 0, 1, 'a', 0, 1}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		cn := &conn{br: newReader(bytes.NewReader(raw))}
		read := 0
		for {
			pk, err := cn.next()
			if err != nil {
				break
			}
			read += 2 + pk.FixedHeader.Remaining
			if len(pk.Payload) > len(raw) {
				t.Fatalf("payload has %d bytes, input has %d", len(pk.Payload), len(raw))
			}
		}
		if read > len(raw) {
			t.Errorf("read %d bytes, input has %d", read, len(raw))
		}
	})
}
