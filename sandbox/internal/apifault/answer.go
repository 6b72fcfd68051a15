package apifault

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errChanged has the same message as a conflict error from a real API server.
var errChanged = errors.New("the object has been modified; please apply your changes to the latest " +
	"version and try again")

// errorStatus returns the Status object that an API server would send with the HTTP status code. retryAfter is only
// used for status 429.
func errorStatus(code int, r *request, retryAfter time.Duration) metav1.Status {
	switch code {
	case http.StatusConflict:
		return apierrors.NewConflict(schema.GroupResource{Group: r.group, Resource: r.resource}, r.name,
			errChanged).ErrStatus
	case http.StatusTooManyRequests:
		return apierrors.NewTooManyRequests("too many requests, please try again later",
			int(retryAfter/time.Second)).ErrStatus
	case http.StatusGone:
		return apierrors.NewResourceExpired("too old resource version").ErrStatus
	case http.StatusUnauthorized:
		return apierrors.NewUnauthorized(
			"this port of the API proxy is reserved for one controller; use that controller's kubeconfig").ErrStatus
	default:
		return apierrors.NewInternalError(errors.New("rejected by a fault of the sandbox")).ErrStatus
	}
}

func statusResponse(to *http.Request, s metav1.Status) *http.Response {
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, _ := json.Marshal(s) // a Status can always be encoded
	header := http.Header{"Content-Type": {"application/json"}}
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	return newResponse(to, int(s.Code), header, body)
}

func newResponse(to *http.Request, code int, header http.Header, body []byte) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: to,
	}
}
