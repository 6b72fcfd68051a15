package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/fakebase"
)

// maxCount is the maximum number of bases in one process. Tests have confirmed that one process can run this many
// bases.
const maxCount = 10000

var activations = map[string]fakebase.Activation{
	"default": fakebase.ActivateDefault,
	"new":     fakebase.ActivateNewModule,
	"multi":   fakebase.ActivateMulti,
}

func options(c *cli.Context, logger *slog.Logger) ([]fakebase.Options, error) {
	count := c.Int("count")
	if count < 1 || count > maxCount {
		return nil, fmt.Errorf("--count %d: must be from 1 to %d", count, maxCount)
	}
	activation, known := activations[c.String("activation")]
	if !known {
		return nil, fmt.Errorf("--activation %q: must be default, new or multi", c.String("activation"))
	}
	ip, err := netip.ParseAddr(c.String("ip"))
	if err != nil {
		return nil, fmt.Errorf("--ip %q: must be an IP address", c.String("ip"))
	}
	autoUninstall := c.Bool("auto-uninstall")
	common := fakebase.Options{
		Name: c.String("name"), Version: c.String("base-version"), ClusterName: c.String("cluster"),
		Env:        c.String("env"),
		Activation: activation, Generation: fakebase.Generation(c.String("generation")), Faithful: c.Bool("faithful"),
		WithAllBizReadiness:    c.Bool("with-all-biz-readiness"),
		SilenceBeforeUninstall: c.Duration("silence-before-uninstall"), AutoUninstallWhenFailed: &autoUninstall,
		StaticBiz: c.StringSlice("static-biz"), StartupTime: c.Duration("startup-time"),
		HeartbeatInterval: c.Duration("heartbeat-interval"), HeartbeatJitter: c.Duration("heartbeat-jitter"),
		Web: &fakebase.WebOptions{Addr: c.String("web-addr"), RequestDuration: c.Duration("request-duration")},
		Metaspace: fakebase.Metaspace{
			Max: c.Int64("metaspace-max"), Leak: c.Float64("metaspace-leak"), Threshold: c.Int("metaspace-threshold"),
		},
		Logger: logger,
	}
	common.MQTT, err = mqttOptions(c)
	if err != nil {
		return nil, err
	}
	if c.String("http") != "" || c.String("http-addr") != "" {
		common.HTTP = &fakebase.HTTPOptions{Addr: c.String("http-addr"), HeartbeatEndpoint: c.String("http")}
		common.HTTP.Client, err = heartbeatClient(c)
		if err != nil {
			return nil, err
		}
	}
	if common.MQTT == nil && common.HTTP == nil {
		return nil, errors.New("no tunnel is set; use --mqtt tcp://HOST:PORT, or --http http://HOST:PORT")
	}
	common.Catalogue = &fakebase.Catalogue{}
	if file := c.String("catalogue"); file != "" {
		if err := readYAML(file, common.Catalogue); err != nil {
			return nil, fmt.Errorf("--catalogue: %w", err)
		}
		if err := common.Catalogue.Validate(); err != nil {
			return nil, fmt.Errorf("--catalogue %s: %w", file, err)
		}
	}
	if file := c.String("faults"); file != "" {
		if err := readYAML(file, &common.Faults); err != nil {
			return nil, fmt.Errorf("--faults: %w", err)
		}
	}
	out := make([]fakebase.Options, count)
	for i := range out {
		o := common
		o.Identity, o.HostName, o.IP = c.String("identity"), c.String("host-name"), ip.String()
		if o.Identity == "" {
			o.Identity = uuid.NewString()
		} else if count > 1 {
			o.Identity += "-" + strconv.Itoa(i+1)
		}
		if o.HTTP != nil {
			o.HTTP, o.IP, err = listenAddress(*o.HTTP, ip, c.IsSet("ip"))
			if err != nil {
				return nil, err
			}
		}
		if o.HostName != "" && count > 1 {
			o.HostName += "-" + strconv.Itoa(i+1)
		}
		if seed := c.Uint64("seed"); seed != 0 {
			o.Seed = seed + uint64(i)
		}
		out[i] = o
		ip = ip.Next()
		if !ip.IsValid() {
			return nil, fmt.Errorf("--ip %s: not enough addresses for %d bases; use a lower address",
				c.String("ip"), count)
		}
	}
	return out, nil
}

// listenAddress returns the HTTP options of one base with its listen address, and the IP address that the base
// reports. Controllers connect to the reported address. If --ip is set to a loopback address, the base listens on
// that address, unless it listens on all addresses. If --ip is not set, the base reports the address on which it
// listens.
func listenAddress(h fakebase.HTTPOptions, ip netip.Addr, ipIsSet bool) (*fakebase.HTTPOptions, string, error) {
	host, port := "127.0.0.1", ""
	if h.Addr != "" {
		var err error
		host, port, err = net.SplitHostPort(h.Addr)
		if err != nil {
			return nil, "", fmt.Errorf("--http-addr %s: must be host:port: %w", h.Addr, err)
		}
	}
	at, err := netip.ParseAddr(host)
	all := host == "" || err == nil && at.IsUnspecified()
	switch {
	case !ipIsSet && (all || host == "localhost"):
		return &h, "127.0.0.1", nil
	case !ipIsSet && err == nil:
		return &h, host, nil
	case ipIsSet && ip.IsLoopback() && !all:
		h.Addr = net.JoinHostPort(ip.String(), port)
	}
	return &h, ip.String(), nil
}

func mqttOptions(c *cli.Context) (*fakebase.MQTTOptions, error) {
	if c.String("mqtt") == "" {
		return nil, nil
	}
	o := &fakebase.MQTTOptions{
		Broker: c.String("mqtt"), Username: c.String("mqtt-username"), Password: c.String("mqtt-password"),
		ClientPrefix: c.String("mqtt-client-prefix"),
	}
	var err error
	o.TLS, err = tlsFiles(c, "mqtt")
	return o, err
}

// tlsFiles reads the files of the flags --NAME-ca, --NAME-cert and --NAME-key. It returns nil if none of them is set.
func tlsFiles(c *cli.Context, name string) (*tls.Config, error) {
	ca, cert, key := c.String(name+"-ca"), c.String(name+"-cert"), c.String(name+"-key")
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("--%s-ca: %w", name, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--%s-ca %s: the file has no PEM certificate", name, ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("--%s-cert, --%s-key: %w", name, name, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// heartbeatClient returns the HTTP client for heartbeats, or nil if the heartbeats need neither a token nor TLS
// options. Real bases do not support either.
func heartbeatClient(c *cli.Context) (*http.Client, error) {
	token := c.String("http-token")
	config, err := tlsFiles(c, "http")
	if err != nil || config == nil && token == "" {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = config
	return &http.Client{Transport: bearer{t, token}, Timeout: heartbeatTimeout}, nil
}

// heartbeatTimeout is the timeout of a heartbeat request. A real base waits 30 s for the connection and 10 s for the
// response (protocol 4.1).
const heartbeatTimeout = 40 * time.Second

// bearer is an HTTP transport that adds a bearer token to requests, unless the token is empty.
type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.RoundTripper.RoundTrip(r)
}

// readYAML decodes a YAML or JSON file into a value whose type has JSON tags. It rejects unknown fields.
func readYAML(file string, into any) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
