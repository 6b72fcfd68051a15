package arklet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	k8svalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// MaxPayload is the maximum size of a message in bytes, the same limit as in a real base (protocol 4.2).
const MaxPayload = 1 << 20

// maxObjects is the maximum number of JSON objects in a message. It limits the memory for a message that contains
// many empty objects.
const maxObjects = 30_000

// ErrTooLarge is the error for a message larger than MaxPayload.
var ErrTooLarge = errors.New("message larger than 1 MiB")

// Envelope is the outer JSON object of each MQTT message from a base (protocol 3.5).
type Envelope struct {
	Data json.RawMessage `json:"data"`
	// PublishTimestamp is the send time on the clock of the base, in milliseconds since 1970; 0 if the base sent
	// none.
	PublishTimestamp int64 `json:"publishTimestamp"`
}

// DecodeEnvelope decodes an MQTT payload. A payload without data is an error.
func DecodeEnvelope(payload []byte) (Envelope, error) {
	var e Envelope
	if err := decode(payload, &e); err != nil {
		return Envelope{}, err
	}
	if len(e.Data) == 0 || bytes.Equal(e.Data, []byte("null")) {
		return Envelope{}, errors.New("the message has no data")
	}
	if _, err := fromMillis("publishTimestamp", e.PublishTimestamp); err != nil {
		return Envelope{}, err
	}
	return e, nil
}

// Heartbeat is a heartbeat from a base of any generation.
type Heartbeat struct {
	// Identity is the identity of the base; empty in generations A and B.
	Identity string
	Name     string
	Version  string
	// Cluster is the clusterName of the base; empty in generations A and B.
	Cluster string
	// Labels are the labels for the Node that the base reports (protocol 3.6). It contains only labels that
	// labels.Reportable accepts, and valid values.
	Labels   map[string]string
	IP       string
	HostName string
	// Port is the arklet HTTP port; 0 over MQTT.
	Port int
	// Active is false only if the base reports that it is not activated. Bases of version 1.3.0 do not send a state.
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
	// Labels is an extension of the protocol. Real bases do not send it.
	Labels map[string]string `json:"labels"`
}

// wireMaster is the wire format of a base's own name, version and state. Since version 1.3.1, the fields are called
// name and version. In earlier versions, they are called bizName, bizVersion and bizState.
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

// DecodeHeartbeat decodes the data of a heartbeat of generation A, B or C (protocol 1 and 3.6).
func DecodeHeartbeat(data []byte) (Heartbeat, error) {
	var w wireHeartbeat
	if err := decode(data, &w); err != nil {
		return Heartbeat{}, err
	}
	h := Heartbeat{IP: w.LocalIP, HostName: w.LocalHostName, Port: w.Port}
	state := w.State
	switch {
	case w.BaseMetadata != nil:
		h.Identity, h.Name, h.Version, h.Cluster = w.BaseMetadata.Identity, w.BaseMetadata.Name, w.BaseMetadata.Version,
			w.BaseMetadata.ClusterName
		h.Labels = nodeLabels(w.BaseMetadata.Labels)
		if h.Identity == "" {
			return Heartbeat{}, errors.New("the heartbeat has no identity")
		}
	case w.MasterBizInfo != nil:
		h.Name, h.Version = cmp.Or(w.MasterBizInfo.Name, w.MasterBizInfo.BizName), cmp.Or(w.MasterBizInfo.Version,
			w.MasterBizInfo.BizVersion)
		if state == nil {
			state = w.MasterBizInfo.BizState
		}
	default:
		return Heartbeat{}, errors.New("the heartbeat has neither baseMetadata nor masterBizInfo")
	}
	if w.NetworkInfo != nil {
		h.IP, h.HostName = cmp.Or(h.IP, w.NetworkInfo.LocalIP), cmp.Or(h.HostName, w.NetworkInfo.LocalHostName)
	}
	if h.Port < 0 || h.Port > 65535 {
		return Heartbeat{}, fmt.Errorf("the heartbeat has the invalid port %d", h.Port)
	}
	if err := checkIdentityAndNames(h.Identity, "name", h.Name, "version", h.Version, "clusterName", h.Cluster,
		"localIP", h.IP,
		"localHostName", h.HostName); err != nil {
		return Heartbeat{}, err
	}
	h.Active = state == nil || ParseState(*state) == StateActivated
	return h, nil
}

// nodeLabels returns the reported labels that a Node may have, at most maxLabels. It returns nil if there are none.
func nodeLabels(reported map[string]string) map[string]string {
	var accepted map[string]string
	for _, name := range slices.Sorted(maps.Keys(reported)) {
		value := reported[name]
		if len(accepted) == maxLabels || !labels.Reportable(name) || len(k8svalidation.IsQualifiedName(name)) > 0 ||
			len(k8svalidation.IsValidLabelValue(value)) > 0 {
			continue
		}
		if accepted == nil {
			accepted = map[string]string{}
		}
		accepted[name] = value
	}
	return accepted
}

// Metadata is the data that a starting base sends with its baseline query.
type Metadata struct {
	Identity, Name, Version, Cluster string
}

// DecodeMetadata decodes the data of a queryBaseline message, or the body of a queryBaseline request (protocol 3.6
// and 4.1).
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
	if err := checkIdentityAndNames(m.Identity, "name", m.Name, "version", m.Version, "clusterName",
		m.Cluster); err != nil {
		return Metadata{}, err
	}
	return m, nil
}

// checkIdentityAndNames checks an identity, which may be empty, and any number of names. pairs alternates between
// field names and values.
func checkIdentityAndNames(identity string, pairs ...string) error {
	if identity != "" {
		if err := CheckIdentity(identity); err != nil {
			return err
		}
	}
	return checkNames(pairs...)
}

// decode checks the size of a message, and decodes it with json.Unmarshal.
func decode(b []byte, into any) error {
	if len(b) > MaxPayload {
		return ErrTooLarge
	}
	if bytes.Count(b, []byte("{")) > maxObjects {
		return fmt.Errorf("%w: more than %d objects", ErrLimit, maxObjects)
	}
	switch err := json.Unmarshal(b, into); {
	case err == nil:
		return nil
	case errors.Is(err, ErrLimit):
		return err
	default: // the error can quote a number of any length
		return fmt.Errorf("decoding a message: %.200s", err.Error())
	}
}
