// Package state manages the files of sandboxes: one directory for each sandbox, which only its user can read.
package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Home is the path of the directory that contains the state directories of all sandboxes.
type Home string

// Dir returns the state directory of a sandbox. It does not create the directory.
func (h Home) Dir(name string) Dir { return Dir(filepath.Join(string(h), name)) }

// Names returns the names of all sandboxes that have a state directory, sorted.
func (h Home) Names() ([]string, error) {
	if err := h.CheckOwner(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(string(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the sandboxes: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Dir is the path of the state directory of a sandbox.
type Dir string

// Name returns the name of the sandbox.
func (d Dir) Name() string { return filepath.Base(string(d)) }

// Config returns the path of the file that contains the effective configuration: the configuration file combined with
// the flags and the defaults.
func (d Dir) Config() string { return d.file("sandbox.yaml") }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (d Dir) Kubeconfig() string { return d.file("kubeconfig") }

// ControllerKubeconfig returns the path of the module controller's kubeconfig.
func (d Dir) ControllerKubeconfig() string { return d.file("module-controller.kubeconfig") }

// HeartbeatToken returns the path of the file that contains the token for HTTP heartbeats. Bases send the token in
// the path of a heartbeat or as a bearer token.
func (d Dir) HeartbeatToken() string { return d.file("heartbeat.token") }

// ControllerToken returns the path of the file that contains the module controller's token for an existing cluster.
// The controller's kubeconfig refers to this file.
func (d Dir) ControllerToken() string { return d.file("module-controller.token") }

// Broker returns the path of the file that contains the broker address and passwords, for external bases.
func (d Dir) Broker() string { return d.file("broker.json") }

// KubeletCert returns the paths of the certificate and the key for the controller's logs and exec endpoint.
func (d Dir) KubeletCert() (cert, key string) {
	return d.file("kubelet.crt"), d.file("kubelet.key")
}

// BrokerCA returns the path of the CA certificate of the embedded broker.
func (d Dir) BrokerCA() string { return d.file("broker-ca.crt") }

// Run returns the path of the directory that contains the run records.
func (d Dir) Run() string { return d.file("run") }

// Logs returns the path of the log directory.
func (d Dir) Logs() string { return d.file("logs") }

// Log returns the path of a component's log file.
func (d Dir) Log(component string) string { return filepath.Join(d.Logs(), component+".log") }

const (
	locationFile = "place"
	// idFile is the name of the file that contains the ID of the sandbox. idLength is the length of the ID in
	// characters.
	idFile, idLength = "id", len("00000000")
	basesFile        = "bases"
	maxLabel         = 63
)

func (d Dir) file(name string) string { return filepath.Join(string(d), name) }

// Create creates the state directory with the ownership marker and the subdirectories. If the directory was not
// created by koupsandbox and is not empty, Create returns an error that wraps ErrNotOwned.
func (d Dir) Create() error {
	if _, err := d.Owned(); err != nil {
		return err
	}
	err := os.MkdirAll(string(d), 0o700)
	if err == nil {
		if err := d.CheckOwner(); err != nil { // another user may have created it in the meantime
			return err
		}
		err = d.mark()
	}
	for _, inner := range []string{d.Logs(), d.Run()} {
		if err == nil {
			err = os.MkdirAll(inner, 0o700)
		}
	}
	if err != nil {
		return fmt.Errorf("creating the state directory: %w; choose another directory with --home", err)
	}
	// Restrict the permissions of an existing directory.
	if err := os.Chmod(string(d), 0o700); err != nil { //nolint:gosec // it is a directory
		return fmt.Errorf("restricting the permissions of the state directory: %w", err)
	}
	return nil
}

// Location returns a text that identifies this directory, such as "me@laptop:/home/me/.koupsandbox/koup". The first
// call writes the text to a file in the directory. Later calls return the same text, even if the host name changes.
// The directory must exist.
func (d Dir) Location() (string, error) {
	if text, err := os.ReadFile(d.file(locationFile)); err == nil && len(text) > 0 {
		return string(text), nil
	}
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil { // containers may have no user names
		name = u.Username
	}
	host, err := os.Hostname()
	var path string
	if err == nil {
		path, err = filepath.Abs(string(d))
	}
	location := fmt.Sprintf("%s@%s:%s", name, host, path)
	if err == nil {
		err = WriteFile(d.file(locationFile), []byte(location))
	}
	if err != nil {
		return "", fmt.Errorf("writing the location of sandbox %q: %w", d.Name(), err)
	}
	return location, nil
}

// id returns the random ID of this sandbox, the first group of a UUID. The first call writes the ID to a file in the
// directory, which must exist. Later calls return the same ID.
func (d Dir) id() (string, error) {
	if text, err := os.ReadFile(d.file(idFile)); err == nil && len(text) > 0 {
		return string(text), nil
	}
	id := uuid.NewString()[:idLength]
	if err := WriteFile(d.file(idFile), []byte(id)); err != nil {
		return "", fmt.Errorf("writing the ID of sandbox %q: %w", d.Name(), err)
	}
	return id, nil
}

// ClientIDPrefix returns the prefix of the CLIENT_ID of each controller that this sandbox starts. Leases and Nodes
// contain the CLIENT_ID of their controller, so the prefix identifies the objects of this sandbox. The prefix is
// short, because some brokers limit the length of MQTT client IDs.
func (d Dir) ClientIDPrefix() (string, error) {
	id, err := d.id()
	return id + "-", err
}

// NewClientID returns a new CLIENT_ID: a UUID whose first characters are replaced with prefix, which is a result of
// ClientIDPrefix. A CLIENT_ID is thus as long as a UUID.
func NewClientID(prefix string) string { return prefix + uuid.NewString()[len(prefix):] }

// Label returns the value of the label that identifies the objects of this sandbox. It consists of the name and the
// ID of the sandbox.
func (d Dir) Label() (string, error) {
	id, err := d.id()
	return fmt.Sprintf("%.*s-%s", maxLabel-1-len(id), d.Name(), id), err
}

// AddBase records that a controller of this sandbox has created the Node of a base in an existing cluster. The record
// is kept after the daemon has exited, so that down can remove the recorded Nodes and their Leases, and no others.
func (d Dir) AddBase(identity string) error {
	f, err := os.OpenFile(d.file(basesFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(identity + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("recording base %s: %w", identity, err)
	}
	return nil
}

// Bases returns the base identities that AddBase has recorded.
func (d Dir) Bases() (map[string]bool, error) {
	text, err := os.ReadFile(d.file(basesFile))
	if ignoreMissing(err) != nil {
		return nil, fmt.Errorf("reading the bases of sandbox %q: %w", d.Name(), err)
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		all[strings.TrimSuffix(line, "\n")] = true
	}
	return all, nil
}

// Exists reports whether the state directory exists.
func (d Dir) Exists() bool {
	info, err := os.Stat(string(d))
	return err == nil && info.IsDir()
}

// InUse reports whether the sandbox has been created and not yet taken down. A directory that contains only logs is
// not in use.
func (d Dir) InUse() bool {
	owned, _ := d.Owned() // an unreadable directory is not in use
	_, err := os.Stat(d.Config())
	return owned && err == nil
}

// Remove deletes the state directory and the directory of the socket. If keepLogs is true, Remove keeps the logs. If
// koupsandbox has not created the directory, Remove returns an error that wraps ErrNotOwned. It removes the ownership
// marker last, so that an interrupted Remove can be repeated.
func (d Dir) Remove(keepLogs bool) error {
	if owned, err := d.Owned(); !owned {
		return err
	}
	err := d.removeSocket()
	entries, readErr := os.ReadDir(string(d))
	err = errors.Join(err, readErr)
	for _, e := range entries {
		if path := d.file(e.Name()); e.Name() != markFile && (!keepLogs || path != d.Logs()) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	if err != nil || keepLogs {
		return err
	}
	// If the directory is a symbolic link, RemoveAll removes only the link.
	return errors.Join(os.Remove(d.file(markFile)), os.RemoveAll(string(d)))
}

// WriteFile writes a file atomically. Only the current user can read the file.
func WriteFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
