package traffic

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// Result is the result of a request.
type Result = events.RequestResult

// The values of Result. A request with any result except OK is lost.
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

// Record is the entry of one request in the request log.
type Record struct {
	// Seq is the sequence number of the request in its stream, from 1.
	Seq uint64 `json:"seq"`
	// Due is the planned time of the request. Latencies are measured from Due, so that they include a late start.
	// Sent is the time when the request was sent. Done is the time of its result.
	Due  time.Time `json:"due"`
	Sent time.Time `json:"sent"`
	Done time.Time `json:"done"`
	// Endpoint is the address of the selected endpoint; empty if Result is NoEndpoint. kube-proxy does not report the
	// endpoint that it selects; with kube-proxy, Endpoint is the IP:port of the Service.
	Endpoint string `json:"endpoint,omitempty"`
	// Pod and Base are the Pod and the base behind the endpoint, if known. With kube-proxy, Pod is empty, and Base is
	// read from the response.
	Pod  string `json:"pod,omitempty"`
	Base string `json:"base,omitempty"`
	// Version is the version of the module that responded.
	Version string `json:"version,omitempty"`
	Result  Result `json:"result"`
	// Status is the HTTP status of the response; 0 if there was no response.
	Status int `json:"status,omitempty"`
	// Error describes why the request was lost.
	Error string `json:"error,omitempty"`
}

// The routes of requests; see package events.
const (
	RouteGateway   = events.RouteGateway
	RouteAgent     = events.RouteAgent
	RouteKubeProxy = events.RouteKubeProxy
	RouteBases     = events.RouteBases
)

// LostRequest is a lost request, together with the stream that sent it.
type LostRequest struct {
	// Group and Stream identify the stream that sent the request. Route is the route of the stream.
	Group  string `json:"group"`
	Stream string `json:"stream"`
	Route  string `json:"route"`
	// Module is the name of the module to which the stream sends its requests.
	Module string `json:"module"`
	Record Record `json:"record"`
}

// Summary contains the request counts and latencies of a stream.
type Summary struct {
	// Name is the name of the stream.
	Name string `json:"name"`
	// Route is the route of the requests: RouteGateway, RouteAgent, RouteKubeProxy or RouteBases.
	Route string `json:"route"`
	// Sent is the number of requests that were due so far. Open is the number of these requests that have no result
	// yet.
	Sent int `json:"sent"`
	Open int `json:"open,omitempty"`
	// Lost is the number of requests that have a result other than OK.
	Lost int `json:"lost"`
	// Results contains the number of requests with each result.
	Results map[Result]int `json:"results"`
	// Versions contains the number of OK requests for each module version.
	Versions map[string]int `json:"versions,omitempty"`
	// P50, P99 and Max are latencies of OK requests, measured from the time when each request was due.
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
	// Late is the longest delay that this machine has caused: the delay until a request was sent, or the duration of
	// a reference request inside this process.
	Late time.Duration `json:"late"`
	// Started is the time of the first request. Ended is the time of the last request; it is zero while the stream
	// runs.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// Note is a text that is set if the stream stopped at one of its limits or was interrupted.
	Note string `json:"note,omitempty"`
}

// Second contains the counts of the requests that were due in one second of a stream.
type Second struct {
	// Start is the start of the second.
	Start time.Time `json:"start"`
	// Sent is the number of requests that were due. Lost is the number of these requests that were lost.
	Sent int `json:"sent"`
	Lost int `json:"lost"`
	// Versions contains the number of OK requests for each module version.
	Versions map[string]int `json:"versions,omitempty"`
}

// Bin contains the counts of the requests that were due in one interval of a stream.
type Bin struct {
	// From is the start of the interval, relative to the start of the stream. The length of the interval is
	// StreamResult.BinWidth.
	From time.Duration `json:"from"`
	// Sent is the number of requests that were due. Lost is the number of these requests that were lost.
	Sent int `json:"sent"`
	Lost int `json:"lost,omitempty"`
	// Versions contains the number of OK requests for each module version.
	Versions map[string]int `json:"versions,omitempty"`
}

// StreamResult is the result of a stopped stream.
type StreamResult struct {
	Summary
	// Seconds contains the counts for each second from the start of the stream, without gaps.
	Seconds []Second `json:"seconds,omitempty"`
	// Bins contains the counts for intervals of length BinWidth, for at most 600 intervals. Intervals in which no
	// request was due are omitted. For a stream that ran for more than five minutes, Bins is empty and BinWidth is 0.
	BinWidth time.Duration `json:"binWidth,omitempty"`
	Bins     []Bin         `json:"bins,omitempty"`
	// LostRequests contains the first MaxLost lost requests.
	LostRequests []Record `json:"lostRequests,omitempty"`
}
