package fakebase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// countHeartbeats returns the number of heartbeats that arrive within d.
func (w *testBroker) countHeartbeats(d time.Duration) int {
	limit, n := time.After(d), 0
	for {
		select {
		case m := <-w.messages:
			if strings.HasSuffix(m.topic, "base/heart") {
				n++
			}
		case <-limit:
			return n
		}
	}
}

// sleep blocks for d in the fake time of the synctest bubble.
func sleep(d time.Duration) { <-time.After(d) }

func TestHeartbeatIntervals(t *testing.T) {
	tests := []struct {
		name string
		opts Options
		in   time.Duration
		want int
	}{
		{"generation C beats every 10 s from the start", Options{}, 95 * time.Second, 10},
		{"generation B beats every 10 s", Options{Generation: GenerationB}, 95 * time.Second, 10},
		{"generation A beats every 120 s", Options{Generation: GenerationA}, 250 * time.Second, 3},
		{"an interval of one's own", Options{HeartbeatInterval: time.Second}, 9500 * time.Millisecond, 10},
		{"an initial delay", Options{InitialDelay: 30 * time.Second}, 45 * time.Second, 2},
	}
	for _, tt := range tests {
		runInBubble(t, tt.name, func(t *testing.T) {
			w := newTestBroker(t)
			tt.opts.Identity, tt.opts.MQTT = "b1", &MQTTOptions{Dial: w.dial}
			start(t, tt.opts)
			if got := w.countHeartbeats(tt.in); got != tt.want {
				t.Errorf("heartbeats = %d in %s, want %d", got, tt.in, tt.want)
			}
		})
	}
}

func TestJitterSpreadsFirstHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestBroker(t)
		for i := range 50 {
			start(t, Options{Identity: fmt.Sprintf("b%d", i), HeartbeatJitter: 10 * time.Second,
				MQTT: &MQTTOptions{Dial: w.dial}})
		}
		for second := range 10 {
			if n := w.countHeartbeats(time.Second); n == 0 || n > 15 {
				t.Errorf("first heartbeats = %d of 50 in second %d", n, second)
			}
		}
	})
}

// outage disconnects a base for the given duration.
func outage(t *testing.T, b *Base, d time.Duration) {
	t.Helper()
	id, err := b.Inject(fault.Fault{Kind: fault.KindDisconnect})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if b.Status().Connected {
		t.Fatal("still connected")
	}
	sleep(d)
	if b.Clear(id) != 1 {
		t.Fatal("fault not found")
	}
}

func TestReconnect(t *testing.T) {
	for _, faithful := range []bool{false, true} {
		runInBubble(t, fmt.Sprintf("faithful=%v", faithful), func(t *testing.T) {
			w := newTestBroker(t)
			b := start(t, Options{Identity: "b1", Faithful: faithful, MQTT: &MQTTOptions{Dial: w.dial}})
			w.next("base/heart")
			outage(t, b, 25*time.Second)
			sleep(130 * time.Second)
			if !b.Status().Connected {
				t.Fatal("not connected again")
			}
			for len(w.messages) > 0 {
				if m := <-w.messages; strings.HasSuffix(m.topic, "queryBaseline") && faithful {
					break
				}
			}
			// After a heartbeat that cannot be sent, a real base sends no more heartbeats, but still responds to
			// commands (protocol 3.2).
			beats := w.countHeartbeats(65 * time.Second)
			if faithful && beats != 0 || !faithful && beats != 6 && beats != 7 {
				t.Errorf("heartbeats in 65 s after the outage = %d", beats)
			}
			w.send("koupleless_dev/b1/queryAllBiz", "{}")
			w.next("base/simpleBiz")
		})
	}
}

func TestBaselineIsRequestedOncePerProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestBroker(t)
		b := start(t, Options{Identity: "b1", MQTT: &MQTTOptions{Dial: w.dial}})
		asked := func() (n int) {
			sleep(140 * time.Second)
			for len(w.messages) > 0 {
				if m := <-w.messages; strings.HasSuffix(m.topic, "queryBaseline") {
					n++
				}
			}
			return n
		}
		if n := asked(); n != 1 {
			t.Errorf("baseline requests after the start = %d, want 1", n)
		}
		outage(t, b, time.Second)
		if n := asked(); n != 0 {
			t.Errorf("baseline requests after a reconnect = %d, want 0", n)
		}
		if err := b.Restart(""); err != nil {
			t.Fatal(err)
		}
		if n := asked(); n != 1 {
			t.Errorf("baseline requests after a restart = %d, want 1", n)
		}
	})
}

