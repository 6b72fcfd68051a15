package shipped

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/koupleless/koupsandbox/fakebase"
)

const (
	// memoryLimit is a quarter of the memory limit in deployment.yaml.
	memoryLimit = 256 << 20
	// slowBodies is the number of connections that send a body of each size slowly. The controller accepts the
	// smaller size.
	slowBodies, smallBody, largeBody = 1200, 64 << 10, 1 << 20
	// smallBodyPause is the time between two small bodies of one client.
	smallBodyPause = 10 * time.Second
	// packetSize is close to the largest packet that MQTT allows.
	packets, packetSize = 2, 250 << 20
	// identities is the number of bases for which one address sends heartbeats. maxPerAddress keeps the load on
	// the API server low.
	identities, maxBases, maxPerAddress = 20_000, 200, 100
	honest                              = 10
	// The addresses of the clients. All are loopback addresses.
	slowAddr, greedyAddr = "127.0.0.3", "127.0.0.2"
)

// Slow bodies, large packets, and an address with many identities do not make the controller use much memory.
// The bases with other addresses get an answer to each heartbeat, and are accepted.
func TestMemory(t *testing.T) {
	env, broker := environment(), startBroker(t, "127.0.0.1:0")
	c := controller(t, "memory", broker.addr, map[string]string{
		"ENV": env, "IS_CLUSTER": "false", "ENABLE_HTTP_TUNNEL": "true", "BASE_NETWORKS": "127.0.0.0/8", "MAX_BASES": fmt.Sprint(maxBases),
		"MAX_BASES_PER_ADDRESS": fmt.Sprint(maxPerAddress),
	})
	c.ready(t)
	t.Cleanup(func() { t.Logf("the controller used %d MiB of memory at most", peakMemory(t, c)>>20) })
	heart, err := c.logged(`msg="receiving heartbeats over HTTP" addr=`)
	must(t, err)
	bases := make([]*honestBase, honest)
	for i := range bases[:honest/2] { // the other half comes when one address has claimed all identities
		bases[i] = newHonestBase(t, env, heart, i)
	}
	eventually(t, "the first bases are Ready", func(ctx context.Context) error { return allReady(ctx, env, honest/2) })

	load, ctx := errgroup.WithContext(t.Context())
	load.Go(func() error {
		for n := 1; n <= packets; {
			const connected = "connected to the MQTT broker"
			before := strings.Count(c.output(), connected)
			if err := sendLargePacket(ctx, broker.addr, env); err != nil {
				return err
			}
			// On a slow machine the broker may not answer a ping in time while it sends the packet. The packet is then lost.
			err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
				if c.counted(ctx, "module_controller_rejected_messages_total", map[string]string{"kind": "heart", "reason": "oversized"}, float64(n)) == nil {
					n++
					return true, nil
				}
				return strings.Count(c.output(), connected) > before, nil
			})
			if err != nil {
				return fmt.Errorf("waiting for a large packet: %w", err)
			}
		}
		return nil
	})
	slow, enough := context.WithCancel(ctx)
	defer enough()
	for i := range 2 * slowBodies {
		load.Go(func() error {
			if i%2 == 0 {
				return sendSlowBody(slow, heart, largeBody)
			}
			// The controller gives a body up after some time. On a slow machine, that may be before the limit is reached.
			return wait.PollUntilContextCancel(slow, smallBodyPause, true, func(ctx context.Context) (bool, error) {
				return false, sendSlowBody(ctx, heart, smallBody)
			})
		})
	}
	must(t, claimIdentities(ctx, heart))
	for i := honest / 2; i < honest; i++ {
		bases[i] = newHonestBase(t, env, heart, i)
	}
	// How many connections are closed for which reason depends on the speed of the machine: a body is also given up if
	// it is not read in time. Identities that send nothing for a minute give their place to others.
	for _, want := range []struct {
		kind, reason string
		n            float64
		logged       string
	}{
		{"heart", "oversized", packets, "base=large kind=heart reason=oversized"},
		{"heartbeat", "oversized", 1, ""},
		{"connection", "too-many", 1, "closed a connection from " + slowAddr},
		{"heartbeat", "too-many-of-address", identities / 2, "bases with the address " + greedyAddr},
	} {
		eventually(t, "the controller counts "+want.kind+" "+want.reason, func(ctx context.Context) error {
			return c.counted(ctx, "module_controller_rejected_messages_total", map[string]string{"kind": want.kind, "reason": want.reason}, want.n)
		})
		if !strings.Contains(c.output(), want.logged) {
			t.Errorf("the controller did not log %q", want.logged)
		}
	}
	for _, b := range bases {
		b.answered(t)
	}
	enough()
	if err := load.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	eventually(t, "all bases are Ready", func(ctx context.Context) error {
		for i := range bases {
			if err := nodeReady(ctx, fmt.Sprintf("vnode.honest-%d", i)); err != nil {
				return err
			}
		}
		return nil
	})
	ns, _ := deployModuleOn(t, env, "orders", "honest", honest)
	t.Logf("namespace %s has a module on each base", ns)

	most := peakMemory(t, c)
	if most > memoryLimit {
		t.Errorf("the controller used %d MiB of memory, more than %d MiB", most>>20, memoryLimit>>20)
	}
}

