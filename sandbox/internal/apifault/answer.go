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

// errChanged is how the API server explains a conflict.
var errChanged = errors.New("the object has been modified; please apply your changes to the latest " +
	"version and try again")

// refusal is what the API server would say with a code. after is for 429.
func refusal(code int, r *request, after time.Duration) metav1.Status {
	switch code {
	case http.StatusConflict:
		return apierrors.NewConflict(schema.GroupResource{Group: r.group, Resource: r.resource}, r.name,
			errChanged).ErrStatus
	case http.StatusTooManyRequests:
		return apierrors.NewTooManyRequests("too many requests, please try again later",
			int(after/time.Second)).ErrStatus
	case http.StatusGone:
		return apierrors.NewResourceExpired("too old resource version").ErrStatus
	case http.StatusUnauthorized:
		return apierrors.NewUnauthorized(
			"this is the way of one controller to the API server, which has a token").ErrStatus
	default:
		return apierrors.NewInternalError(errors.New("the sandbox has refused it")).ErrStatus
	}
}

func answer(to *http.Request, s metav1.Status) *http.Response {
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, _ := json.Marshal(s) // plain fields
	header := http.Header{"Content-Type": {"application/json"}}
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	return respond(to, int(s.Code), header, body)
}

func respond(to *http.Request, code int, header http.Header, body []byte) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: to,
	}
}
