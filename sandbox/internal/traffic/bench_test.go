package traffic

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"
)

// fourBases makes bases that answer at once behind a Service.
func fourBases(b *testing.B) *rig {
	r := newRig(b)
	createService(b, r.client, service())
	var list []Target
	for i := range 4 {
		host := fmt.Sprint("base-", i+1)
		list = append(list, Target{IP: fmt.Sprint("198.18.0.", i+1), Base: host, Host: host, Web: serve(b, answer(host, "biz1", "1"))})
	}
	r.bases.set(list...)
	offer(b, r.client, at("198.18.0.1", "a", ready), at("198.18.0.2", "b", ready), at("198.18.0.3", "c", ready), at("198.18.0.4", "d", ready))
	if err := r.gateway.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	eventually(b, func() error {
		_, err := r.gateway.Pick(shop)
		return err
	})
	return r
}

// BenchmarkOpenLoop sends 2,000 requests a second for ten seconds, with the bases in
// the same process: run it with -benchtime=1x.
func BenchmarkOpenLoop(b *testing.B) {
	for _, reuse := range []bool{false, true} {
		b.Run(fmt.Sprint("reuse=", reuse), func(b *testing.B) {
			r := fourBases(b)
			before := cpuTime(b)
			for i := range b.N {
				end := r.run(b, spec(fmt.Sprint("s", i), 2000, 20_000, viaService, timeout(patience), func(s *Spec) { s.Reuse = reuse }))
				if end.Lost > 0 {
					b.Fatalf("%+v", end.Summary)
				}
				b.ReportMetric(float64(end.Sent)/end.Ended.Sub(end.Started).Seconds(), "requests/s")
				b.ReportMetric(ms(end.Late), "late-max-ms")
				b.ReportMetric(ms(end.P50), "p50-ms")
				b.ReportMetric(ms(end.P99), "p99-ms")
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.Elapsed())*100, "%cpu")
		})
	}
}

// BenchmarkRequest is what one request costs on both sides together.
func BenchmarkRequest(b *testing.B) {
	for _, reuse := range []bool{false, true} {
		b.Run(fmt.Sprint("reuse=", reuse), func(b *testing.B) {
			r := fourBases(b)
			p, err := spec("s", 1, 1, viaService, func(s *Spec) { s.Reuse = reuse }).plan()
			if err != nil {
				b.Fatal(err)
			}
			picks, dial := r.generator.ways("g", &p, nil)
			q := newRequester("g", p, picks, dial)
			defer q.close()
			b.ReportAllocs()
			for b.Loop() {
				if o := q.do(b.Context()); o.result != OK {
					b.Fatalf("%+v", o)
				}
			}
		})
	}
}

// BenchmarkPick is what the gateway itself adds to a connection.
func BenchmarkPick(b *testing.B) {
	r := fourBases(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.gateway.Pick(shop); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProxy compares requests through the HTTP proxy with direct ones.
func BenchmarkProxy(b *testing.B) {
	r := fourBases(b)
	through, _ := proxied(b, r)
	direct := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for name, c := range map[string]struct {
		client *http.Client
		url    string
	}{
		"direct": {direct, "http://" + r.bases.Group("")[0].Web + "/biz1"},
		"proxy":  {through, "http://biz1.shop/biz1"},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, c.url, nil)
				if err != nil {
					b.Fatal(err)
				}
				resp, err := c.client.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
			b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
		})
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
