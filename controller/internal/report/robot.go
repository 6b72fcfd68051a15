package report

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// robot is the DingTalk robot of a hook.
type robot struct {
	address url.URL
	secret  string   // key that signs the messages; empty if messages are not signed
	hidden  []string // confidential parts of the URL, the longest first
}

func newRobot(address *url.URL) robot {
	r := robot{address: *address, secret: address.Fragment}
	r.address.Fragment, r.address.RawFragment = "", ""
	hide := func(texts ...string) {
		for _, text := range texts {
			if len(text) >= minTokenLength {
				r.hidden = append(r.hidden, text, url.QueryEscape(text))
			}
		}
	}
	password, _ := address.User.Password()
	hide(r.secret, password)
	for _, values := range address.Query() {
		hide(values...)
	}
	for part := range strings.SplitSeq(address.Path, "/") {
		if len(part) >= minPathTokenLength {
			hide(part)
		}
	}
	slices.SortFunc(r.hidden, func(a, b string) int { return len(b) - len(a) })
	return r
}

// Minimum lengths of secrets in bytes: minTokenLength for query values and passwords, minPathTokenLength for path
// segments.
const (
	minTokenLength     = 6
	minPathTokenLength = 16
)

// url returns the URL for a message that is sent at the time now. If the hook has a secret, the URL contains a
// signature, which is valid for an hour (DingTalk, "custom robot, security settings").
func (r robot) url(now time.Time) string {
	if r.secret == "" {
		return r.address.String()
	}
	at := strconv.FormatInt(now.UnixMilli(), 10)
	mac := hmac.New(sha256.New, []byte(r.secret))
	mac.Write([]byte(at + "\n" + r.secret))
	address, query := r.address, r.address.Query()
	query.Set("timestamp", at)
	query.Set("sign", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	address.RawQuery = query.Encode()
	return address.String()
}

// hide replaces the confidential parts of the URL in a text with an ellipsis. A robot may repeat these parts in its
// responses.
func (r robot) hide(text string) string {
	for _, token := range r.hidden {
		text = strings.ReplaceAll(text, token, "…")
	}
	return text
}

// withoutAddress removes the URL from an error that net/http returned.
func withoutAddress(err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		return inner.Err
	}
	return err
}

// robotAnswer is the response body from DingTalk. The HTTP status is 200 even if DingTalk rejects a message.
type robotAnswer struct {
	Code    int    `json:"errcode"`
	Message string `json:"errmsg"`
}

// Error codes in the responses of DingTalk robots.
const (
	robotTooFast   = 130101 // more than 20 messages per minute
	robotNoToken   = 300001 // the token does not exist
	robotForbidden = 310000 // the keyword, the signature or the IP address of the sender does not match
)

// checkResponse returns nil if the robot accepted the message. permanent reports whether another attempt would fail
// in the same way.
func checkResponse(status int, text []byte) (permanent bool, err error) {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return true, errcode.New(errcode.OtherUpstreamSecretAKError, "HTTP status %d", status)
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return false, fmt.Errorf("HTTP status %d", status)
	case status >= 300 && status < 400:
		return true, errcode.New(errcode.OtherUpstreamInvalidParameter, "HTTP status %d: redirects are not followed",
			status)
	case status >= 400:
		return true, errcode.New(errcode.OtherUpstreamInvalidParameter, "HTTP status %d", status)
	}
	var answer robotAnswer
	_ = json.Unmarshal(text, &answer) // other servers send no errcode
	message := arklet.SanitizeText(answer.Message)
	switch answer.Code {
	case 0:
		return false, nil
	case robotTooFast:
		return false, fmt.Errorf("the robot returned the error code %d: %s", answer.Code, message)
	case robotNoToken, robotForbidden:
		return true, errcode.New(errcode.OtherUpstreamSecretAKError, "the robot returned the error code %d: %s",
			answer.Code, message)
	}
	return true, errcode.New(errcode.OtherUpstreamInvalidParameter, "the robot returned the error code %d: %s",
		answer.Code, message)
}
