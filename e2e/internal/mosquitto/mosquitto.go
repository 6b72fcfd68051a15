// Package mosquitto runs Eclipse Mosquitto for tests, with TLS, a password for each user, and an access control list.
// All limits have the defaults of Mosquitto.
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
	// User is the name of the user with all permissions.
	User = "koup"
	// Guest is the name of a user that has permissions only in the environment GuestEnv.
	Guest = "guest"
	// GuestEnv is the environment in which Guest has permissions.
	GuestEnv = "guests"

	configFile, certFile, keyFile, passwordsFile, accessFile = "mosquitto.conf", "server.crt", "server.key",
		"passwords", "access"
)

// Files contains the address of a broker and the paths of its files.
type Files struct {
	// Addr is the host:port to which clients on this machine connect.
	Addr string
	// CAFile is the CA certificate of the broker.
	CAFile string
	// Passwords contains the path of the password file of each user.
	Passwords map[string]string
}

// Write creates the files of a broker in an existing directory. The broker listens on the address listen and reads
// its files from the directory at. Its certificate is valid for hosts, which must be IP addresses.
func Write(folder, listen string, hosts []string, at, systemUser string) (*Files, error) {
	f := &Files{CAFile: filepath.Join(folder, certFile), Passwords: map[string]string{}}
	ips := make([]net.IP, len(hosts))
	for i, host := range hosts {
		ips[i] = net.ParseIP(host)
	}
	// The certificate is signed by a new CA.
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
		hash, err := hashPassword(password)
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

// hashPassword returns the hash of a password in the format of mosquitto_passwd: $7$ITERATIONS$SALT$HASH, with PBKDF2
// and SHA-512.
func hashPassword(password string) (string, error) {
	const iterations, saltLength = 101, 12
	salt := make([]byte, saltLength)
	_, _ = rand.Read(salt) // rand.Read never returns an error
	key, err := pbkdf2.Key(sha512.New, password, salt, iterations, sha512.Size)
	if err != nil {
		return "", fmt.Errorf("hashing a password for mosquitto: %w", err)
	}
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("$7$%d$%s$%s", iterations, encode(salt), encode(key)), nil
}
