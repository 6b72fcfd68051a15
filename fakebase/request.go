package fakebase

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// jsonString is a string that is decoded by the rules of fastjson: any scalar is accepted, and an object or an array
// becomes its JSON text. set is false for null.
type jsonString struct {
	value string
	set   bool
}

func (t *jsonString) UnmarshalJSON(raw []byte) error {
	if bytes.Equal(raw, []byte("null")) {
		*t = jsonString{}
		return nil
	}
	t.set = true
	if raw[0] == '"' {
		return json.Unmarshal(raw, &t.value)
	}
	t.value = string(raw)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (t jsonString) MarshalText() ([]byte, error) { return []byte(t.value), nil }

// IsZero reports whether the string is null. The JSON encoding then omits the field.
func (t jsonString) IsZero() bool { return !t.set }

// jsonBool is a boolean that is decoded by the rules of fastjson, which also accept strings, 0, 1 and null.
type jsonBool bool

func (b *jsonBool) UnmarshalJSON(raw []byte) error {
	switch string(bytes.ToLower(raw)) {
	case "true", `"true"`, "1", `"1"`:
		*b = true
	case "false", `"false"`, "0", `"0"`, "null", `""`, `"null"`:
		*b = false
	default:
		return fmt.Errorf("can not cast to boolean, value : %s", raw)
	}
	return nil
}

// bizRequest is the input of installBiz, uninstallBiz and switchBiz (protocol 4.5, 4.6), and an item of a batch or a
// baseline. A process record contains it, with the fields in this order.
type bizRequest struct {
	Args  []jsonString `json:"args,omitempty"`
	Async jsonBool     `json:"async"`
	// BizModelVersion identifies the Pod for which the controller sends the command. Generations A to C ignore it.
	BizModelVersion jsonString            `json:"bizModelVersion,omitzero"`
	BizName         jsonString            `json:"bizName,omitzero"`
	BizURL          jsonString            `json:"bizUrl,omitzero"`
	BizVersion      jsonString            `json:"bizVersion,omitzero"`
	Envs            map[string]jsonString `json:"envs,omitempty"`
	InstallStrategy jsonString            `json:"installStrategy,omitzero"`
	RequestID       jsonString            `json:"requestId,omitzero"`
}

// batchRequest is the input of batchInstallBiz (protocol 4.9). A process record contains it.
type batchRequest struct {
	Async     jsonBool     `json:"async"`
	BizList   []bizRequest `json:"bizList,omitempty"`
	RequestID jsonString   `json:"requestId,omitzero"`
}

// healthRequest is the input of the command health (protocol 7).
type healthRequest struct {
	Type       jsonString   `json:"type"`
	Metrics    []jsonString `json:"metrics"`
	BizName    jsonString   `json:"bizName"`
	BizVersion jsonString   `json:"bizVersion"`
}

// opsRequest is the input of queryBizOps (protocol 4.8).
type opsRequest struct {
	RequestID jsonString `json:"requestId"`
}

// errNotJSON is the error for a body that is not the required JSON object or array.
var errNotJSON = errors.New("wrong JSON type or invalid JSON")

// errFields is the error for a JSON object in which a field has a wrong type.
var errFields = errors.New("a field has the wrong type")

// decodeObject decodes a JSON object. Like fastjson, it returns nil for an empty body and for null. Every error wraps
// errNotJSON or errFields.
func decodeObject[T any](body []byte) (*T, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || bytes.Equal(body, []byte("null")) {
		return nil, nil
	}
	if body[0] != '{' || !json.Valid(body) {
		return nil, fmt.Errorf("expected a JSON object: %w", errNotJSON)
	}
	v := new(T)
	if err := json.Unmarshal(body, v); err != nil {
		return nil, fmt.Errorf("%w: %w", errFields, err)
	}
	return v, nil
}

// decodeBaseline decodes a baseline, which is a JSON array without an envelope (protocol 3.5). An empty payload or
// null is an empty baseline.
func decodeBaseline(body []byte) (*batchRequest, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || bytes.Equal(body, []byte("null")) {
		return &batchRequest{}, nil
	}
	if body[0] != '[' {
		return nil, fmt.Errorf("expected a JSON array: %w", errNotJSON)
	}
	list := []bizRequest{}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("decoding the baseline: %w", err)
	}
	return &batchRequest{BizList: list}, nil
}
