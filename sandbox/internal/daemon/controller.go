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
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
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

// startController starts the module controller and waits until it is ready.
func (d *Daemon) startController(ctx context.Context, kubeconfig string) error {
	kubelet, err := d.kubeletEnv()
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		ports, err := freePorts(2)
		if err != nil {
			return fmt.Errorf("finding free ports for %s: %w", controllerName, err)
		}
		if err := d.supervisor.Start(ctx, d.controllerSpec(kubeconfig, ports[0], ports[1], kubelet)); err != nil {
			return err
		}
		err = d.supervisor.WaitReady(ctx, controllerName)
		var notReady *supervise.NotReadyError
		if !errors.As(err, &notReady) || !notReady.Exited || !taken(ports) || attempt == portAttempts {
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

// controllerSpec passes the settings as the documents name them (Module
// Controller V2 document 5.4).
func (d *Daemon) controllerSpec(kubeconfig, metrics, health string, kubelet map[string]string) supervise.Spec {
	s := d.now()
	host, port, _ := net.SplitHostPort(s.mqtt.addr) // the address of a listener has both
	env := map[string]string{
		"ENABLE_MQTT_TUNNEL": "true",
		"MQTT_BROKER":        host,
		"MQTT_PORT":          port,
		"MQTT_USERNAME":      broker.ControllerUser,
		"MQTT_PASSWORD":      s.mqtt.passwords.Controller,
		"MQTT_CLIENT_PREFIX": clientPrefix,
		"ENV":                s.config.Spec.Env,
		"CLIENT_ID":          uuid.NewString(),
		"KUBECONFIG":         kubeconfig,
		"METRICS_ADDR":       metrics,
		"HEALTH_ADDR":        health,
	}
	if s.mqtt.caFile != "" {
		env["MQTT_CA_PATH"] = s.mqtt.caFile
	}
	maps.Copy(env, kubelet)
	maps.Copy(env, s.config.Spec.Controller.Env)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	spec := supervise.Spec{
		Name:        controllerName,
		Path:        d.o.Programs.Controller,
		Env:         list,
		Dir:         string(d.o.Dir),
		LogFile:     d.o.Dir.Log(controllerName),
		Ready:       ready("http://" + health + "/readyz"),
		StopTimeout: controllerStop,
	}
	if s.platform.Hard() {
		spec.StopSignal = syscall.SIGKILL
	}
	return spec
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
