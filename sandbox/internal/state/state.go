// Package state knows where a sandbox keeps its files: one folder per sandbox,
// readable by its user alone.
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

// Home is the folder with the folders of all sandboxes.
type Home string

// Dir returns the folder of one sandbox, which need not exist.
func (h Home) Dir(name string) Dir { return Dir(filepath.Join(string(h), name)) }

// Names lists the sandboxes that have a folder, sorted.
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

// Dir is the folder of one sandbox.
type Dir string

// Name of the sandbox.
func (d Dir) Name() string { return filepath.Base(string(d)) }

// Config is the effective configuration: file, flags and defaults in one.
func (d Dir) Config() string { return d.file("sandbox.yaml") }

// Kubeconfig is the administrator's kubeconfig.
func (d Dir) Kubeconfig() string { return d.file("kubeconfig") }

// ControllerKubeconfig is the kubeconfig of the module controller.
func (d Dir) ControllerKubeconfig() string { return d.file("module-controller.kubeconfig") }

// HeartbeatToken is the file with the token for heartbeats over HTTP, which is in their path or a bearer token.
func (d Dir) HeartbeatToken() string { return d.file("heartbeat.token") }

// ControllerToken is the file with the token of the module controller in an existing cluster. The kubeconfig of
// the controller has its path.
func (d Dir) ControllerToken() string { return d.file("module-controller.token") }

// Broker tells address and passwords of the broker, for bases from outside.
func (d Dir) Broker() string { return d.file("broker.json") }

// KubeletCert is the certificate, and its key, with which the controller serves
// logs and exec.
func (d Dir) KubeletCert() (cert, key string) {
	return d.file("kubelet.crt"), d.file("kubelet.key")
}

// BrokerCA is the certificate to trust when the broker's is its own authority.
func (d Dir) BrokerCA() string { return d.file("broker-ca.crt") }

// Run is the folder of the run records.
func (d Dir) Run() string { return d.file("run") }

// Logs is the folder of the logs.
func (d Dir) Logs() string { return d.file("logs") }

// Log is the log file of a component.
func (d Dir) Log(component string) string { return filepath.Join(d.Logs(), component+".log") }

const (
	placeFile = "place"
	// idFile has the ID, and idLength is its length.
	idFile, idLength = "id", len("00000000")
	basesFile        = "bases"
	maxLabel         = 63
)

func (d Dir) file(name string) string { return filepath.Join(string(d), name) }

// Create makes the folder, marks it, and makes the folders in it. It returns ErrNotOwned if koupsandbox has not created an
// existing folder.
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
		return fmt.Errorf("making the state folder: %w; choose another place with --home", err)
	}
	// A folder that was there with wider permissions is narrowed.
	if err := os.Chmod(string(d), 0o700); err != nil { //nolint:gosec // it is a folder
		return fmt.Errorf("protecting the state folder: %w", err)
	}
	return nil
}

// Location identifies this folder, as "me@laptop:/home/me/.koupsandbox/koup". The first call writes it into the folder, which
// must exist, so that it does not change with the name of the machine.
func (d Dir) Location() (string, error) {
	if text, err := os.ReadFile(d.file(placeFile)); err == nil && len(text) > 0 {
		return string(text), nil
	}
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil { // in a container there may be no names
		name = u.Username
	}
	host, err := os.Hostname()
	var path string
	if err == nil {
		path, err = filepath.Abs(string(d))
	}
	place := fmt.Sprintf("%s@%s:%s", name, host, path)
	if err == nil {
		err = WriteFile(d.file(placeFile), []byte(place))
	}
	if err != nil {
		return "", fmt.Errorf("noting where sandbox %q is: %w", d.Name(), err)
	}
	return place, nil
}

// id returns the random ID of this sandbox: the first group of a UUID. The first call writes the ID into
// the folder, which must exist. The ID stays the same until the folder is removed.
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

// ClientIDPrefix returns the prefix of the CLIENT_ID of each controller that this sandbox starts. Leases and
// Nodes name their controller by its CLIENT_ID, so the prefix shows which of them this sandbox has created. A
// CLIENT_ID has the length of a UUID, because some brokers limit the length of MQTT client IDs.
func (d Dir) ClientIDPrefix() (string, error) {
	id, err := d.id()
	return id + "-", err
}

// NewClientID returns a new CLIENT_ID, a UUID with a prefix from ClientIDPrefix.
func NewClientID(prefix string) string { return prefix + uuid.NewString()[len(prefix):] }

// Label returns the value of a label that only objects of this sandbox have: its name, and its ID.
func (d Dir) Label() (string, error) {
	id, err := d.id()
	return fmt.Sprintf("%.*s-%s", maxLabel-1-len(id), d.Name(), id), err
}

// AddBase records that controllers of this sandbox have created the Node of a base in an existing cluster. The
// record is kept when the daemon ends, so that down removes only these Nodes and their Leases.
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

// Bases returns the identities that AddBase has recorded.
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

// Exists reports whether the sandbox has a folder.
func (d Dir) Exists() bool {
	info, err := os.Stat(string(d))
	return err == nil && info.IsDir()
}

// InUse reports whether the sandbox was brought up and not taken down since; logs
// alone do not count.
func (d Dir) InUse() bool {
	owned, _ := d.Owned() // a folder that cannot be read is not used
	_, err := os.Stat(d.Config())
	return owned && err == nil
}

// Remove deletes the folder and the folder of the socket; keepLogs keeps the logs. It returns ErrNotOwned if koupsandbox has
// not created the folder. It removes the mark last, so that an interrupted Remove can be repeated.
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
	// Of a folder elsewhere, to which a link leads, the link goes.
	return errors.Join(os.Remove(d.file(markFile)), os.RemoveAll(string(d)))
}

// WriteFile writes a file that nobody but the user may read, in one step.
func WriteFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
