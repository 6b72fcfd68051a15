// Package recording has the format of fakebase/testdata/real: requests to a real base, and its answers. A Player sends
// the requests to a real base (make record) or to a simulated one, whose answers a test of fakebase compares.
package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Versions say what was recorded.
type Versions struct {
	Koupleless string `json:"koupleless"`
	SofaArk    string `json:"sofaArk"`
	SpringBoot string `json:"springBoot"`
	Fastjson   string `json:"fastjson"`
	Java       string `json:"java"`
	// MQTT says whose MQTT tunnel it was.
	MQTT string `json:"mqtt,omitempty"`
}

// Tunnel is how the base was reached.
type Tunnel string

// The tunnels.
const (
	HTTP Tunnel = "http"
	MQTT Tunnel = "mqtt"
)

// Recording is one condition over one tunnel: what was sent, in order, and what
// came back.
type Recording struct {
	// Condition says in words what is provoked.
	Condition string `json:"condition"`
	Tunnel    Tunnel `json:"tunnel"`
	// Base are the settings of the real base on which the answers depend.
	Base Settings `json:"base,omitzero"`
	// OwnBase records with a base that no other recording uses, because the answers would show it. A recording with
	// Phases always has its own base.
	OwnBase bool `json:"ownBase,omitempty"`
	// Jars are the manifests of the module jars of the condition, by file name. A
	// nil manifest stands for a file that is no jar.
	Jars map[string]Manifest `json:"jars,omitempty"`
	// Simulate makes a simulated base do what the code in a jar does: it
	// executes none.
	Simulate Simulate `json:"simulate,omitzero"`
	// A recording has Exchanges with a base that runs already, or Phases of one with a
	// world of its own.
	Exchanges []Exchange `json:"exchanges,omitempty"`
	Phases    []Phase    `json:"phases,omitempty"`
	Versions  Versions   `json:"versions"`
}

// Simulate is how a simulated base behaves as the code in a jar does.
type Simulate struct {
	// Faults and Modules are a base's faults and entries of its catalogue.
	Faults  []json.RawMessage `json:"faults,omitempty"`
	Modules []json.RawMessage `json:"modules,omitempty"`
}

// Manifest are the main attributes of a jar.
type Manifest map[string]string

// Settings are JVM options of a base, as far as answers depend on them.
type Settings struct {
	// Activation is "", "new" or "multi": activate.new.module and
	// sofa.ark.activate.multi.biz.version.enable.
	Activation string `json:"activation,omitempty"`
	// KeepFailed is sofa.ark.auto.uninstall.when.failed.enable=false.
	KeepFailed bool `json:"keepFailed,omitempty"`
	// MaxMetaspace is -XX:MaxMetaspaceSize in MiB; 0 = 256.
	MaxMetaspace int `json:"maxMetaspace,omitempty"`
	// Disk is the size in KiB of the file system that takes downloads; 0 = that of the machine.
	Disk int `json:"disk,omitempty"`
}

// Exchange is one request and what came back. Addresses and folders are
// replaced in both: {modules} is the folder with the jars, {server} an HTTP server with
// the same files that does not answer below /hanging/, {refused} an address where nobody listens.
type Exchange struct {
	// Command goes over both tunnels, with Body.
	Command string `json:"command,omitempty"`
	// Raw is a whole HTTP request instead. {oversized} in it stands for a body beyond arklet's limit.
	Raw  string `json:"raw,omitempty"`
	Body string `json:"body,omitempty"`
	// Web is a GET of this path instead, to the base's own web server. Of the answer the
	// recording has status, content type and body; the rest is that server's framing.
	Web string `json:"web,omitempty"`
	// Background leaves the request running while the next ones are sent; what it
	// answers is in the exchange with Join.
	Background bool `json:"background,omitempty"`
	Join       bool `json:"join,omitempty"`
	// Await waits, before the request, until the answer to queryAllBiz contains this
	// text; AwaitDownload until a download hangs.
	Await         string `json:"await,omitempty"`
	AwaitDownload bool   `json:"awaitDownload,omitempty"`
	// Release ends what waits, before the request: modules that wait for a file, and
	// downloads that hang.
	Release bool `json:"release,omitempty"`
	// Until sends the request again until its answer contains this text.
	Until string `json:"until,omitempty"`
	// Answer is what came back over HTTP; nothing if Silent.
	Answer string `json:"answer,omitempty"`
	// Messages came back over MQTT, in order.
	Messages []Message `json:"messages,omitempty"`
	// Silent says that nothing came back, and that somebody waited for it.
	Silent bool `json:"silent,omitempty"`
}

// Message is an MQTT message; the topic is the part after the identity.
type Message struct {
	Topic   string `json:"topic"`
	Payload string `json:"payload"`
}

// Load reads all recordings below a folder, sorted by file; the map's keys are the
// files without their ending.
func Load(folder string) (names []string, recordings map[string]Recording, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*", "*.json"))
	if err != nil {
		return nil, nil, fmt.Errorf("finding recordings in %s: %w", folder, err)
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

// Save writes a recording below a folder.
func (r *Recording) Save(folder, name string) error {
	file := filepath.Join(folder, string(r.Tunnel), name+".json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // test data that everybody may read
		return fmt.Errorf("saving recording %s: %w", file, err)
	}
	text, err := encode(r)
	if err == nil {
		err = os.WriteFile(file, text, 0o644) //nolint:gosec // test data that everybody may read
	}
	if err != nil {
		return fmt.Errorf("saving recording %s: %w", file, err)
	}
	return nil
}

// encode writes JSON for people: indented, and no escapes for HTML.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return buf.Bytes(), err
}
