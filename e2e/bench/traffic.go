package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	loadRate   = 2000 // requests a second
	loadLength = 10 * time.Second
	loadQuick  = 2 * time.Second
	// loadBases have the module, and the Service all of them as endpoints.
	loadBases = 4
	// asked is how many requests go each way, to the base and through the gateway.
	asked = 3000
)

// traffic lets the generator send at a high rate, and asks through the gateway.
// Bases, gateway and generator are parts of the daemon: its processor time is that of both ends.
func traffic(ctx context.Context, b *bench) error {
	s, err := b.set(ctx, loadBases)
	if err != nil {
		return err
	}
	defer s.pods.stop()
	for _, reuse := range []bool{false, true} {
		if err := b.send(ctx, reuse); err != nil {
			return err
		}
	}
	return s.gateway(ctx) // at last: its DaemonSet goes to the bases of scenarios, too
}

// send runs the stream of requests.
func (b *bench) send(ctx context.Context, reuse bool) error {
	length, of := loadLength, "a connection for each request"
	if b.o.quick {
		length = loadQuick
	}
	if reuse {
		of = "connections that stay"
	}
	before, err := b.parts(ctx)
	if err != nil {
		return err
	}
	s, err := b.show(ctx, "--var", "rate="+strconv.Itoa(loadRate), "--var", "length="+length.String(),
		"--var", "reuse="+strconv.FormatBool(reuse), filepath.Join("e2e", "bench", "load.yaml"))
	if err != nil {
		return err
	}
	after, err := b.parts(ctx)
	if err != nil {
		return err
	}
	if len(s.report.Runs) != 1 || len(s.report.Runs[0].Traffic) != 1 {
		return errors.New("the scenario has sent no stream of requests")
	}
	t := s.report.Runs[0].Traffic[0]
	b.note(of+": requests", float64(t.Sent), "requests")
	b.note("  a second", float64(t.Sent)/t.Ended.Sub(t.Started).Seconds(), "requests")
	b.judge("  lost", float64(t.Summary.Lost), "requests", 0)
	for result, n := range t.Results {
		if result != "ok" {
			b.note("    "+string(result), float64(n), "requests")
		}
	}
	b.note("  sent too late by, most", t.Late.Seconds()*1e3, "ms")
	b.note("  answered after, p50", t.P50.Seconds()*1e3, "ms")
	b.note("  answered after, p99", t.P99.Seconds()*1e3, "ms")
	b.note("  processor time of the daemon, both ends", after[daemonPart].cpu-before[daemonPart].cpu, "s")
	b.note("    of a request", (after[daemonPart].cpu-before[daemonPart].cpu)*1e6/float64(t.Sent), "µs")
	return nil
}

// gateway asks a module again and again, its base's own listener and through the
// gateway in turn, so that whatever else the machine does hits both.
func (s *stage) gateway(ctx context.Context) error {
	if err := s.createEverywhere(ctx); err != nil {
		return err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	if _, err := s.client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the Service: %w", err)
	}
	up, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer up.Close()
	status, err := up.Status(ctx, false)
	if err != nil {
		return err
	}
	through := "http://" + app + "." + namespace + "/" + app
	reach := func(proxy func(*http.Request) (*url.URL, error)) *http.Client { // a connection for each request, as the gateway makes one, too
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: proxy}, Timeout: limit}
	}
	direct, proxied := reach(nil), reach(http.ProxyURL(&url.URL{Scheme: "http", Host: status.Gateway}))
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for err = ask(waiting, proxied, through); err != nil; err = ask(waiting, proxied, through) { // its endpoints come after its Pods are Ready
		if rest(waiting, lookEvery) != nil {
			return err
		}
	}
	bases, err := up.Bases(ctx, "")
	if err != nil {
		return err
	}
	var open []string // listeners open when a request first needs them
	for _, base := range bases {
		if base.WebAddr != "" {
			open = append(open, base.WebAddr)
		}
	}
	if len(open) == 0 {
		return errors.New("no base tells where it takes requests")
	}
	var own, gated []float64 // ms
	for i := range asked {
		for _, way := range []struct {
			client  *http.Client
			address string
			took    *[]float64
		}{{direct, "http://" + open[i%len(open)] + "/" + app, &own}, {proxied, through, &gated}} {
			start := time.Now()
			if err := ask(ctx, way.client, way.address); err != nil {
				return err
			}
			*way.took = append(*way.took, time.Since(start).Seconds()*1e3)
		}
	}
	slices.Sort(own)
	slices.Sort(gated)
	for _, q := range []int{50, 99} {
		at := asked * q / 100
		s.note(fmt.Sprintf("a request to the base itself, p%d", q), own[at], "ms")
		s.note(fmt.Sprintf("a request through the gateway, p%d", q), gated[at], "ms")
		s.note(fmt.Sprintf("what the gateway adds, p%d", q), gated[at]-own[at], "ms")
	}
	return nil
}

// ask sends a request and reads its answer.
func ask(ctx context.Context, client *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	defer func() { _ = response.Body.Close() }() // what counts has been read
	if _, err = io.Copy(io.Discard, response.Body); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", response.Status)
	}
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	return nil
}
