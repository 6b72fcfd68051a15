package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/koupleless/koupsandbox/sandbox/internal/component"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// Service is what a daemon can do. An *Error decides the HTTP status of a
// failure; every other error is the daemon's own (500).
type Service interface {
	Status(ctx context.Context, bases bool) *Status
	// Up blocks until the sandbox is up; when ctx ends before the first up is
	// done, the sandbox is taken down. It calls sink for every step.
	Up(ctx context.Context, r UpRequest, sink func(progress.Event)) (*UpResult, error)
	// Down blocks until everything but the daemon itself has stopped.
	Down(ctx context.Context) error
	// Events calls sink for every step since the start until ctx or the daemon ends.
	Events(ctx context.Context, sink func(progress.Event))
	// Bases lists those of a group, or all if it is empty.
	Bases(group string) []Base
	AddBases(ctx context.Context, r AddRequest) ([]Base, error)
	RemoveBases(ctx context.Context, r RemoveRequest) ([]Base, error)
	RestartBase(ctx context.Context, base string, r RestartRequest) (*Base, error)
	Act(ctx context.Context, component string, action Action) error
	Inject(base string, fault json.RawMessage) (string, error)
	ClearFaults(base string, ids []string) error
	Faults(base string) ([]Fault, error)
	// SetController returns what was before, when the controllers are ready.
	SetController(ctx context.Context, r ControllerRequest) (ControllerRequest, error)
	// Watch calls sink for every event, one at a time, until ctx or the daemon ends.
	// A sink that is too slow ends it with an error.
	Watch(ctx context.Context, r WatchRequest, sink func(timeline.Event)) error
	StartTraffic(ctx context.Context, group string, s traffic.Spec) error
	Traffic(ctx context.Context, group string) ([]traffic.Summary, error)
	StopTraffic(ctx context.Context, group, name string) (*traffic.End, error)
	// TrafficRecords calls sink for every request so far.
	TrafficRecords(ctx context.Context, group, name string, sink func(traffic.Record)) error
}

// Handler serves the control API.
func Handler(s Service, log *slog.Logger) http.Handler {
	h := &handler{service: s, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", h.status)
	mux.HandleFunc("POST /v1/up", h.up)
	mux.HandleFunc("POST /v1/down", h.down)
	mux.HandleFunc("GET /v1/events", h.events)
	mux.HandleFunc("GET /v1/bases", h.bases)
	mux.HandleFunc("POST /v1/bases", h.addBases)
	mux.HandleFunc("DELETE /v1/bases", h.removeBases)
	mux.HandleFunc("GET /v1/bases/{base}/faults", h.faults)
	mux.HandleFunc("POST /v1/bases/{base}/faults", h.inject)
	mux.HandleFunc("DELETE /v1/bases/{base}/faults", h.clear)
	mux.HandleFunc("POST /v1/bases/{base}/restart", h.restart)
	mux.HandleFunc("POST /v1/components/{name}/{action}", h.act)
	mux.HandleFunc("PUT /v1/controller", h.controller)
	mux.HandleFunc("GET /v1/watch", h.watch)
	mux.HandleFunc("GET /v1/traffic/{group}", h.traffic)
	mux.HandleFunc("POST /v1/traffic/{group}", h.startTraffic)
	mux.HandleFunc("DELETE /v1/traffic/{group}/{name}", h.stopTraffic)
	mux.HandleFunc("GET /v1/traffic/{group}/{name}/records", h.records)
	return mux
}

type handler struct {
	service Service
	log     *slog.Logger
}

func (h *handler) status(w http.ResponseWriter, r *http.Request) {
	h.answer(w, h.service.Status(r.Context(), r.URL.Query().Get("bases") == "true"), nil)
}

func (h *handler) up(w http.ResponseWriter, r *http.Request) {
	var request UpRequest
	if !h.read(w, r, &request) {
		return
	}
	if request.Config == nil {
		h.answer(w, nil, &Error{Code: http.StatusBadRequest, Message: "config is missing"})
		return
	}
	send := stream[line](w)
	result, err := h.service.Up(r.Context(), request, func(e progress.Event) { send(line{Event: &e}) })
	if err != nil {
		send(line{Error: asError(err)})
		return
	}
	send(line{Result: result})
}

func (h *handler) down(w http.ResponseWriter, r *http.Request) {
	// A command that goes away has asked all the same.
	h.answer(w, struct{}{}, h.service.Down(context.WithoutCancel(r.Context())))
}

func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	send := stream[line](w)
	h.service.Events(r.Context(), func(e progress.Event) { send(line{Event: &e}) })
}

