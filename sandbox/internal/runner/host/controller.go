package host

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// stopTimeout is how long a controller may take to stop and release its Leases.
const stopTimeout = 3 * time.Second

// Controller runs the bundled module controller. All fields except KubeletClientCA are required.
type Controller struct {
	Sandbox
	// Path is the path of the module-controller binary.
	Path string
	// Host is the address of this machine at which the API server connects to the controller to request logs and exec
	// of module Pods.
	Host string
	// KubeletClientCA is the path of the CA certificate that verifies the client certificate of the API server. If it
	// is empty, the controller does not serve logs and exec.
	KubeletClientCA string
	// BaseLog is the path of the log file of the bases. The controller serves their lines with the logs of modules.
	BaseLog string
	// Token is the token that HTTP heartbeats must contain. Without a token, a web page in a browser on this machine
	// could send a heartbeat for a base with any local port, and the controller would send commands to this port.
	Token string
	// IssueServingCert issues the serving certificate for Host.
	IssueServingCert func(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error)

	kubelet map[string]string // environment variables; set once, because a new certificate would restart the processes
}

var _ Program = (*Controller)(nil)

// Settings implements Program. It returns the environment variables of the controller. They are described in document
// 5.4 of Module Controller V2.
func (c *Controller) Settings(i Instance) (any, error) { return c.settings(i) }

func (c *Controller) settings(i Instance) (map[string]string, error) {
	host, brokerPort, _ := net.SplitHostPort(c.Broker.Addr()) // valid: the address of a listener
	if err := c.serveKubelet(); err != nil {
		return nil, err
	}
	login := c.Broker.Controller()
	env := map[string]string{
		"ENABLE_MQTT_TUNNEL":      "true",
		"MQTT_BROKER":             host,
		"MQTT_PORT":               brokerPort,
		"MQTT_USERNAME":           login.User,
		"MQTT_PASSWORD":           login.Password,
		"MQTT_CLIENT_PREFIX":      c.ClientPrefix,
		"ENABLE_HTTP_TUNNEL":      "true",
		"HTTP_TUNNEL_LISTEN_HOST": Loopback,
		"HTTP_TUNNEL_TOKEN":       c.Token,
		"HTTP_TUNNEL_PROXY":       "http://" + c.Gateway,
		"BASE_NETWORKS":           runner.AllNetworks,
		"ENV":                     c.Env,
		"CLIENT_ID":               i.ClientID,
		"KUBECONFIG":              cmp.Or(i.Kubeconfig, c.Kubeconfig),
	}
	if ca := c.Broker.CAFile(); ca != "" {
		env["MQTT_CA_PATH"] = ca
	}
	if c.Speed > 1 {
		env["TIME_SCALE"] = strconv.Itoa(c.Speed)
	}
	if *i.Config.Replicas > 1 {
		env["IS_CLUSTER"] = "true"
	}
	maps.Copy(env, runner.Limits())
	maps.Copy(env, c.kubelet)
	maps.Copy(env, i.Config.Env)
	return env, nil
}

// serveKubelet sets the environment variables that make the controller serve logs and exec of module Pods to the API
// server. It issues the serving certificate on the first call.
func (c *Controller) serveKubelet() error {
	if c.KubeletClientCA == "" || c.kubelet != nil {
		return nil
	}
	certPEM, keyPEM, _, err := c.IssueServingCert(c.Host)
	certFile, keyFile := c.Dir.KubeletCert()
	if err == nil {
		err = errors.Join(state.WriteFile(certFile, certPEM), state.WriteFile(keyFile, keyPEM))
	}
	if err != nil {
		return fmt.Errorf("issuing the certificate for logs and exec: %w", err)
	}
	c.kubelet = map[string]string{
		"KUBELET_PROXY_ENABLED": "true",
		"KUBELET_HOST":          c.Host,
		"KUBELET_PROXY_PORT":    "0",
		"KUBELET_TLS_CERT":      certFile,
		"KUBELET_TLS_KEY":       keyFile,
		"KUBELET_CLIENT_CA":     c.KubeletClientCA,
		"BASE_LOG_FILE":         c.BaseLog,
	}
	return nil
}

// Process implements Program.
func (c *Controller) Process(i Instance) (supervise.Spec, error) {
	settings, err := c.settings(i)
	if err != nil {
		return supervise.Spec{}, err
	}
	maps.Copy(settings, map[string]string{
		"METRICS_ADDR": i.Metrics, "HEALTH_ADDR": i.Health, "HTTP_TUNNEL_LISTEN_PORT": portOf(i.Heartbeats),
	})
	return supervise.Spec{
		Name:        i.Name,
		Path:        c.Path,
		Env:         envList(settings),
		Dir:         string(c.Dir),
		LogFile:     c.Dir.Log(i.Name),
		Metrics:     "http://" + i.Metrics + "/metrics",
		Ready:       httpReady("http://" + i.Health + "/tunnelz"),
		StopTimeout: stopTimeout,
	}, nil
}

func envList(env map[string]string) []string {
	all := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}
