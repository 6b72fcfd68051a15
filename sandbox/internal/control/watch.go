package control

import (
	"net/http"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// eventLine is one line of a watch: an event, or the error that ends it.
type eventLine struct {
	timeline.Event
	Error *Error `json:"error,omitempty"`
}

// recordLine is one line of a ledger, or the error that ends it.
type recordLine struct {
	traffic.Record
	Failure *Error `json:"failure,omitempty"`
}

func (h *handler) controller(w http.ResponseWriter, r *http.Request) {
	var request ControllerRequest
	if h.read(w, r, &request) {
		before, err := h.service.SetController(r.Context(), request)
		h.answer(w, before, err)
	}
}

func (h *handler) watch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	request := WatchRequest{Group: query.Get("group"), Own: query.Get("own") == "true"}
	send := stream[eventLine](w)
	if err := h.service.Watch(r.Context(), request, func(e timeline.Event) { send(eventLine{Event: e}) }); err != nil {
		send(eventLine{Error: asError(err)})
	}
}

func (h *handler) traffic(w http.ResponseWriter, r *http.Request) {
	summaries, err := h.service.Traffic(r.Context(), r.PathValue("group"))
	h.answer(w, summaries, err)
}

func (h *handler) startTraffic(w http.ResponseWriter, r *http.Request) {
	var spec traffic.Spec
	if h.read(w, r, &spec) {
		h.answer(w, struct{}{}, h.service.StartTraffic(r.Context(), r.PathValue("group"), spec))
	}
}

func (h *handler) stopTraffic(w http.ResponseWriter, r *http.Request) {
	end, err := h.service.StopTraffic(r.Context(), r.PathValue("group"), r.PathValue("name"))
	h.answer(w, end, err)
}

func (h *handler) records(w http.ResponseWriter, r *http.Request) {
	send := stream[recordLine](w)
	err := h.service.TrafficRecords(r.Context(), r.PathValue("group"), r.PathValue("name"),
		func(record traffic.Record) { send(recordLine{Record: record}) })
	if err != nil {
		send(recordLine{Failure: asError(err)})
	}
}
