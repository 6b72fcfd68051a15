package arklet

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Answer is what a base said to install, uninstall or switch.
type Answer struct {
	Command Command
	// Module echoes the request over MQTT; generations A and B leave it empty after an exception.
	Module Module
	// Code is SUCCESS, FAILED, CMD_NOT_FOUND or CMD_PROCESS_INTERNAL_ERROR (protocol 4.3), or an
	// error code of the documents: errcode reads those in any of the fields.
	Code    string
	Message string
	// DataCode and DataMessage are sofa-ark's own answer: SUCCESS, REPEAT_BIZ, NOT_FOUND_BIZ,
	// ILLEGAL_STATE_BIZ or FAILED; after an exception DataMessage holds the stack trace.
	DataCode    string
	DataMessage string
	// ErrorCode is the proposed extra field of protocol 6; a base of today sends none.
	ErrorCode string
	// PublishedAt is the base's clock when it answered; zero over HTTP.
	PublishedAt time.Time
}

// CodeSuccess says that the base did what it was asked.
const CodeSuccess = "SUCCESS"

// The answers that mean that what was asked for is already so.
const (
	DataCodeRepeat   = "REPEAT_BIZ"
	DataCodeNotFound = "NOT_FOUND_BIZ"
)

// Succeeded says that the base did what it was asked: both codes say so, in whatever case, and
// nothing names an error.
func (a Answer) Succeeded() bool {
	return strings.EqualFold(a.Code, CodeSuccess) && (a.DataCode == "" || strings.EqualFold(a.DataCode, CodeSuccess)) && a.ErrorCode == ""
}

// AlreadyInstalled says that the base refused because this very biz:version is registered there, in
// whatever state (protocol 6, condition 10).
func (a Answer) AlreadyInstalled() bool { return a.DataCode == DataCodeRepeat }

// NotInstalled says that there was nothing to uninstall (protocol 6, condition 17).
func (a Answer) NotInstalled() bool { return a.DataCode == DataCodeNotFound }

// UnderWay says that the base refused because it is at the very same command (protocol 4.8).
func (a Answer) UnderWay() bool {
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
	a := Answer{Code: w.Code, Message: Text(w.Message), ErrorCode: w.ErrorCode}
	var inner wireClientResponse
	// Data may be absent, or of another shape in old generations: then there is no inner answer.
	if len(w.Data) > 0 && json.Unmarshal(w.Data, &inner) == nil {
		a.DataCode, a.DataMessage = inner.Code, Text(inner.Message)
	}
	return a, checkNames("code", a.Code, "errorCode", a.ErrorCode, "code", a.DataCode)
}

// DecodeBizOperation reads the data of a base/bizOperation message (protocol 3.6).
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
		return Answer{}, fmt.Errorf("answer to %.80q without a code", w.Command)
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

// BatchResult is the outcome of a baseline that a base installed.
type BatchResult struct {
	Answer
	// Failed holds the answers of the URLs that were not installed, by URL.
	Failed map[string]Answer
}

// DecodeBatchInstall reads the data of a base/batchInstallBizResponse message. Entries of failed
// modules carry no bizInfos and are fine (protocol 3.6).
func DecodeBatchInstall(data []byte) (BatchResult, error) {
	var w struct {
		Command  Command      `json:"command"`
		Response wireResponse `json:"response"`
	}
	if err := decode(data, &w); err != nil {
		return BatchResult{}, err
	}
	if w.Response.Code == "" {
		return BatchResult{}, fmt.Errorf("answer to %.80q without a code", w.Command)
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
			return BatchResult{}, fmt.Errorf("%w: answers for %d modules: at most %d", ErrLimit, len(inner.ByURL), MaxModules)
		}
		for url, one := range inner.ByURL {
			if err := checkNames("code", one.Code); err != nil {
				return BatchResult{}, err
			}
			if url = Text(url); one.Code != CodeSuccess {
				r.Failed[url] = Answer{Code: "FAILED", DataCode: one.Code, DataMessage: Text(one.Message), Module: Module{URL: url}}
			}
		}
	}
	return r, nil
}

// DecodeHTTPAnswer reads the body of an HTTP answer to install, uninstall or switch (protocol 4.2).
// The caller knows what it asked.
func DecodeHTTPAnswer(body []byte, request Request) (Answer, error) {
	var w wireResponse
	if err := decode(body, &w); err != nil {
		return Answer{}, err
	}
	if w.Code == "" {
		return Answer{}, fmt.Errorf("answer to %q without a code", request.Command)
	}
	a, err := w.answer()
	if err != nil {
		return Answer{}, err
	}
	a.Command, a.Module = request.Command, request.Module
	return a, nil
}

// DecodeBizListOutput reads a queryAllBiz answer in its full form: an HTTP body, or the data of a
// base/biz message of generation A. If the error is ErrDropped, the list contains the valid modules.
func DecodeBizListOutput(body []byte) ([]Biz, error) {
	var w struct {
		Code    string   `json:"code"`
		Message string   `json:"message"`
		Data    wireList `json:"data"`
	}
	if err := decode(body, &w); err != nil {
		return nil, err
	}
	if w.Code != CodeSuccess {
		return nil, fmt.Errorf("base answered %.80q to queryAllBiz: %s", w.Code, Text(w.Message))
	}
	return bizList(w.Data)
}
