package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
)

// Options configures a base that runs in another process.
type Options struct {
	// Options of the base. The fields without a JSON form have their defaults, except Logger, which is the logger of
	// Serve. If the base listens on all addresses, the addresses in its Status have the IP of the base.
	fakebase.Options
	// BrokerCA is the CA certificate for an ssl:// broker, in PEM format. Default: the system CA certificates.
	BrokerCA []byte
	// BrokerCert and BrokerKey are the client certificate for the broker and its private key, in PEM format. Default:
	// none.
	BrokerCert, BrokerKey []byte
	// ClockOffset returns the time by which the clock of the process is ahead of the local clock. It is used to
	// convert timestamps of the base to the local clock. New and Recreate call ClockOffset. Default: no offset.
	ClockOffset func() time.Duration `json:"-"`
}

// clockOffset returns the result of ClockOffset, or zero if ClockOffset is nil.
func (o *Options) clockOffset() time.Duration {
	if o.ClockOffset == nil {
		return 0
	}
	return o.ClockOffset()
}

// brokerTLS returns the TLS configuration for the broker connection. It returns nil if the options set no
// certificates.
func (o *Options) brokerTLS() (*tls.Config, error) {
	if len(o.BrokerCA) == 0 && len(o.BrokerCert) == 0 {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(o.BrokerCA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(o.BrokerCA) {
			return nil, errors.New("BrokerCA has no PEM certificate")
		}
	}
	if len(o.BrokerCert) > 0 {
		pair, err := tls.X509KeyPair(o.BrokerCert, o.BrokerKey)
		if err != nil {
			return nil, fmt.Errorf("BrokerCert and BrokerKey: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