func TestFirstConnectionFails(t *testing.T) {
	refused := errors.New("broker is not there")
	synctest.Test(t, func(t *testing.T) {
		b, err := New(Options{Identity: "b1", Faithful: true, MQTT: &MQTTOptions{
			Dial: func(context.Context) (net.Conn, error) { return nil, refused },
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Start(t.Context()); !errors.Is(err, refused) {
			t.Errorf("Start() of a faithful base without a broker = %v, want an error", err)
		}
	})
	runInBubble(t, "otherwise it is tried again, 1 s doubling to 128 s", func(t *testing.T) {
		begun := time.Now()
		var at []time.Duration
		start(t, Options{Identity: "b1", MQTT: &MQTTOptions{Dial: func(context.Context) (net.Conn, error) {
			at = append(at, time.Since(begun))
			return nil, refused
		}}})
		sleep(600 * time.Second)
		synctest.Wait()
		var want []time.Duration
		for _, s := range []int{0, 1, 3, 7, 15, 31, 63, 127, 255, 383, 511} {
			want = append(want, time.Duration(s)*time.Second)
		}
		if d := cmp.Diff(want, at); d != "" {
			t.Errorf("connection attempts (-want +got):\n%s", d)
		}
	})
}

// TestPool tests the thread pool of the MQTT tunnel: 5 tasks run concurrently. When the queue is full, up to 10 tasks
// run concurrently. Beyond that, the caller runs the task itself.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		running := make(chan int, 1000)
		p := &pool{core: 5, limit: 10, queued: 100, spawn: func(fn func()) bool { go fn(); return true }}
		task := func() { running <- 1; <-release }
		for range 5 {
			p.submit(task)
		}
		synctest.Wait()
		check := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if got := len(running); got != want {
				t.Errorf("running tasks = %d %s, want %d", got, when, want)
			}
		}
		check(5, "at first")
		for range 100 {
			p.submit(task)
		}
		check(5, "while the queue fills")
		for range 5 {
			p.submit(task)
		}
		check(10, "when the queue is full")
		ran := false
		p.submit(func() { ran = true })
		if !ran {
			t.Error("caller did not run the task")
		}
		close(release)
		check(110, "in the end")
		if p.running != 0 || len(p.queue) != 0 {
			t.Errorf("running tasks = %d, queued tasks = %d, want 0", p.running, len(p.queue))
		}
	})
}

func TestCommandsRunInParallelUnderLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestBroker(t)
		start(t, Options{Identity: "b1", MQTT: &MQTTOptions{Dial: w.dial},
			Catalogue: &Catalogue{Fetch: FetchNever, InstallTime: Delay{Min: Duration(10 * time.Second)}}})
		w.next("base/heart")
		begun := time.Now()
		for _, v := range []string{"1", "2"} {
			w.send("koupleless_dev/b1/installBiz", `{"bizName":"biz1","bizVersion":"`+v+`","bizUrl":"http://h/x.jar"}`)
			synctest.Wait() // until the command has its lock, because commands run concurrently
		}
		w.send("koupleless_dev/b1/uninstallBiz", `{"bizName":"biz1","bizVersion":"1"}`)
		first := w.data("base/bizOperation")
		if d := cmp.Diff("FAILED:biz1:1 uninstallBiz conflict, exist unfinished command(installBiz) for this biz",
			first["response"].(map[string]any)["message"]); d != "" {
			t.Errorf("conflict (-want +got):\n%s", d)
		}
		w.next("base/bizOperation")
		w.next("base/bizOperation")
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("concurrent installs of two versions completed after %s, want 10s", took)
		}
	})
}

func TestIdentitiesOfProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Options{IP: "10.0.0.7"})
		if err != nil {
			t.Fatal(err)
		}
		if c.Identity() != "10.0.0.7" {
			t.Errorf("Identity() = %q, want the IP", c.Identity())
		}
		b := start(t, Options{Generation: GenerationB})
		first := b.Identity()
		synctest.Wait()
		if err := b.Restart(""); err != nil {
			t.Fatal(err)
		}
		sleep(minRestart)
		synctest.Wait()
		if second := b.Identity(); len(first) != 36 || len(second) != 36 || first == second {
			t.Errorf("identities %q and %q of two processes, want two UUIDs", first, second)
		}
	})
}

func TestEnvIsLowerCased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestBroker(t)
		start(t, Options{Identity: "b1", Env: "PROD", MQTT: &MQTTOptions{Dial: w.dial}})
		w.next("koupleless_prod/b1/base/heart")
	})
}

// published returns the field publishTimestamp of a message.
func published(t *testing.T, payload []byte) time.Time {
	t.Helper()
	var e struct {
		PublishTimestamp int64 `json:"publishTimestamp"`
	}
	if err := json.Unmarshal(payload, &e); err != nil {
		t.Fatalf("%v: %s", err, payload)
	}
	return time.UnixMilli(e.PublishTimestamp)
}
