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

// ptr is how the wire carries the text: null is left out.
func (t text) ptr() *string {
	if !t.set {
		return nil
	}
	return &t.value
}

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
// (protocol 4.5, 4.6), and an item of a batch or a baseline.
type bizRequest struct {
	BizName         text            `json:"bizName"`
	BizVersion      text            `json:"bizVersion"`
	BizURL          text            `json:"bizUrl"`
	Args            []text          `json:"args"`
	Envs            map[string]text `json:"envs"`
	InstallStrategy text            `json:"installStrategy"`
	Async           truth           `json:"async"`
	RequestID       text            `json:"requestId"`
}

// batchRequest is the input of batchInstallBiz (protocol 4.9).
type batchRequest struct {
	BizList   []bizRequest `json:"bizList"`
	Async     truth        `json:"async"`
	RequestID text         `json:"requestId"`
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
