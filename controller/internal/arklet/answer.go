package arklet

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Answer is the answer of a base to an install, uninstall or switch command.
type Answer struct {
	Command Command
	// Module is the module of the request. After an exception, bases of generations A and B omit it over MQTT.
	Module Module
	// Code is SUCCESS, FAILED, CMD_NOT_FOUND or CMD_PROCESS_INTERNAL_ERROR (protocol 4.2).
	//
	// A base can also send a documented error code as ErrorCode, Code or DataCode, or at the beginning of a message
	// ("User.MetaspaceFull: 93 %"). The first error code in this order is used.
	Code    string
	Message string
	// DataCode and DataMessage are the answer from sofa-ark. DataCode is SUCCESS, REPEAT_BIZ, NOT_FOUND_BIZ,
	// ILLEGAL_STATE_BIZ or FAILED. After an exception, DataMessage is the stack trace.
	DataCode    string
	DataMessage string
	// ErrorCode is an extension of the protocol. Real bases do not send it.
	ErrorCode string
	// PublishedAt is the time of the answer on the clock of the base; zero over HTTP.
	PublishedAt time.Time
}

// CodeSuccess is the value of Code in a successful answer.
const CodeSuccess = "SUCCESS"

// Succeeded reports whether the base reported success.
func (a Answer) Succeeded() bool {
	return strings.EqualFold(a.Code, CodeSuccess) && (a.DataCode == "" || strings.EqualFold(a.DataCode, CodeSuccess)) &&
		a.ErrorCode == ""
}

// AlreadyInstalled reports whether the base already has this version, in any state (protocol 6, condition 10).
func (a Answer) AlreadyInstalled() bool { return strings.EqualFold(a.DataCode, "REPEAT_BIZ") }

// NotInstalled reports whether the base does not have the module (protocol 6, condition 17).
func (a Answer) NotInstalled() bool { return strings.EqualFold(a.DataCode, "NOT_FOUND_BIZ") }

// Done reports whether the command succeeded, or was unnecessary because the base was already in the requested state.
func (a Answer) Done() bool {
	return a.Succeeded() || a.Command == CommandInstallBiz && a.AlreadyInstalled() ||
		a.Command == CommandUninstallBiz && a.NotInstalled()
}

// InProgress reports whether the base rejected the command because it is executing the same command (protocol 4.8).
func (a Answer) InProgress() bool {
	return strings.Contains(a.Message, fmt.Sprintf("conflict, exist unfinished command(%s)", a.Command))
}

type wireResponse struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	ErrorCode string          `json:"errorCode"`
	Data      json.RawMessage `json:"data"`
}

type wireClientResponse struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (w wireResponse) answer() (Answer, error) {
	a := Answer{Code: w.Code, Message: SanitizeText(w.Message), ErrorCode: w.ErrorCode}
	var inner wireClientResponse
	// Old generations send data with another structure, or none.
	if len(w.Data) > 0 && json.Unmarshal(w.Data, &inner) == nil {
		a.DataCode, a.DataMessage = inner.Code, SanitizeText(inner.Message)
	}
	return a, checkNames("code", a.Code, "errorCode", a.ErrorCode, "code", a.DataCode)
}

// DecodeBizOperation decodes the data of a base/bizOperation message (protocol 3.6).
func DecodeBizOperation(data []byte) (Answer, error) {
	var w struct {
		Command    Command      `json:"command"`
		BizName    string       `json:"bizName"`
		BizVersion string       `json:"bizVersion"`
		Response   wireResponse `json:"response"`
	}
	if err := decode(data, &w); err != nil {
		return Answer{}, err
	}
	if w.Response.Code == "" {
		return Answer{}, fmt.Errorf("the answer to %.80q has no code field", w.Command)
	}
	a, err := w.Response.answer()
	if err == nil {
		err = checkNames("command", string(w.Command), "bizName", w.BizName, "bizVersion", w.BizVersion)
	}
	if err != nil {
		return Answer{}, err
	}
	a.Command, a.Module = w.Command, Module{Name: w.BizName, Version: w.BizVersion}
	return a, nil
}

// BatchResult is the result of installing a baseline.
type BatchResult struct {
	Answer
	// Failed contains the answers for the modules that were not installed, by jar URL.
	Failed map[string]Answer
}

// DecodeBatchInstall decodes the data of a base/batchInstallBizResponse message (protocol 3.6).
func DecodeBatchInstall(data []byte) (BatchResult, error) {
	var w struct {
		Command  Command      `json:"command"`
		Response wireResponse `json:"response"`
	}
	if err := decode(data, &w); err != nil {
		return BatchResult{}, err
	}
	if w.Response.Code == "" {
		return BatchResult{}, fmt.Errorf("the answer to %.80q has no code field", w.Command)
	}
	a, err := w.Response.answer()
	if err != nil {
		return BatchResult{}, err
	}
	r := BatchResult{Answer: a, Failed: map[string]Answer{}}
	r.Command = CommandBatchInstallBiz
	var inner struct {
		ByURL map[string]wireClientResponse `json:"bizUrlToResponse"`
	}
	if len(w.Response.Data) > 0 && json.Unmarshal(w.Response.Data, &inner) == nil {
		if len(inner.ByURL) > MaxModules {
			return BatchResult{},
				fmt.Errorf("%w: the answer has results for %d modules; the maximum is %d", ErrLimit, len(inner.ByURL),
					MaxModules)
		}
		for url, one := range inner.ByURL {
			if err := checkNames("code", one.Code); err != nil {
				return BatchResult{}, err
			}
			url = SanitizeText(url)
			if one.Code != CodeSuccess {
				r.Failed[url] = Answer{Code: "FAILED", DataCode: one.Code, DataMessage: SanitizeText(one.Message),
					Module: Module{URL: url}}
			}
		}
	}
	return r, nil
}

// DecodeHTTPAnswer decodes the body of an HTTP response to an install, uninstall or switch command (protocol 4.2).
func DecodeHTTPAnswer(body []byte, request Request) (Answer, error) {
	var w wireResponse
	if err := decode(body, &w); err != nil {
		return Answer{}, err
	}
	if w.Code == "" {
		return Answer{}, fmt.Errorf("the answer to %q has no code field", request.Command)
	}
	a, err := w.answer()
	if err != nil {
		return Answer{}, err
	}
	a.Command, a.Module = request.Command, request.Module
	return a, nil
}

// DecodeBizListOutput decodes a module list in the full form: the body of an HTTP response, or the data of a base/biz
// message of generation A. If the error is ErrDropped, the returned list contains the valid modules.
func DecodeBizListOutput(body []byte) ([]Biz, error) {
	var w struct {
		Code    string    `json:"code"`
		Message string    `json:"message"`
		Data    []wireBiz `json:"data"`
	}
	if err := decode(body, &w); err != nil {
		return nil, err
	}
	if w.Code != CodeSuccess {
		return nil, fmt.Errorf("the base answered queryAllBiz with the code %.80q: %s", w.Code, SanitizeText(w.Message))
	}
	return bizList(w.Data)
}