// counted reports an error unless a counter with some labels has reached n.
func (p *process) counted(ctx context.Context, name string, with map[string]string, n float64) error {
	m, err := p.metrics(ctx)
	if err != nil {
		return err
	}
	have := m.Sum(name, func(labels map[string]string) bool {
		for label, value := range with {
			if labels[label] != value {
				return false
			}
		}
		return true
	})
	if have < n {
		return fmt.Errorf("%s %v is %v, not %v", name, with, have, n)
	}
	return nil
}

// peakMemory returns the largest resident memory of a process so far, in bytes.
func peakMemory(t *testing.T, p *process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if os.IsNotExist(err) {
		t.Skip("NOT TESTED: this system has no /proc, so the memory of the controller was not measured")
	}
	must(t, err)
	_, after, ok := strings.Cut(string(status), "VmHWM:")
	if !ok {
		t.Fatalf("the controller has ended: %s", status)
	}
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	must(t, err)
	return kib << 10
}

func dialFrom(ip string) func(context.Context, string, string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext
}

// sendSlowBody sends all but the last byte of a heartbeat, and waits until the controller ends the connection, or ctx
// ends.
func sendSlowBody(ctx context.Context, addr string, size int) error {
	conn, err := dialFrom(slowAddr)(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("sending a slow body: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }() // the controller closes it
	_, err = fmt.Fprintf(conn, "POST /heartbeat HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", addr, size, strings.Repeat(" ", size-1))
	if err == nil {
		_, _ = io.Copy(io.Discard, conn) // the controller may reset the connection
	}
	return nil
}

// claimIdentities sends a heartbeat of each of many bases from one address. The controller may refuse them.
func claimIdentities(ctx context.Context, addr string) error {
	silent, err := net.Listen("tcp", net.JoinHostPort(greedyAddr, "0")) // the arklet of these bases never answers
	if err != nil {
		return fmt.Errorf("listening at %s: %w", greedyAddr, err)
	}
	defer func() { _ = silent.Close() }() // nobody reads from it
	port := silent.Addr().(*net.TCPAddr).Port
	transport := &http.Transport{DialContext: dialFrom(greedyAddr), MaxIdleConnsPerHost: 8}
	defer transport.CloseIdleConnections()
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(8)
	for i := range identities {
		workers.Go(func() error {
			body := fmt.Sprintf(`{"baseMetadata":{"identity":"greedy-%d","name":"greedy","version":"1"},"localIP":%q,"port":%d,"state":"ACTIVATED"}`, i, greedyAddr, port)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/heartbeat", strings.NewReader(body))
			if err != nil {
				return err
			}
			if answer, err := (&http.Client{Transport: transport}).Do(r); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body) // so that the connection is used again
				_ = answer.Body.Close()
			}
			return ctx.Err()
		})
	}
	return workers.Wait()
}

