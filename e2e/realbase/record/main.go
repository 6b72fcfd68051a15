// Command record runs every condition against a real base over both tunnels and
// writes what it answers to fakebase/testdata/real, anew. make record does it; the
// real base must have been built with make realbase.
//
//	main.go         one real base for each kind of settings, all conditions on it
//	conditions.go   what is provoked
//	places.go       jars, broken in one way each, and where they are
//	player.go       sends requests, and takes answers, over HTTP and MQTT
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/koupleless/koupsandbox/e2e/realbase"
	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// versions are those of java/pom.xml and of what it brings.
var versions = recording.Versions{Koupleless: "2.1.6", SofaArk: "3.1.7", SpringBoot: "3.2.12", Fastjson: "1.2.83", Java: "17"}

func main() {
	target := flag.String("jars", filepath.Join("e2e", "realbase", "target"), "folder with what make realbase has built")
	out := flag.String("out", filepath.Join("fakebase", "testdata", "real"), "folder for the recordings")
	only := flag.String("only", "", "a condition; empty: all, and what is in the folder goes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *target, *out, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, target, out, only string) error {
	if err := realbase.Missing(target); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "record")
	if err != nil {
		return fmt.Errorf("making a folder for jars: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // nothing of it is needed
	p, err := openPlaces(work, target)
	if err != nil {
		return err
	}
	defer p.close()
	if only == "" {
		for _, t := range []recording.Tunnel{recording.HTTP, recording.MQTT} {
			if err := os.RemoveAll(filepath.Join(out, string(t))); err != nil {
				return fmt.Errorf("removing old recordings: %w", err)
			}
		}
	}
	groups := map[recording.Settings][]condition{}
	var order []recording.Settings
	for _, c := range conditions() {
		if only != "" && c.name != only {
			continue
		}
		if groups[c.base] == nil {
			order = append(order, c.base)
		}
		groups[c.base] = append(groups[c.base], c)
	}
	for _, settings := range order {
		if err := record(ctx, p, settings, groups[settings], target, out); err != nil {
			return fmt.Errorf("recording with %+v: %w", settings, err)
		}
	}
	return nil
}

// startTime is how long a base may take to start on a busy machine.
const startTime = 3 * time.Minute

// record runs conditions on one real base, one after the other.
func record(ctx context.Context, p *places, settings recording.Settings, list []condition, target, out string) (err error) {
	b, err := openBroker()
	if err != nil {
		return err
	}
	defer b.close()
	base, err := realbase.New(realbase.Options{
		Jar: filepath.Join(target, realbase.BaseJar), Log: filepath.Join(target, "record.log"), Identity: "b1",
		Settings: settings, Broker: b.addr, Username: "any", Password: "any",
		// Arklet runs a command on the thread that reads from the connection, and all connections of that thread wait. With
		// the two for each core that it has by default, requests during an install would hit on it.
		JVM: []string{"-Dio.netty.eventLoopThreads=64"},
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- base.Start(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-done)
	}()
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := base.WaitReady(starting); err != nil {
		return err
	}
	if err := b.waitConnected(starting); err != nil {
		return err
	}
	for _, c := range list {
		for _, t := range []recording.Tunnel{recording.HTTP, recording.MQTT} {
			if c.only != "" && c.only != t {
				continue
			}
			r := recording.Recording{Condition: c.text, Tunnel: t, Base: settings, Simulate: c.simulate, Versions: versions, Jars: map[string]recording.Manifest{}}
			if t == recording.MQTT {
				r.Versions.MQTT = "the tunnel of e2e/realbase/java: upstream's is not on Maven Central"
			}
			for _, jar := range c.jars {
				r.Jars[jar] = p.manifests[jar]
			}
			pl := player{places: p, base: base, broker: b, tunnel: t}
			if r.Exchanges, err = pl.play(ctx, c.steps); err != nil {
				return fmt.Errorf("condition %s over %s: %w", c.name, t, err)
			}
			if err := r.Save(out, c.name); err != nil {
				return err
			}
			fmt.Println(t, c.name, len(r.Exchanges))
		}
	}
	return nil
}

// clean uninstalls whatever a condition has left.
func clean(ctx context.Context, base *realbase.Base) error {
	list, err := base.Modules(ctx)
	if err != nil {
		return err
	}
	for _, module := range list {
		identity, _, _ := strings.Cut(module, " ")
		name, version, _ := strings.Cut(identity, ":")
		if _, err := base.Command(ctx, "uninstallBiz", fmt.Sprintf(`{"bizName":%q,"bizVersion":%q}`, name, version)); err != nil {
			return err
		}
	}
	left, err := base.Modules(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("modules are left: %s", strings.Join(left, ", "))
	}
	return err
}
