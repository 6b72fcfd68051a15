// Package mosquitto runs Eclipse Mosquitto for tests, with TLS, a password for each user, and an access list. All limits
// have their defaults.
package mosquitto

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/util/cert"
)

const (
	// User has all permissions.
	User = "koup"
	// Guest has permissions only in the environment GuestEnv.
	Guest = "guest"
	// GuestEnv is the environment of Guest.
	GuestEnv = "guests"

	configFile, certFile, keyFile, passwordsFile, accessFile = "mosquitto.conf", "server.crt", "server.key", "passwords", "access"
)

// Files are the files of a broker.
type Files struct {
	// Addr is host:port, for clients on this machine.
	Addr string
	// CAFile is the CA certificate of the broker.
	CAFile string
	// Passwords has the path of a password file for each user.
	Passwords map[string]string
}

// Write creates the files of a broker in an existing directory. The broker will listen on the address listen, with a
// certificate for the hosts, which are IP addresses. It will find its files in the directory at.
func Write(folder, listen string, hosts []string, at, systemUser string) (*Files, error) {
	f := &Files{CAFile: filepath.Join(folder, certFile), Passwords: map[string]string{}}
	ips := make([]net.IP, len(hosts))
	for i, host := range hosts {
		ips[i] = net.ParseIP(host)
	}
	// signed by an authority of its own, which comes with it
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(hosts[0], ips, nil)
	if err != nil {
		return nil, fmt.Errorf("creating a certificate for mosquitto: %w", err)
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("parsing the listen address of mosquitto: %w", err)
	}
	f.Addr = net.JoinHostPort(hosts[0], port)
	text := map[string]string{
		certFile: string(certPEM), keyFile: string(keyPEM),
		accessFile: fmt.Sprintf("user %s\ntopic readwrite #\nuser %s\ntopic readwrite koupleless_%s/#\n", User, Guest,
			GuestEnv),
		configFile: strings.Join([]string{
			"listener " + port + " " + host,
			"certfile " + filepath.Join(at, certFile), "keyfile " + filepath.Join(at, keyFile),
			"allow_anonymous false", "password_file " + filepath.Join(at, passwordsFile),
			"acl_file " + filepath.Join(at, accessFile),
			"user " + systemUser, "log_dest stderr", "",
		}, "\n"),
	}
	var passwords strings.Builder
	for _, user := range []string{User, Guest} {
		password := rand.Text()
		hash, err := hashed(password)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&passwords, "%s:%s\n", user, hash)
		text["password-"+user] = password
		f.Passwords[user] = filepath.Join(folder, "password-"+user)
	}
	text[passwordsFile] = passwords.String()
	var errs []error
	for name, content := range text {
		errs = append(errs, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	return f, errors.Join(errs...)
}

// URL returns the URL of the broker.
func (f *Files) URL() string { return "mqtts://" + f.Addr }

// hashed returns a password in the format of mosquitto_passwd: $7$ITERATIONS$SALT$HASH, with PBKDF2 and SHA-512.
func hashed(password string) (string, error) {
	const iterations, saltLength = 101, 12
	salt := make([]byte, saltLength)
	_, _ = rand.Read(salt) // it never fails
	key, err := pbkdf2.Key(sha512.New, password, salt, iterations, sha512.Size)
	if err != nil {
		return "", fmt.Errorf("hashing a password for mosquitto: %w", err)
	}
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("$7$%d$%s$%s", iterations, encode(salt), encode(key)), nil
}
