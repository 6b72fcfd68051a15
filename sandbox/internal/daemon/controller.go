package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/incluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const (
	controllerName = "module-controller"
	// clientPrefix begins the client ids of controller and bases.
	clientPrefix = "koupleless"
	// portAttempts is how often the controller is started with other ports when
	// one was taken between picking and listening.
	portAttempts = 3
	// probeTimeout bounds one question: a paused process never answers.
	probeTimeout = time.Second
	// controllerStop is how long the controller may take to give up its leases.
	controllerStop = 3 * time.Second
)

// replica is one of the module controllers.
type replica struct {
	name string
	// clientID stays the same through restarts: Leases name it.
	clientID string
	// settings are its variables, those apart that name ports; nil before its start.
	settings map[string]string
}

// SetController brings the module controllers to what is asked, and returns what
// was before. When they do not get ready it puts that back.
func (d *Daemon) SetController(ctx context.Context, r control.ControllerRequest) (control.ControllerRequest, error) {
	ctx, release, err := d.changing(ctx)
	if err != nil {
		return control.ControllerRequest{}, err
	}
	defer release()
	before := d.now().controllers
	if _, err := d.controllerConfig(r); err != nil {
		return before, &control.Error{Code: http.StatusBadRequest, Message: err.Error()}
	}
	wait := d.now().config.Spec.Wait.Duration
	limited, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("not within %s", wait))
	defer cancel()
	if err = d.setControllers(limited, r); err == nil {
		return before, nil
	}
	back, enough, usingErr := d.using(context.WithoutCancel(ctx))
	if usingErr != nil {
		return before, err
	}
	defer enough()
	return before, errors.Join(err, d.setControllers(back, before))
}

// controllerConfig is the configuration of the controllers with a request upon it.
func (d *Daemon) controllerConfig(r control.ControllerRequest) (v1alpha1.Controller, error) {
	config := *d.now().config
	c := &config.Spec.Controller
	if r.Replicas != 0 {
		c.Replicas = &r.Replicas
	}
	if len(r.Env) > 0 {
		c.Env = maps.Clone(c.Env)
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		maps.Copy(c.Env, r.Env)
	}
	return *c, v1alpha1.Validate(&config).ToAggregate()
}

// setControllers starts the controllers that are missing, starts again those that
// have other settings, removes those too many, and waits until all are ready. Whoever
// calls it has the right to change the sandbox.
func (d *Daemon) setControllers(ctx context.Context, r control.ControllerRequest) error {
	config, err := d.controllerConfig(r)
	if err != nil {
		return err
	}
	d.made(func(s *sandbox) { s.controllers = r })
	if inCluster(d.now().config) {
		return d.deployControllers(ctx, config)
	}
	want := *config.Replicas
	for len(d.replicas) > want { // what it gives up, the others take at once
		last := d.replicas[len(d.replicas)-1]
		if err := d.supervisor.Remove(ctx, last.name); err != nil {
			return err
		}
		d.hearts.set(last.name, "")
		d.replicas = d.replicas[:len(d.replicas)-1]
	}
	for len(d.replicas) < want {
		d.replicas = append(d.replicas, &replica{name: incluster.NameOf(len(d.replicas) + 1), clientID: uuid.NewString()})
	}
	kubelet, err := d.kubeletEnv()
	if err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(ctx)
	for _, c := range d.replicas {
		settings := d.settings(c, config, kubelet)
		if maps.Equal(settings, c.settings) && d.state(ctx, c.name) == supervise.Running {
			continue
		}
		group.Go(func() error { return d.startController(gctx, c, settings) })
	}
	return group.Wait()
}

// startController starts a controller anew and waits until it is ready.
func (d *Daemon) startController(ctx context.Context, c *replica, settings map[string]string) error {
	c.settings = nil
	if err := d.supervisor.Stop(ctx, c.name); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		ports, err := freePorts(3)
		if err != nil {
			return fmt.Errorf("finding free ports for %s: %w", c.name, err)
		}
		metrics, health, hearts := ports[0], ports[1], ports[2]
		_, port, _ := net.SplitHostPort(hearts) // of a listener
		env := maps.Clone(settings)
		maps.Copy(env, map[string]string{"METRICS_ADDR": metrics, "HEALTH_ADDR": health, "HTTP_TUNNEL_LISTEN_PORT": port})
		if err := d.supervisor.Start(ctx, d.controllerSpec(c.name, env, health)); err != nil {
			return err
		}
		d.hearts.set(c.name, hearts)
		err = d.supervisor.WaitReady(ctx, c.name)
		var notReady *supervise.NotReadyError
		if !errors.As(err, &notReady) || !notReady.Exited || !taken(ports) || attempt == portAttempts {
			if err == nil {
				c.settings = settings
			}
			return err
		}
	}
}

