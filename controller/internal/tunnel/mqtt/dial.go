package mqtt

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"os"

	paho "github.com/eclipse/paho.mqtt.golang"
	"golang.org/x/net/proxy"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// dial connects to the broker as the library does, and limits the packets that the library receives.
func dial(broker *url.URL, o paho.ClientOptions) (net.Conn, error) {
	secure := broker.Scheme == "ssl"
	dialer := proxy.Dialer(o.Dialer)
	if !secure || os.Getenv("all_proxy") != "" { // the conditions of the library
		dialer = proxy.FromEnvironmentUsing(o.Dialer)
	}
	conn, err := dialer.Dial("tcp", broker.Host)
	if err != nil {
		return nil, err
	}
	if secure {
		config := o.TLSConfig.Clone()
		if config.ServerName == "" {
			config.ServerName = broker.Hostname()
		}
		ctx, cancel := context.WithTimeout(context.Background(), o.ConnectTimeout)
		defer cancel()
		over := tls.Client(conn, config)
		if err := over.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // the error of the handshake says more
			return nil, err
		}
		conn = over
	}
	return newPacketLimiter(conn, arklet.MaxPayload), nil
}
