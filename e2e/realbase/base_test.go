package realbase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// Options configure a base. Jar, Log and Identity are required.
type Options struct {
	// Jar is the path of the base's jar that Maven built.
	Jar string
	// Log is the file to which the output of the JVM is appended.
	Log string
	// Identity, Name, Version, Env and IP are the values that the base reports. Defaults, except for Identity:
	// "realbase", "1.0.0", "dev" and "198.18.0.1".
	Identity, Name, Version, Env, IP string
	// Settings change how arklet responds. The zero value is a base without flags.
	Settings recording.Settings
	// Controller is the URL of a controller's HTTP tunnel, which receives heartbeats. Default: no HTTP tunnel.
	Controller string
	// Broker is host:port of an MQTT broker. Default: no MQTT tunnel.
	Broker, Username, Password string
	// Downloads is an empty directory to which the base downloads jars. If it is not set, the base selects a
	// directory. It is required if Settings.Disk is set.
	Downloads string
	// JVM contains additional command-line options of the JVM.
	JVM []string
	// Host is the loopback address that clients use to connect to the base. The base itself listens on all addresses.
	// Default: 127.0.0.1.
	Host string
}

// Base is a real base. Start may be called once; the other methods may be called concurrently.
type Base struct {
	opts         Options
	arklet, web  string // host:port
	ready, ended chan struct{}
}

// New returns a base that is not started. It selects free ports for the base.
func New(o Options) (*Base, error) {
	for field, value := range map[*string]string{&o.Name: "realbase", &o.Version: "1.0.0", &o.Env: "dev",
		&o.IP: "198.18.0.1", &o.Host: "127.0.0.1"} {
		if *field == "" {
			*field = value
		}
	}
	b := &Base{opts: o, ready: make(chan struct{}), ended: make(chan struct{})}
	ports, err := freePorts(2)
	if err != nil {
		return nil, fmt.Errorf("finding ports for base %q: %w", o.Identity, err)
	}
	b.arklet, b.web = net.JoinHostPort(o.Host, ports[0]), net.JoinHostPort(o.Host, ports[1])
	return b, nil
}

// Arklet returns host:port of arklet's HTTP server.
func (b *Base) Arklet() string { return b.arklet }

// Web returns the URL of the base's web server, which its modules share.
func (b *Base) Web() string { return "http://" + b.web }

// Start runs the JVM, and blocks until the JVM has exited. When ctx ends, Start kills the JVM and returns nil. Start
// returns an error if the JVM exits for another reason, which the log of the base contains.
func (b *Base) Start(ctx context.Context) error {
	defer close(b.ended)
	log, err := os.OpenFile(b.opts.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of base %q: %w", b.opts.Identity, err)
	}
	defer func() { _ = log.Close() }() // only the JVM writes to the file
	cmd := b.command(ctx)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting base %q: %w", b.opts.Identity, err)
	}
	probing, stop := context.WithCancel(ctx)
	probed := make(chan struct{})
	go func() {
		defer close(probed)
		b.probe(probing)
	}()
	err = cmd.Wait()
	stop()
	<-probed
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("base %q exited: %w; see %s", b.opts.Identity, err, b.opts.Log)
}

// WaitReady blocks until arklet responds. It returns an error if the JVM exits or ctx ends first.
func (b *Base) WaitReady(ctx context.Context) error {
	select {
	case <-b.ready:
		return nil
	case <-b.ended:
		return fmt.Errorf("base %q exited before arklet answered; see %s", b.opts.Identity, b.opts.Log)
	case <-ctx.Done():
		return fmt.Errorf("waiting for base %q: %w; see %s", b.opts.Identity, ctx.Err(), b.opts.Log)
	}
}

// probe closes b.ready when arklet responds. It blocks until then, or until ctx ends.
func (b *Base) probe(ctx context.Context) {
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		if _, err := b.Command(ctx, "queryAllBiz", "{}"); err == nil {
			tick.Stop()
			close(b.ready)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

// Command sends a command to arklet over HTTP and returns the body of the response.
func (b *Base) Command(ctx context.Context, command, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.arklet+"/"+command,
		strings.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("sending %[2]s to base %[1]q: %[3]w", b.opts.Identity, command, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("sending %[2]s to base %[1]q: %[3]w", b.opts.Identity, command, err)
	}
	defer func() { _ = response.Body.Close() }() // the body has been read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("sending %[2]s to base %[1]q: %[3]w", b.opts.Identity, command, err)
	}
	return string(text), nil
}

// Modules returns the installed modules as "name:version state", sorted.
func (b *Base) Modules(ctx context.Context) ([]string, error) {
	answer, err := b.Command(ctx, "queryAllBiz", "{}")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Data []struct{ BizName, BizVersion, BizState string }
	}
	if err := json.Unmarshal([]byte(answer), &doc); err != nil {
		return nil, fmt.Errorf("reading the modules of base %q from %s: %w", b.opts.Identity, answer, err)
	}
	var list []string
	for _, m := range doc.Data {
		list = append(list, m.BizName+":"+m.BizVersion+" "+m.BizState)
	}
	slices.Sort(list)
	return list, nil
}

