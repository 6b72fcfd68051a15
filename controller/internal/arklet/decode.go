package arklet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// MaxPayload is the largest message that is decoded, in bytes. A real base refuses bodies above 1
// MiB itself (protocol 4.2); a health or biz document of a base with a thousand modules stays well
// below it.
const MaxPayload = 1 << 20

// ErrTooLarge says that a message was larger than MaxPayload.
var ErrTooLarge = errors.New("message larger than 1 MiB")

// Envelope is what every MQTT message of a base is wrapped in (protocol 3.5).
type Envelope struct {
	Data json.RawMessage `json:"data"`
	// PublishTimestamp is the base's wall clock in milliseconds since 1970; 0 when it was not sent.
	PublishTimestamp int64 `json:"publishTimestamp"`
}

// DecodeEnvelope unwraps an MQTT payload. A payload without data is an error.
func DecodeEnvelope(payload []byte) (Envelope, error) {
	var e Envelope
	if err := decode(payload, &e); err != nil {
		return Envelope{}, err
	}
	if len(e.Data) == 0 || bytes.Equal(e.Data, []byte("null")) {
		return Envelope{}, errors.New("message without data")
	}
	if _, err := fromMillis("publishTimestamp", e.PublishTimestamp); err != nil {
		return Envelope{}, err
	}
	return e, nil
}

// Heartbeat is a sign of life of a base, whatever its generation.
type Heartbeat struct {
	// Identity is what the message says of itself; generations A and B say nothing, and it is
	// empty.
	Identity string
	Name     string
	Version  string
	// Cluster is the base's clusterName; empty before generation C.
	Cluster  string
	IP       string
	HostName string
	// Port is the arklet HTTP port; 0 over MQTT.
	Port int
	// Active is false only for a base that says that it is not activated. Generation 1.3.0 sends no
	// state and counts as active.
	Active bool
}

type wireHeartbeat struct {
	BaseMetadata  *wireMetadata `json:"baseMetadata"`
	LocalIP       string        `json:"localIP"`
	LocalHostName string        `json:"localHostName"`
	Port          int           `json:"port"`
	State         *string       `json:"state"`
	MasterBizInfo *wireMaster   `json:"masterBizInfo"`
	NetworkInfo   *wireNetwork  `json:"networkInfo"`
}

type wireMetadata struct {
	Identity    string `json:"identity"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	ClusterName string `json:"clusterName"`
}

// wireMaster is spelled name and version since 1.3.1, bizName, bizVersion and bizState before.
type wireMaster struct {
	Name       string  `json:"name"`
	Version    string  `json:"version"`
	BizName    string  `json:"bizName"`
	BizVersion string  `json:"bizVersion"`
	BizState   *string `json:"bizState"`
}

type wireNetwork struct {
	LocalIP       string `json:"localIP"`
	LocalHostName string `json:"localHostName"`
}

// DecodeHeartbeat reads the data of a heartbeat of generation A, B or C (protocol 1 and 3.6).
func DecodeHeartbeat(data []byte) (Heartbeat, error) {
	var w wireHeartbeat
	if err := decode(data, &w); err != nil {
		return Heartbeat{}, err
	}
	h := Heartbeat{IP: w.LocalIP, HostName: w.LocalHostName, Port: w.Port}
	state := w.State
	switch {
	case w.BaseMetadata != nil:
		h.Identity, h.Name, h.Version, h.Cluster = w.BaseMetadata.Identity, w.BaseMetadata.Name, w.BaseMetadata.Version, w.BaseMetadata.ClusterName
		if h.Identity == "" {
			return Heartbeat{}, errors.New("heartbeat without an identity")
		}
	case w.MasterBizInfo != nil:
		h.Name, h.Version = cmp.Or(w.MasterBizInfo.Name, w.MasterBizInfo.BizName), cmp.Or(w.MasterBizInfo.Version, w.MasterBizInfo.BizVersion)
		if state == nil {
			state = w.MasterBizInfo.BizState
		}
	default:
		return Heartbeat{}, errors.New("heartbeat with neither baseMetadata nor masterBizInfo")
	}
	if w.NetworkInfo != nil {
		h.IP, h.HostName = cmp.Or(h.IP, w.NetworkInfo.LocalIP), cmp.Or(h.HostName, w.NetworkInfo.LocalHostName)
	}
	if h.Port < 0 || h.Port > 65535 {
		return Heartbeat{}, fmt.Errorf("heartbeat with port %d", h.Port)
	}
	if err := checkWho(h.Identity, "name", h.Name, "version", h.Version, "clusterName", h.Cluster, "localIP", h.IP, "localHostName", h.HostName); err != nil {
		return Heartbeat{}, err
	}
	h.Active = state == nil || ParseState(*state) == StateActivated
	return h, nil
}

// Metadata is what a starting base says of itself when it asks for its baseline.
type Metadata struct {
	Identity, Name, Version, Cluster string
}

// DecodeMetadata reads the data of a queryBaseline message or the body of a queryBaseline request
// (protocol 3.6 and 4.1).
func DecodeMetadata(data []byte) (Metadata, error) {
	var w struct {
		wireMetadata
		MasterBizInfo *wireMaster `json:"masterBizInfo"`
	}
	if err := decode(data, &w); err != nil {
		return Metadata{}, err
	}
	m := Metadata{Identity: w.Identity, Name: w.Name, Version: w.Version, Cluster: w.ClusterName}
	if w.MasterBizInfo != nil {
		m.Name, m.Version = cmp.Or(m.Name, w.MasterBizInfo.Name), cmp.Or(m.Version, w.MasterBizInfo.Version)
	}
	if err := checkWho(m.Identity, "name", m.Name, "version", m.Version, "clusterName", m.Cluster); err != nil {
		return Metadata{}, err
	}
	return m, nil
}

// checkWho checks the identity, if there is one, and other names, in pairs of what it is and the name.
func checkWho(identity string, pairs ...string) error {
	if identity != "" {
		if err := CheckIdentity(identity); err != nil {
			return err
		}
	}
	return checkNames(pairs...)
}

// decode is json.Unmarshal for one value of at most MaxPayload bytes.
func decode(b []byte, into any) error {
	if len(b) > MaxPayload {
		return ErrTooLarge
	}
	switch err := json.Unmarshal(b, into); {
	case err == nil:
		return nil
	case errors.Is(err, ErrLimit):
		return err
	default: // the library quotes numbers of any length
		return fmt.Errorf("decoding a message: %.200s", err.Error())
	}
}
