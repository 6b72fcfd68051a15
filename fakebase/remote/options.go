package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
)

// Options describe a base to another process.
type Options struct {
	// Options of the base. Of the fields without a JSON form, Logger is that of Serve, and the others have their defaults.
	// If the base listens on all addresses, its Status has addresses with its IP.
	fakebase.Options
	// BrokerCA is the authority of an ssl broker, in PEM. Default: the system's.
	BrokerCA []byte
	// BrokerCert and BrokerKey are a client certificate for it, in PEM. Default: none.
	BrokerCert, BrokerKey []byte
	// Ahead says how far the clock of the process, which may run on another machine, is ahead of this
	// one's: what the base tells has the times of this one. It is called by New and Renew. Default: not
	// at all.
	Ahead func() time.Duration `json:"-"`
}

// ahead is Ahead with its default.
func (o *Options) ahead() time.Duration {
	if o.Ahead == nil {
		return 0
	}
	return o.Ahead()
}

// brokerTLS is nil when the broker needs nothing but the system's authorities.
func (o *Options) brokerTLS() (*tls.Config, error) {
	if len(o.BrokerCA) == 0 && len(o.BrokerCert) == 0 {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(o.BrokerCA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(o.BrokerCA) {
			return nil, errors.New("BrokerCA holds no PEM certificate")
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
