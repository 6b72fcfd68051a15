package fakebase

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// text is a string as fastjson reads one into a bean: any scalar will do, an
// object or array gives its JSON, and null is told apart from "".
type text struct {
	value string
	set   bool
}

func (t *text) UnmarshalJSON(raw []byte) error {
	if bytes.Equal(raw, []byte("null")) {
		*t = text{}
		return nil
	}
	t.set = true
	if raw[0] == '"' {
		return json.Unmarshal(raw, &t.value)
	}
	t.value = string(raw)
	return nil
}

// MarshalText is how the wire carries the text.
func (t text) MarshalText() ([]byte, error) { return []byte(t.value), nil }

// IsZero reports whether the text is null, which the wire leaves out.
func (t text) IsZero() bool { return !t.set }

// truth is a boolean as fastjson reads one: "true", 1 and null will do.
type truth bool

func (b *truth) UnmarshalJSON(raw []byte) error {
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

// bizRequest is the input of installBiz, uninstallBiz and switchBiz
// (protocol 4.5, 4.6), and an item of a batch or a baseline. A process record echoes it, with its fields in this order.
type bizRequest struct {
	Args            []text          `json:"args,omitempty"`
	Async           truth           `json:"async"`
	BizName         text            `json:"bizName,omitzero"`
	BizURL          text            `json:"bizUrl,omitzero"`
	BizVersion      text            `json:"bizVersion,omitzero"`
	Envs            map[string]text `json:"envs,omitempty"`
	InstallStrategy text            `json:"installStrategy,omitzero"`
	RequestID       text            `json:"requestId,omitzero"`
}

// batchRequest is the input of batchInstallBiz (protocol 4.9). A process record echoes it.
type batchRequest struct {
	Async     truth        `json:"async"`
	BizList   []bizRequest `json:"bizList,omitempty"`
	RequestID text         `json:"requestId,omitzero"`
}

// healthRequest is the input of health (protocol 7).
type healthRequest struct {
	Type       text   `json:"type"`
	Metrics    []text `json:"metrics"`
	BizName    text   `json:"bizName"`
	BizVersion text   `json:"bizVersion"`
}

// opsRequest is the input of queryBizOps (protocol 4.8).
type opsRequest struct {
	RequestID text `json:"requestId"`
}

// errNotJSON is a body that is not the JSON that a command takes.
var errNotJSON = errors.New("not valid JSON")

// errFields is a JSON object whose fields do not convert.
var errFields = errors.New("fields of another type")

// decodeObject reads a JSON object. An empty body and null give nil, as
// fastjson does. The error is errNotJSON or errFields.
func decodeObject[T any](body []byte) (*T, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || bytes.Equal(body, []byte("null")) {
		return nil, nil
	}
	if body[0] != '{' || !json.Valid(body) {
		return nil, fmt.Errorf("JSON object expected: %w", errNotJSON)
	}
	v := new(T)
	if err := json.Unmarshal(body, v); err != nil {
		return nil, fmt.Errorf("%w: %w", errFields, err)
	}
	return v, nil
}

// decodeBaseline reads a baseline, a bare array (protocol 3.6). An empty
// payload and null give nil.
func decodeBaseline(body []byte) (*batchRequest, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || bytes.Equal(body, []byte("null")) {
		return &batchRequest{}, nil
	}
	if body[0] != '[' {
		return nil, fmt.Errorf("JSON array expected: %w", errNotJSON)
	}
	list := []bizRequest{}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("reading baseline: %w", err)
	}
	return &batchRequest{BizList: list}, nil
}
