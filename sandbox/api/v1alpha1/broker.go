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

// BrokerAddress is what the URL of a broker says.
type BrokerAddress struct {
	// Addr is host:port.
	Addr string
	// TLS tells whether TLS is spoken there.
	TLS bool
	// Username is empty when the URL holds none.
	Username string
}

// brokerSchemes are the spellings that MQTT clients know, and the port of each.
var brokerSchemes = map[string]struct {
	tls  bool
	port int
}{
	"mqtt": {false, 1883}, "tcp": {false, 1883},
	"mqtts": {true, 8883}, "ssl": {true, 8883}, "tls": {true, 8883},
}

// ParseBrokerURL reads the URL of a broker. The error, which never holds a password, is one
// sentence.
func ParseBrokerURL(text string) (BrokerAddress, error) {
	u, err := url.Parse(text)
	if err != nil { // whose text may hold a password
		return BrokerAddress{}, errors.New("is no URL: write mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS")
	}
	scheme, known := brokerSchemes[strings.ToLower(u.Scheme)]
	if _, has := u.User.Password(); has {
		return BrokerAddress{},
			errors.New("must hold no password, which would show in lists of processes: give it by passwordFile or " +
				"$KOUPSANDBOX_BROKER_PASSWORD")
	}
	if !known || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return BrokerAddress{}, errors.New("must be mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS, and nothing more")
	}
	port := scheme.port
	if p := u.Port(); p != "" {
		port, err = strconv.Atoi(p)
		if err != nil || port < 1 || port > 65535 {
			return BrokerAddress{}, fmt.Errorf("has the port %s: it must be between 1 and 65535", p)
		}
	}
	return BrokerAddress{Addr: net.JoinHostPort(u.Hostname(), strconv.Itoa(port)), TLS: scheme.tls,
		Username: u.User.Username()}, nil
}

func moveUser(b *Broker) {
	at, err := ParseBrokerURL(b.URL)
	if err != nil || at.Username == "" || b.Username != "" && b.Username != at.Username {
		return // Validate says what is wrong
	}
	u, err := url.Parse(b.URL)
	if err != nil { // it was parsed just now
		return
	}
	u.User = nil
	b.URL, b.Username = u.String(), at.Username
}

func (v *validator) broker(b *Broker, path *field.Path) {
	if b.URL == "" {
		theirs := *b
		theirs.Port, theirs.TLS = 0, false
		for _, name := range given(&theirs) {
			v.forbid(path.Child(name), "is for a broker that you have: name it in spec.broker.url, or remove this")
		}
		return
	}
	at, err := ParseBrokerURL(b.URL)
	if err != nil { // without the value, which may hold a password
		v.forbid(path.Child("url"), "%s", err)
		return
	}
	if at.Username != "" { // the defaults would have moved it
		v.invalid(path.Child("username"), b.Username,
			"is not the user name %q of spec.broker.url: remove one of the two", at.Username)
	}
	if b.PasswordFile != "" && b.Username == "" && at.Username == "" {
		v.add(field.Required(path.Child("username"), "a password is of a user: name it, or remove passwordFile"))
	}
	if (b.CertFile == "") != (b.KeyFile == "") {
		v.invalid(path.Child("certFile"), b.CertFile, "goes together with keyFile: give both or none")
	}
	for _, name := range given(&Broker{CAFile: b.CAFile, CertFile: b.CertFile}) {
		if !at.TLS {
			v.forbid(path.Child(name), "is for a broker with TLS: use mqtts:// in spec.broker.url, or remove this")
		}
	}
}
