// Package recording has the format of fakebase/testdata/real: requests to a real base, and its responses. A Player sends
// the requests to a real base (make record), or to a simulated base, whose responses a test of fakebase compares.
package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Versions are the versions of the software of the recorded base.
type Versions struct {
	Koupleless string `json:"koupleless"`
	SofaArk    string `json:"sofaArk"`
	SpringBoot string `json:"springBoot"`
	Fastjson   string `json:"fastjson"`
	Java       string `json:"java"`
	// MQTT describes the implementation of the MQTT tunnel.
	MQTT string `json:"mqtt,omitempty"`
}

// Tunnel is the tunnel of the base.
type Tunnel string

// The tunnels.
const (
	HTTP Tunnel = "http"
	MQTT Tunnel = "mqtt"
)

// Recording has the requests and responses for one condition over one tunnel.
type Recording struct {
	// Condition describes what is tested.
	Condition string `json:"condition"`
	Tunnel    Tunnel `json:"tunnel"`
	// Base has the settings of the real base.
	Base Settings `json:"base,omitzero"`
	// OwnBase records with a separate base, because earlier recordings would change the responses. A recording with Phases
	// always has a separate base.
	OwnBase bool `json:"ownBase,omitempty"`
	// Jars are the manifests of the module jars, by file name. A nil manifest is a file that is not a jar.
	Jars map[string]Manifest `json:"jars,omitempty"`
	// Simulate describes the effect of the code in the jars, which a simulated base does not execute.
	Simulate Simulation `json:"simulate,omitzero"`
	// Exchanges are requests to a base that is running. Phases are events and requests in the environment of a separate
	// base. Either of them is set.
	Exchanges []Exchange `json:"exchanges,omitempty"`
	Phases    []Phase    `json:"phases,omitempty"`
	Versions  Versions   `json:"versions"`
}

// Simulation describes the effect of the code in the jars.
type Simulation struct {
	// Faults are faults of the base, and Modules are entries of its catalogue.
	Faults  []json.RawMessage `json:"faults,omitempty"`
	Modules []json.RawMessage `json:"modules,omitempty"`
}

// Manifest has the main attributes of a jar.
type Manifest map[string]string

// Settings are the JVM options of a base on which responses depend.
type Settings struct {
	// Activation is empty, "new" (activate.new.module) or "multi" (sofa.ark.activate.multi.biz.version.enable).
	Activation string `json:"activation,omitempty"`
	// KeepFailed is sofa.ark.auto.uninstall.when.failed.enable=false.
	KeepFailed bool `json:"keepFailed,omitempty"`
	// MaxMetaspace is -XX:MaxMetaspaceSize in MiB; 0 = 256.
	MaxMetaspace int `json:"maxMetaspace,omitempty"`
	// Disk is the size in KiB of the file system for downloads; 0 = the file system of the machine.
	Disk int `json:"disk,omitempty"`
}

// Exchange is a request and its response, with placeholders: {modules} is the directory with the jars, {server} is an HTTP
// server with the same files, which does not respond to requests below /hanging/, and {refused} is an address that refuses
// connections.
type Exchange struct {
	// Command is sent over either tunnel, with Body.
	Command string `json:"command,omitempty"`
	// Raw is a complete HTTP request instead. {oversized} is a body above the limit of arklet.
	Raw  string `json:"raw,omitempty"`
	Body string `json:"body,omitempty"`
	// Web is the path of a GET request to the web server of the base instead. The recording has the status, the content type
	// and the body of the response.
	Web string `json:"web,omitempty"`
	// Background sends the next requests without waiting for the response, which is in the exchange with Join.
	Background bool `json:"background,omitempty"`
	Join       bool `json:"join,omitempty"`
	// Await delays the request until the response to queryAllBiz contains this text, and AwaitDownload until a download
	// hangs.
	Await         string `json:"await,omitempty"`
	AwaitDownload bool   `json:"awaitDownload,omitempty"`
	// Release continues modules that wait for a file, and hanging downloads, before the request.
	Release bool `json:"release,omitempty"`
	// Until repeats the request until the response contains this text.
	Until string `json:"until,omitempty"`
	// Answer is the HTTP response; empty if NoAnswer is set.
	Answer string `json:"answer,omitempty"`
	// Messages are the MQTT responses, in order.
	Messages []Message `json:"messages,omitempty"`
	// NoAnswer reports whether there was no response within Player.NoAnswerTimeout.
	NoAnswer bool `json:"silent,omitempty"`
}

// Message is an MQTT message. Topic is the part of the topic after the identity.
type Message struct {
	Topic   string `json:"topic"`
	Payload string `json:"payload"`
}

// Load reads all recordings in a directory. The names are TUNNEL/FILE without the file extension, sorted.
func Load(dir string) (names []string, recordings map[string]Recording, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.json"))
	if err != nil {
		return nil, nil, fmt.Errorf("finding recordings in %s: %w", dir, err)
	}
	slices.Sort(files)
	recordings = map[string]Recording{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, fmt.Errorf("reading a recording: %w", err)
		}
		var r Recording
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, nil, fmt.Errorf("reading recording %s: %w", file, err)
		}
		name := string(r.Tunnel) + "/" + filepath.Base(file[:len(file)-len(".json")])
		names = append(names, name)
		recordings[name] = r
	}
	return names, recordings, nil
}

// Save writes a recording to the directory of its tunnel in dir.
func (r *Recording) Save(dir, name string) error {
	file := filepath.Join(dir, string(r.Tunnel), name+".json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // readable test data
		return fmt.Errorf("saving recording %s: %w", file, err)
	}
	text, err := encode(r)
	if err == nil {
		err = os.WriteFile(file, text, 0o644) //nolint:gosec // readable test data
	}
	if err != nil {
		return fmt.Errorf("saving recording %s: %w", file, err)
	}
	return nil
}

// encode returns indented JSON without HTML escapes.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return buf.Bytes(), err
}
