package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The ways in which a request fails.
var ways = []string{"409", "429", "500", "lost", "never"}

// disturbance is on the way of one client to the API server.
type disturbance struct {
	next http.RoundTripper

	mu     sync.Mutex
	share  float64 // of the requests that fail; 0 disturbs nothing
	random *rand.Rand
	failed map[string]int // by the way
	flows  map[string]int // requests by the UID of the flow schema that took them
	under  int            // requests under way, but for watches,
	most   int            // and the most of them so far
}

func newDisturbance(next http.RoundTripper) *disturbance {
	return &disturbance{next: next, random: rand.New(rand.NewPCG(1, 2)), failed: map[string]int{}, flows: map[string]int{}} //nolint:gosec // a test
}

func (d *disturbance) set(share float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.share = share
}

// fails says whether a request is to fail, and how.
func (d *disturbance) fails(r *http.Request, watch bool) string {
	if d.random.Float64() >= d.share {
		return ""
	}
	way := ways[d.random.IntN(len(ways))]
	switch {
	case watch && way != "429" && way != "500", // another matter: nobody's time is limited
		way == "409" && r.Method == http.MethodGet:
		return ""
	}
	d.failed[way]++
	return way
}

// RoundTrip is that of http.RoundTripper.
func (d *disturbance) RoundTrip(r *http.Request) (*http.Response, error) {
	watch := r.URL.Query().Has("watch")
	d.mu.Lock()
	way := d.fails(r, watch)
	if !watch {
		d.under++
		d.most = max(d.most, d.under)
	}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !watch {
			d.under--
		}
	}()
	switch way {
	case "409":
		return refused(r, http.StatusConflict, metav1.StatusReasonConflict), nil
	case "429":
		return refused(r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), nil
	case "500":
		return refused(r, http.StatusInternalServerError, metav1.StatusReasonInternalError), nil
	case "never":
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	answer, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.flows[answer.Header.Get("X-Kubernetes-PF-FlowSchema-UID")]++
	d.mu.Unlock()
	if way == "lost" {
		_ = answer.Body.Close() // nobody is to read it
		return nil, errors.New("the connection was lost")
	}
	return answer, nil
}

// refused is what an API server says that does not do it.
func refused(r *http.Request, code int32, reason metav1.StatusReason) *http.Response {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "the test refuses it",
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	body, _ := json.Marshal(status) // plain fields
	return &http.Response{
		Status: fmt.Sprint(code), StatusCode: int(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
