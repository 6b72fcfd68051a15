package mosquitto

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// answerTime is how long to wait for a response of the broker.
const answerTime = 20 * time.Second

// Connect connects to the broker as the user with all permissions. The caller must disconnect the client.
func (f *Files) Connect() (paho.Client, error) {
	authority, err := os.ReadFile(f.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA certificate of mosquitto: %w", err)
	}
	password, err := os.ReadFile(f.Passwords[User])
	if err != nil {
		return nil, fmt.Errorf("reading the password for mosquitto: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	c := paho.NewClient(paho.NewClientOptions().AddBroker("ssl://" + f.Addr).SetClientID("e2e-" + rand.Text()[:8]).
		SetUsername(User).SetPassword(string(password)).SetTLSConfig(
		&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}).
		SetAutoReconnect(false))
	if err := waitForToken(c.Connect()); err != nil {
		return nil, fmt.Errorf("connecting to mosquitto: %w", err)
	}
	return c, nil
}

// RetainedTopics returns the topics that have a retained message. It omits the broker's own status topics.
func (f *Files) RetainedTopics(ctx context.Context) ([]string, error) {
	c, err := f.Connect()
	if err != nil {
		return nil, err
	}
	defer c.Disconnect(0)
	end := "e2e/" + rand.Text()
	heard := make(chan paho.Message, 1000)
	if err := waitForToken(c.Subscribe("#", 1, func(_ paho.Client, m paho.Message) { heard <- m })); err != nil {
		return nil, fmt.Errorf("subscribing to mosquitto: %w", err)
	}
	// The broker delivers all retained messages before this one.
	if err := waitForToken(c.Publish(end, 1, false, "")); err != nil {
		return nil, fmt.Errorf("publishing to mosquitto: %w", err)
	}
	var topics []string
	for {
		select {
		case m := <-heard:
			if m.Topic() == end {
				return topics, nil
			}
			if m.Retained() && !strings.HasPrefix(m.Topic(), "$") {
				topics = append(topics, m.Topic())
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func waitForToken(token paho.Token) error {
	if !token.WaitTimeout(answerTime) {
		return errors.New("no response from mosquitto")
	}
	return token.Error()
}
