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

// robot is the destination of messages.
type robot struct {
	address url.URL
	secret  string   // signs messages; empty means that they are not signed
	hidden  []string // the confidential parts of the address
}

func newRobot(address *url.URL) robot {
	r := robot{address: *address, secret: address.Fragment}
	r.address.Fragment, r.address.RawFragment = "", ""
	hide := func(texts ...string) {
		for _, text := range texts {
			if len(text) >= shortestToken {
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
		if len(part) >= longPart {
			hide(part)
		}
	}
	slices.SortFunc(r.hidden, func(a, b string) int { return len(b) - len(a) })
	return r
}

// The minimum sizes of a token in the query, and of a part of the path that may be a token.
const (
	shortestToken = 6
	longPart      = 16
)

// url returns the address for a message that is sent now. The signature is valid for an hour (DingTalk, "custom robot, security
// settings").
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

// hide removes the confidential parts from a text. A robot may repeat them in its answers.
func (r robot) hide(text string) string {
	for _, token := range r.hidden {
		text = strings.ReplaceAll(text, token, "…")
	}
	return text
}

// withoutAddress removes the address from an error of net/http.
func withoutAddress(err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		return inner.Err
	}
	return err
}

// robotAnswer is an answer of DingTalk, which also has status 200 if it refuses a message.
type robotAnswer struct {
	Code    int    `json:"errcode"`
	Message string `json:"errmsg"`
}

// The codes of DingTalk robots that decide what to do next.
const (
	robotTooFast   = 130101 // more than 20 messages a minute
	robotNoToken   = 300001 // the token does not exist
	robotForbidden = 310000 // key word, signature or sender's address does not match
)

// verdict returns nil for a success. hopeless reports whether another attempt would fail too.
func verdict(status int, text []byte) (hopeless bool, err error) {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return true, errcode.New(errcode.OtherUpstreamSecretAKError, "status %d", status)
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return false, fmt.Errorf("status %d", status)
	case status >= 300 && status < 400:
		return true, errcode.New(errcode.OtherUpstreamInvalidParameter, "status %d: a redirect is not followed", status)
	case status >= 400:
		return true, errcode.New(errcode.OtherUpstreamInvalidParameter, "status %d", status)
	}
	var answer robotAnswer
	_ = json.Unmarshal(text, &answer) // other servers send no errcode
	said := arklet.Text(answer.Message)
	switch answer.Code {
	case 0:
		return false, nil
	case robotTooFast:
		return false, fmt.Errorf("robot answers %d: %s", answer.Code, said)
	case robotNoToken, robotForbidden:
		return true, errcode.New(errcode.OtherUpstreamSecretAKError, "robot answers %d: %s", answer.Code, said)
	}
	return true, errcode.New(errcode.OtherUpstreamInvalidParameter, "robot answers %d: %s", answer.Code, said)
}