// kubeletEnv has the controller serve logs and exec of module Pods where the API
// server can reach it, with a certificate that the API server trusts.
func (d *Daemon) kubeletEnv() (map[string]string, error) {
	p := d.now().platform
	clientCA := p.KubeletClientCA()
	if clientCA == "" {
		return nil, nil
	}
	host := p.Host()
	certPEM, keyPEM, _, err := p.Serving(host)
	certFile, keyFile := d.o.Dir.KubeletCert()
	if err == nil {
		err = errors.Join(state.WriteFile(certFile, certPEM), state.WriteFile(keyFile, keyPEM))
	}
	if err != nil {
		return nil, fmt.Errorf("making the certificate for logs and exec: %w", err)
	}
	return map[string]string{
		"KUBELET_PROXY_ENABLED": "true",
		"KUBELET_HOST":          host,
		"KUBELET_PROXY_PORT":    "0",
		"KUBELET_TLS_CERT":      certFile,
		"KUBELET_TLS_KEY":       keyFile,
		"KUBELET_CLIENT_CA":     clientCA,
	}, nil
}

// settings of a controller as the documents name them (Module Controller V2
// document 5.4).
func (d *Daemon) settings(c *replica, config v1alpha1.Controller, kubelet map[string]string) map[string]string {
	s := d.now()
	host, port, _ := net.SplitHostPort(s.mqtt.addr) // the address of a listener has both
	env := map[string]string{
		"ENABLE_MQTT_TUNNEL":      "true",
		"MQTT_BROKER":             host,
		"MQTT_PORT":               port,
		"MQTT_USERNAME":           s.mqtt.controller.user,
		"MQTT_PASSWORD":           s.mqtt.controller.password,
		"MQTT_CLIENT_PREFIX":      clientPrefix,
		"ENABLE_HTTP_TUNNEL":      "true",
		"HTTP_TUNNEL_LISTEN_HOST": "127.0.0.1",
		"HTTP_TUNNEL_PROXY":       "http://" + s.gateway,
		"ENV":                     s.config.Spec.Env,
		"CLIENT_ID":               c.clientID,
		"KUBECONFIG":              s.kubeconfig,
	}
	if s.mqtt.caFile != "" {
		env["MQTT_CA_PATH"] = s.mqtt.caFile
	}
	if *config.Replicas > 1 {
		env["IS_CLUSTER"] = "true"
	}
	maps.Copy(env, kubelet)
	maps.Copy(env, config.Env)
	return env
}

func (d *Daemon) controllerSpec(name string, env map[string]string, health string) supervise.Spec {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return supervise.Spec{
		Name:        name,
		Path:        d.o.Programs.Controller,
		Env:         list,
		Dir:         string(d.o.Dir),
		LogFile:     d.o.Dir.Log(name),
		Ready:       ready("http://" + health + "/readyz"),
		StopTimeout: controllerStop,
	}
}

// endControllers ends all controllers at once, without a word if nothing that they
// would tidy up outlives them.
func (d *Daemon) endControllers(ctx context.Context) error {
	s := d.now()
	errs := make([]error, len(d.replicas))
	var wg sync.WaitGroup
	for i, c := range d.replicas {
		wg.Go(func() {
			if s.platform.Hard() {
				if err := d.supervisor.Kill(c.name); !errors.Is(err, supervise.ErrUnknown) {
					errs[i] = err
				}
			}
			errs[i] = errors.Join(errs[i], d.supervisor.Stop(ctx, c.name))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ready asks a URL, and says what it answers when that is not 200.
func ready(url string) func(context.Context) error {
	client := &http.Client{Timeout: probeTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }() // what counts has been read
		body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s: %s", url, response.Status, body)
		}
		return nil
	}
}

// freePorts picks free loopback addresses; the listeners stay open until all are
// picked, so that no two are the same.
func freePorts(count int) ([]string, error) {
	var addrs []string
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // nothing was sent
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// taken tells whether somebody listens on one of the addresses.
func taken(addrs []string) bool {
	for _, addr := range addrs {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return true
		}
		_ = l.Close() // as above
	}
	return false
}
