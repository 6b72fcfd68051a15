// Package recording has the format of fakebase/testdata/real: requests to a real base, and its responses. A Player
// sends the requests to a real base (make record), or to a simulated base, whose responses a test of fakebase compares.
package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Versions holds the software versions of the recorded base.
type Versions struct {
	Koupleless string `json:"koupleless"`
	SofaArk    string `json:"sofaArk"`
	SpringBoot string `json:"springBoot"`
	Fastjson   string `json:"fastjson"`
	Java       string `json:"java"`
	// MQTT describes the MQTT tunnel implementation of the recorded base.
	MQTT string `json:"mqtt,omitempty"`
}

// Tunnel is the type of tunnel between a base and its controller.
type Tunnel string

// The tunnel types.
const (
	HTTP Tunnel = "http"
	MQTT Tunnel = "mqtt"
)

// Recording holds the requests and responses that were recorded for one test condition over one tunnel.
type Recording struct {
	// Condition describes the behavior that the recording tests.
	Condition string `json:"condition"`
	Tunnel    Tunnel `json:"tunnel"`
	// Base holds the settings of the recorded base.
	Base Settings `json:"base,omitzero"`
	// OwnBase uses a separate base for this recording, because earlier recordings would change the responses. A
	// recording with Phases always uses a separate base.
	OwnBase bool `json:"ownBase,omitempty"`
	// Jars holds the manifests of the module jars, by file name. A nil manifest means that the file is not a jar.
	Jars map[string]Manifest `json:"jars,omitempty"`
	// Simulate describes the effect of the code in the jars, because a simulated base does not execute this code.
	Simulate Simulation `json:"simulate,omitzero"`
	// Exchanges lists requests to a running base. Phases lists events and requests for a separate base and its
	// environment. A recording has either Exchanges or Phases.
	Exchanges []Exchange `json:"exchanges,omitempty"`
	Phases    []Phase    `json:"phases,omitempty"`
	Versions  Versions   `json:"versions"`
}

// Simulation describes the effect of the code in the jars on a simulated base.
type Simulation struct {
	// Faults lists faults to inject into the simulated base. Modules lists entries of its module catalogue.
	Faults  []json.RawMessage `json:"faults,omitempty"`
	Modules []json.RawMessage `json:"modules,omitempty"`
}

// Manifest holds the main attributes of a jar manifest.
type Manifest map[string]string

// Settings holds the JVM options of a base that affect its responses.
type Settings struct {
	// Activation selects the activation rule: empty for the default, "new" (activate.new.module) or "multi"
	// (sofa.ark.activate.multi.biz.version.enable).
	Activation string `json:"activation,omitempty"`
	// KeepFailed sets sofa.ark.auto.uninstall.when.failed.enable=false.
	KeepFailed bool `json:"keepFailed,omitempty"`
	// MaxMetaspace is the value of -XX:MaxMetaspaceSize in MiB; 0 means 256.
	MaxMetaspace int `json:"maxMetaspace,omitempty"`
	// Disk is the size in KiB of the file system for downloads; 0 means that downloads use the file system of the
	// machine.
	Disk int `json:"disk,omitempty"`
}

// Exchange is a request and its response. Both can contain placeholders: {modules} is the directory with the jars.
// {server} is an HTTP server with the same files, which does not respond to requests below /hanging/. {refused} is an
// address that refuses connections.
type Exchange struct {
	// Command is the command to send over the tunnel, with Body as its content.
	Command string `json:"command,omitempty"`
	// Raw is a complete HTTP request that is sent instead of Command. {oversized} is replaced by a body that exceeds
	// the size limit of arklet.
	Raw  string `json:"raw,omitempty"`
	Body string `json:"body,omitempty"`
	// Web is the path of a GET request that is sent to the web server of the base instead of Command. The recording
	// contains the status, the content type and the body of the response.
	Web string `json:"web,omitempty"`
	// Background sends the following requests without waiting for the response to this request. The exchange with
	// Join contains the response.
	Background bool `json:"background,omitempty"`
	Join       bool `json:"join,omitempty"`
	// Await delays the request until the response to queryAllBiz contains this text. AwaitDownload delays the request
	// until a download hangs.
	Await         string `json:"await,omitempty"`
	AwaitDownload bool   `json:"awaitDownload,omitempty"`
	// Release lets waiting modules and hanging downloads continue before the request is sent.
	Release bool `json:"release,omitempty"`
	// Until is the text that the response must contain. The request is repeated until the response contains it.
	Until string `json:"until,omitempty"`
	// Answer is the HTTP response. It is empty if NoAnswer is set.
	Answer string `json:"answer,omitempty"`
	// Messages lists the MQTT responses, in order.
	Messages []Message `json:"messages,omitempty"`
	// NoAnswer reports whether the base did not respond within Player.NoAnswerTimeout.
	NoAnswer bool `json:"silent,omitempty"`
}

// Message is an MQTT message. Topic is the part of the topic that follows the base identity.
type Message struct {
	Topic   string `json:"topic"`
	Payload string `json:"payload"`
}

// Load reads all recordings in a directory. It returns their names in the form TUNNEL/FILE, without the file
// extension, sorted.
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
			return nil, nil, fmt.Errorf("decoding recording %s: %w", file, err)
		}
		name := string(r.Tunnel) + "/" + filepath.Base(file[:len(file)-len(".json")])
		names = append(names, name)
		recordings[name] = r
	}
	return names, recordings, nil
}

// Save writes a recording to the subdirectory of dir for its tunnel.
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

// encode returns indented JSON without HTML escaping.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return buf.Bytes(), err
}