// sendLargePacket publishes a heartbeat of packetSize zeros.
func sendLargePacket(ctx context.Context, addr, env string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("sending a large packet: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }() // everything has been sent
	const id = "large"
	connect := append([]byte("\x00\x04MQTT\x04\x02\x00\x00\x00"), byte(len(id)))
	connect = append(connect, id...)
	if _, err := conn.Write(append([]byte{0x10, byte(len(connect))}, connect...)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	if _, err := io.ReadFull(in, make([]byte, 4)); err != nil { // CONNACK
		return fmt.Errorf("connecting to the broker: %w", err)
	}
	topic := "koupleless_" + env + "/large/base/heart"
	head := binary.AppendUvarint([]byte{0x30}, uint64(2+len(topic)+packetSize))
	head = append(binary.BigEndian.AppendUint16(head, uint16(len(topic))), topic...) //nolint:gosec // it is short
	if _, err := io.Copy(conn, io.MultiReader(strings.NewReader(string(head)), io.LimitReader(zeros{}, packetSize))); err != nil {
		return fmt.Errorf("sending a large packet: %w", err)
	}
	if _, err := conn.Write([]byte{0xC0, 0}); err != nil { // PINGREQ, whose answer follows when the packets were read
		return err
	}
	_, err = in.ReadByte()
	return err
}

// zeros is an endless stream of zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// honestBase is a base over HTTP whose heartbeats are measured.
type honestBase struct {
	transport *http.Transport
	identity  string

	mu       sync.Mutex
	answers  int
	longest  time.Duration
	failures []error
}

// newHonestBase starts a base with a separate address. It sends a heartbeat every second.
func newHonestBase(t *testing.T, env, addr string, i int) *honestBase {
	t.Helper()
	ip := fmt.Sprintf("127.0.11.%d", i+1)
	h := &honestBase{identity: fmt.Sprintf("honest-%d", i), transport: &http.Transport{DialContext: dialFrom(ip)}}
	b, err := fakebase.New(fakebase.Options{
		Identity: h.identity, Name: "honest", Env: env, IP: ip, HeartbeatInterval: time.Second, Activation: fakebase.ActivateNewModule,
		HTTP: &fakebase.HTTPOptions{Addr: net.JoinHostPort(ip, "0"), HeartbeatEndpoint: "http://" + addr, Client: &http.Client{Transport: h, Timeout: patience}},
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
		h.transport.CloseIdleConnections()
	})
	return h
}

// RoundTrip implements http.RoundTripper.
func (h *honestBase) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	answer, err := h.transport.RoundTrip(r)
	took := time.Since(start)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil && answer.StatusCode == http.StatusOK:
		h.answers++
		h.longest = max(h.longest, took)
	case err != nil && !errors.Is(err, context.Canceled): // the base ends
		h.failures = append(h.failures, err)
	case err == nil:
		h.failures = append(h.failures, fmt.Errorf("the controller answers %s", answer.Status))
	}
	return answer, err
}

// answered waits for the answer to one more heartbeat, and fails the test if any heartbeat was not answered.
func (h *honestBase) answered(t *testing.T) {
	t.Helper()
	see := func() (int, time.Duration, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.answers, h.longest, errors.Join(h.failures...)
	}
	before, _, _ := see()
	eventually(t, h.identity+" has an answer to a heartbeat", func(context.Context) error {
		now, longest, err := see()
		if err == nil && now == before {
			return errors.New("it has none yet")
		}
		if err != nil {
			return err
		}
		t.Logf("%s: %d heartbeats were answered, after %s at most", h.identity, now, longest.Round(time.Millisecond))
		return nil
	})
}
