package fakebase

// wireResponse is a response of the arklet HTTP server (protocol 4.2).
type wireResponse struct {
	BaseIdentity    string `json:"baseIdentity,omitempty"`
	Code            string `json:"code"`
	Data            any    `json:"data,omitempty"`
	ErrorCode       string `json:"errorCode,omitempty"`
	ErrorStackTrace string `json:"errorStackTrace,omitempty"`
	Message         string `json:"message,omitempty"`
}

// response converts a command result to an HTTP response.
func (d dialect) response(identity string, o commandResult) wireResponse {
	out := wireResponse{Code: codeSuccess, Message: o.message}
	if d.codes {
		out.ErrorCode = o.code
	}
	switch {
	case o.unknown:
		out.Code, out.Message = "CMD_NOT_FOUND", "please follow the doc"
		return out
	case o.exception != nil:
		out.Code = "CMD_PROCESS_INTERNAL_ERROR"
		out.ErrorStackTrace, out.Message = o.exception.trace(), "Internal Error: "+o.exception.message()
		return out
	case o.failed:
		out.Code = codeFailed
	}
	out.BaseIdentity = identity
	if o.data != nil {
		out.Data = d.render(o.data)
	}
	return out
}
