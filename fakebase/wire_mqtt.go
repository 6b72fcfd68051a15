package fakebase

import (
	"bytes"
	"strconv"
	"time"
)

// wireOutput is the wire form of the Java class Output in an MQTT envelope (protocol 3.6).
type wireOutput struct {
	Code      string `json:"code"`
	Data      any    `json:"data,omitempty"`
	ErrorCode string `json:"errorCode,omitempty"`
	Message   string `json:"message,omitempty"`
}

// wireThrown is the field data of wireOutput after an exception.
type wireThrown struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// wireOperation is the payload data on the topic base/bizOperation and, without the name and the version, on
// base/batchInstallBizResponse.
type wireOperation struct {
	BizModelVersion jsonString `json:"bizModelVersion,omitzero"` // only in generation D
	BizName         jsonString `json:"bizName,omitzero"`
	BizVersion      jsonString `json:"bizVersion,omitzero"`
	Command         string     `json:"command"`
	Response        wireOutput `json:"response"`
}

// wireSimpleBiz is an element of the list on the topic base/simpleBiz. Null values are not omitted.
type wireSimpleBiz struct {
	LatestStateRecord *wireRecord `json:"latestStateRecord"`
	Name              string      `json:"name"`
	State             string      `json:"state"`
	Version           string      `json:"version"`
}

// wireOldSimpleBiz is an element of the list on the topic base/simpleBiz in generation B.
type wireOldSimpleBiz struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Version string `json:"version"`
}

// encodeOutput converts a command result to an MQTT response.
func (d dialect) encodeOutput(o commandResult) wireOutput {
	out := wireOutput{Code: codeSuccess, Message: o.message}
	if d.codes {
		out.ErrorCode = o.code
	}
	switch {
	case o.exception != nil:
		out.Code, out.Message = codeFailed, o.exception.message()
		out.Data = wireThrown{Code: codeFailed, Message: o.exception.trace()}
		return out
	case o.failed:
		out.Code = codeFailed
	}
	if o.data != nil {
		out.Data = d.render(o.data)
	}
	return out
}

// encodeSimpleBiz converts a module list to the payload data on the topic base/simpleBiz.
func (d dialect) encodeSimpleBiz(list []Biz, generation Generation) any {
	if generation == GenerationB {
		out := make([]wireOldSimpleBiz, len(list))
		for i, b := range list {
			out[i] = wireOldSimpleBiz{Name: b.Name, State: b.State.Lower(), Version: b.Version}
		}
		return out
	}
	out := make([]wireSimpleBiz, len(list))
	for i, b := range list {
		out[i] = wireSimpleBiz{Name: b.Name, State: b.State.Lower(), Version: b.Version}
		if n := len(b.Records); n > 0 {
			out[i].LatestStateRecord = &d.encodeRecords(b.Records[n-1:])[0]
		}
	}
	return out
}

// envelope encodes data in an MQTT envelope (protocol 3.5).
func envelope(data []byte, at time.Time) []byte {
	const prefix, separator = `{"data":`, `,"publishTimestamp":`
	var buf bytes.Buffer
	buf.Grow(len(prefix) + len(data) + len(separator) + 15)
	buf.WriteString(prefix)
	buf.Write(data)
	buf.WriteString(separator)
	buf.Write(strconv.AppendInt(buf.AvailableBuffer(), at.UnixMilli(), 10))
	buf.WriteByte('}')
	return buf.Bytes()
}
