package traffic

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// Result is the result of a request.
type Result = events.RequestResult

// The results. Every result except OK is a lost request.
const (
	OK           = events.RequestOK
	NoEndpoint   = events.RequestNoEndpoint
	Refused      = events.RequestRefused
	Reset        = events.RequestReset
	NotFound     = events.RequestNotFound
	Unavailable  = events.RequestUnavailable
	Timeout      = events.RequestTimeout
	WrongVersion = events.RequestWrongVersion
	Other        = events.RequestOther
)

// Results lists all results.
var Results = []Result{OK, NoEndpoint, Refused, Reset, NotFound, Unavailable, Timeout, WrongVersion, Other}

// Record is one request in the ledger.
type Record struct {
	// Seq counts the requests of a stream from 1.
	Seq uint64 `json:"seq"`
	// Due is when it was to be sent; latencies count from here, so that a late
	// start is not hidden. Sent is when it was, Done when its fate was known.
	Due  time.Time `json:"due"`
	Sent time.Time `json:"sent"`
	Done time.Time `json:"done"`
	// Endpoint is the address that was picked; empty with NoEndpoint. Through
	// kube-proxy, which does not tell its choice, it is IP:port of the Service.
	Endpoint string `json:"endpoint,omitempty"`
	// Pod and Base behind the endpoint, as far as known; through kube-proxy, no Pod,
	// and the base that its answer names.
	Pod  string `json:"pod,omitempty"`
	Base string `json:"base,omitempty"`
	// Version of the module that answered.
	Version string `json:"version,omitempty"`
	Result  Result `json:"result"`
	// Status is the HTTP status; 0 = none came.
	Status int `json:"status,omitempty"`
	// Error says what went wrong, for people.
	Error string `json:"error,omitempty"`
}

// The routes of requests; see package events.
const (
	RouteGateway   = events.RouteGateway
	RouteAgent     = events.RouteAgent
	RouteKubeProxy = events.RouteKubeProxy
	RouteBases     = events.RouteBases
)

// LostRequest is a request that was lost, and whose it was.
type LostRequest struct {
	// Group and Stream that it belongs to, and the Route of the stream.
	Group  string `json:"group"`
	Stream string `json:"stream"`
	Route  string `json:"route"`
	// Module that the stream asks for.
	Module string `json:"module"`
	Record Record `json:"record"`
}

// Summary counts the requests of a stream.
type Summary struct {
	// Name of the stream.
	Name string `json:"name"`
	// Route is RouteGateway, RouteAgent, RouteKubeProxy or RouteBases.
	Route string `json:"route"`
	// Sent is how many were due; Open how many have no result yet.
	Sent int `json:"sent"`
	Open int `json:"open,omitempty"`
	// Lost is Sent without those that are open or OK.
	Lost int `json:"lost"`
	// Results counts by result.
	Results map[Result]int `json:"results"`
	// Versions counts the OK answers by version.
	Versions map[string]int `json:"versions,omitempty"`
	// P50, P99 and Max are latencies of OK answers, from when they were due.
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
	// Late is the longest delay of this machine: how late a request was sent, or how long a reference request within
	// the process took.
	Late time.Duration `json:"late"`
	// Started and Ended bound the stream; Ended is zero while it runs.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// Note says so when the stream has stopped by itself, at one of its bounds, or was
	// cut off.
	Note string `json:"note,omitempty"`
}

// Second counts the requests that were due in one second of a stream.
type Second struct {
	// Start of the second.
	Start time.Time `json:"start"`
	// Sent and Lost in it.
	Sent int `json:"sent"`
	Lost int `json:"lost"`
	// Versions counts the OK answers by version.
	Versions map[string]int `json:"versions,omitempty"`
}

// Bin counts the requests that were due in a short time of a stream.
type Bin struct {
	// From is when it begins, from the start of the stream on; it lasts as long as End.BinWidth.
	From time.Duration `json:"from"`
	// Sent and Lost in it.
	Sent int `json:"sent"`
	Lost int `json:"lost,omitempty"`
	// Versions counts the OK answers by version.
	Versions map[string]int `json:"versions,omitempty"`
}

// StreamResult is what a stream has led to.
type StreamResult struct {
	Summary
	// Seconds from the start of the stream on, without gaps.
	Seconds []Second `json:"seconds,omitempty"`
	// Bins are the same in shorter times of BinWidth each, 600 at most, without those in which nothing
	// was due. A stream of more than five minutes has none, and no BinWidth.
	BinWidth time.Duration `json:"binWidth,omitempty"`
	Bins     []Bin         `json:"bins,omitempty"`
	// LostRequests are the first MaxLost that were lost.
	LostRequests []Record `json:"lostRequests,omitempty"`
}
