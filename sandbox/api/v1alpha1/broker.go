package v1alpha1

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// BrokerAddress is the parsed URL of a broker.
type BrokerAddress struct {
	// Addr is the broker address in the form host:port.
	Addr string
	// TLS reports whether the broker uses TLS.
	TLS bool
	// Username is the user name in the URL. It is empty if the URL has none.
	Username string
}

// brokerSchemes maps the URL schemes that MQTT clients accept to their default ports.
var brokerSchemes = map[string]struct {
	tls  bool
	port int
}{
	"mqtt": {false, 1883}, "tcp": {false, 1883},
	"mqtts": {true, 8883}, "ssl": {true, 8883}, "tls": {true, 8883},
}

// ParseBrokerURL parses a broker URL. The error is one sentence and never contains a password.
func ParseBrokerURL(text string) (BrokerAddress, error) {
	u, err := url.Parse(text)
	if err != nil { // the text of err may contain a password
		return BrokerAddress{}, errors.New("is not a URL; use mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS")
	}
	scheme, known := brokerSchemes[strings.ToLower(u.Scheme)]
	if _, has := u.User.Password(); has {
		return BrokerAddress{},
			errors.New("must not contain a password, which process lists would show; use passwordFile or " +
				"$KOUPSANDBOX_BROKER_PASSWORD")
	}
	if !known || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return BrokerAddress{},
			errors.New("must be mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS, without a path or a query")
	}
	port := scheme.port
	if p := u.Port(); p != "" {
		port, err = strconv.Atoi(p)
		if err != nil || port < 1 || port > 65535 {
			return BrokerAddress{}, fmt.Errorf("has the port %q; use a port from 1 to 65535", p)
		}
	}
	return BrokerAddress{Addr: net.JoinHostPort(u.Hostname(), strconv.Itoa(port)), TLS: scheme.tls,
		Username: u.User.Username()}, nil
}

// moveUser moves the user name from the broker URL to the field Username.
func moveUser(b *Broker) {
	at, err := ParseBrokerURL(b.URL)
	if err != nil || at.Username == "" || b.Username != "" && b.Username != at.Username {
		return // Validate reports the error
	}
	u, err := url.Parse(b.URL)
	if err != nil { // ParseBrokerURL has parsed it
		return
	}
	u.User = nil
	b.URL, b.Username = u.String(), at.Username
}

func (v *validator) broker(b *Broker, path *field.Path) {
	if b.URL == "" {
		external := *b
		external.Port, external.TLS = 0, false
		for _, name := range nonZeroFields(&external) {
			v.forbid(path.Child(name), "requires an external broker; set spec.broker.url, or remove this field")
		}
		return
	}
	at, err := ParseBrokerURL(b.URL)
	if err != nil { // the value, which may contain a password, is not reported
		v.forbid(path.Child("url"), "%s", err)
		return
	}
	if at.Username != "" { // SetDefaults moves it unless the names differ
		v.invalid(path.Child("username"), b.Username,
			"is not the user name %q of spec.broker.url; remove one of them", at.Username)
	}
	if b.PasswordFile != "" && b.Username == "" && at.Username == "" {
		v.add(field.Required(path.Child("username"),
			"set the user name for passwordFile, or remove passwordFile"))
	}
	if (b.CertFile == "") != (b.KeyFile == "") {
		v.invalid(path.Child("certFile"), b.CertFile, "must be set together with keyFile; set both or neither")
	}
	for _, name := range nonZeroFields(&Broker{CAFile: b.CAFile, CertFile: b.CertFile}) {
		if !at.TLS {
			v.forbid(path.Child(name),
				"requires a broker with TLS; use mqtts:// in spec.broker.url, or remove this field")
		}
	}
}