// command returns the command that runs the JVM. If Settings.Disk is set, the directory Downloads is a separate small
// file system.
func (b *Base) command(ctx context.Context) *exec.Cmd {
	if b.opts.Settings.Disk == 0 {
		return exec.CommandContext(ctx, "java", b.arguments()...)
	}
	return onSmallDisk(ctx, b.opts.Settings.Disk, b.opts.Downloads, append([]string{"java"}, b.arguments()...)...)
}

// onSmallDisk returns a command that mounts a file system of the given size in KiB on a directory, and then runs
// command. The mount exists only in the mount namespace of the process.
func onSmallDisk(ctx context.Context, size int, folder string, command ...string) *exec.Cmd {
	const script = `mount -t tmpfs -o size="$1"k downloads "$2"; shift 2; exec "$@"`
	return exec.CommandContext(ctx, "unshare",
		append([]string{"--user", "--map-root-user", "--mount", "sh", "-ec", script, "sh",
			strconv.Itoa(size), folder}, command...)...)
}

// NoSmallDisk returns an error if this system does not support Settings.Disk, which needs unshare and user
// namespaces.
func NoSmallDisk(ctx context.Context, folder string) error {
	if out, err := onSmallDisk(ctx, 4, folder, "true").CombinedOutput(); err != nil {
		return fmt.Errorf("creating a small file system: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// arguments returns the arguments of the JVM. All settings are system properties, because arklet reads its settings
// only from them.
func (b *Base) arguments() []string {
	o := b.opts
	_, arkletPort, _ := net.SplitHostPort(b.arklet) // New created the address
	_, webPort, _ := net.SplitHostPort(b.web)
	metaspace := o.Settings.MaxMetaspace
	if metaspace == 0 {
		metaspace = 256
	}
	list := []string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // little memory, and a fast start
		fmt.Sprintf("-XX:MaxMetaspaceSize=%dm", metaspace),
		"-Dsofa.ark.telnet.server.enable=false",
		"-Dserver.port=" + webPort,
		"-Dkoupleless.arklet.http.port=" + arkletPort,
		"-Dkoupleless.arklet.custom.tunnel.classname=koupsandbox.base.BaseTunnel",
		"-Dkoupleless.arklet.custom.base.metadata.classname=koupsandbox.base.Identity",
		"-Drealbase.identity=" + o.Identity, "-Drealbase.name=" + o.Name, "-Drealbase.version=" + o.Version,
		"-Drealbase.env=" + o.Env, "-Drealbase.ip=" + o.IP,
	}
	switch o.Settings.Activation {
	case "new":
		list = append(list, "-Dactivate.new.module=true")
	case "multi":
		list = append(list, "-Dsofa.ark.activate.multi.biz.version.enable=true")
	}
	if o.Settings.KeepFailed {
		list = append(list, "-Dsofa.ark.auto.uninstall.when.failed.enable=false")
	}
	if o.Downloads != "" {
		list = append(list, "-Dcom.alipay.sofa.ark.biz.dir="+o.Downloads)
	}
	if o.Controller != "" {
		list = append(list, "-Dkoupleless.arklet.http.heartbeat.endpoint="+o.Controller)
	}
	if host, port, err := net.SplitHostPort(o.Broker); err == nil {
		list = append(list, "-Dkoupleless.arklet.mqtt.enable=true",
			"-Dkoupleless.arklet.mqtt.broker="+host, "-Dkoupleless.arklet.mqtt.port="+port,
			"-Dkoupleless.arklet.mqtt.username="+o.Username, "-Dkoupleless.arklet.mqtt.password="+o.Password,
			"-Dkoupleless.arklet.mqtt.client.prefix=koupleless")
	}
	return append(append(list, o.JVM...), "-jar", o.Jar)
}

// firstPort and lastPort bound the ports of bases. The range is outside the ephemeral port range: a JVM takes seconds
// to start listening, and the operating system must not assign its port to another process in the meantime.
const firstPort, lastPort = 15000, 30000

// freePorts returns count different ports on which no process listens.
func freePorts(count int) ([]string, error) {
	var ports []string
	for attempts := 100; len(ports) < count; attempts-- {
		port := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort))
		l, err := net.Listen("tcp", ":"+port)
		switch {
		case err == nil:
			defer func() { _ = l.Close() }() // the listener has no connections
			ports = append(ports, port)
		case attempts == 0:
			return nil, err
		}
	}
	return ports, nil
}