func (h *handler) bases(w http.ResponseWriter, r *http.Request) {
	h.answer(w, h.service.Bases(r.URL.Query().Get("group")), nil)
}

func (h *handler) addBases(w http.ResponseWriter, r *http.Request) {
	var request AddRequest
	if h.read(w, r, &request) {
		added, err := h.service.AddBases(r.Context(), request)
		h.answer(w, added, err)
	}
}

func (h *handler) removeBases(w http.ResponseWriter, r *http.Request) {
	var request RemoveRequest
	if h.read(w, r, &request) {
		removed, err := h.service.RemoveBases(r.Context(), request)
		h.answer(w, removed, err)
	}
}

func (h *handler) restart(w http.ResponseWriter, r *http.Request) {
	var request RestartRequest
	if h.read(w, r, &request) {
		base, err := h.service.RestartBase(r.Context(), r.PathValue("base"), request)
		h.answer(w, base, err)
	}
}

func (h *handler) faults(w http.ResponseWriter, r *http.Request) {
	faults, err := h.service.Faults(r.PathValue("base"))
	h.answer(w, faults, err)
}

func (h *handler) inject(w http.ResponseWriter, r *http.Request) {
	var fault json.RawMessage
	if h.read(w, r, &fault) {
		id, err := h.service.Inject(r.PathValue("base"), fault)
		h.answer(w, Fault{ID: id, Fault: fault}, err)
	}
}

func (h *handler) clear(w http.ResponseWriter, r *http.Request) {
	h.answer(w, struct{}{}, h.service.ClearFaults(r.PathValue("base"), r.URL.Query()["id"]))
}

func (h *handler) act(w http.ResponseWriter, r *http.Request) {
	action := Action(r.PathValue("action"))
	if !slices.Contains(component.Actions, action) {
		h.answer(w, nil, &Error{Code: http.StatusNotFound, Message: "unknown action " + string(action)})
		return
	}
	h.answer(w, struct{}{}, h.service.Act(r.Context(), r.PathValue("name"), action))
}

// read decodes the body, or answers what is wrong with it.
func (h *handler) read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		// Only when the body has been read to its end does net/http watch the
		// connection, and end the request's context when the command goes away.
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		h.answer(w, nil, &Error{Code: http.StatusBadRequest, Message: "the request cannot be read: " + err.Error()})
		return false
	}
	return true
}

func (h *handler) answer(w http.ResponseWriter, value any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		e := asError(err)
		w.WriteHeader(e.Code)
		value = e
	}
	if err := json.NewEncoder(w).Encode(value); err != nil {
		h.log.Debug("answer lost: the command has gone", "err", err)
	}
}

// stream returns a function that sends a value as a line at once; steps that
// overlap may call it concurrently. Whether the
// command still reads shows in the request's context.
func stream[T any](w http.ResponseWriter) func(T) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	e := json.NewEncoder(w)
	var mu sync.Mutex
	return func(l T) {
		mu.Lock()
		defer mu.Unlock()
		if e.Encode(l) == nil {
			_ = flush.Flush() // as above
		}
	}
}

func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return &Error{Code: e.Code, Message: err.Error()}
	}
	return &Error{Code: http.StatusInternalServerError, Message: err.Error()}
}
