package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// maxFault is the largest body of an injection.
const maxFault = 1 << 16

// Control is one base as HTTP and JSON.
//
//	GET    /            its status
//	GET    /faults      its faults
//	POST   /faults      injects the fault in the body
//	DELETE /faults      clears all
//	DELETE /faults/{id} clears one
//	POST   /crash       ends its process
//	POST   /restart     starts it again, as ?identity= if given
//	POST   /web         opens its listener for module traffic
//
// What cannot be is answered with a status of 400 or more and {"error": "why"}.
func Control(b *fakebase.Base) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { Answer(w, http.StatusOK, b.Status()) })
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { Answer(w, http.StatusOK, b.Faults()) })
	mux.HandleFunc("POST /faults", func(w http.ResponseWriter, r *http.Request) { inject(w, r, b) })
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, _ *http.Request) {
		Answer(w, http.StatusOK, clearedBody{b.Clear()})
	})
	mux.HandleFunc("DELETE /faults/{id}", func(w http.ResponseWriter, r *http.Request) {
		if b.Clear(r.PathValue("id")) == 0 {
			Refuse(w, http.StatusNotFound, fmt.Sprintf("there is no fault %q", r.PathValue("id")))
			return
		}
		Answer(w, http.StatusOK, clearedBody{1})
	})
	mux.HandleFunc("POST /crash", func(w http.ResponseWriter, _ *http.Request) {
		b.Crash()
		Answer(w, http.StatusOK, struct{}{})
	})
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, r *http.Request) {
		switch err := b.Restart(r.URL.Query().Get("identity")); {
		case errors.Is(err, fakebase.ErrNotRunning):
			Refuse(w, http.StatusConflict, err.Error())
		case err != nil:
			Refuse(w, http.StatusBadRequest, err.Error())
		default:
			Answer(w, http.StatusOK, struct{}{})
		}
	})
	mux.HandleFunc("POST /web", func(w http.ResponseWriter, r *http.Request) {
		addr, err := b.WebAddr(r.Context())
		if err != nil {
			Refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		Answer(w, http.StatusOK, webBody{addr})
	})
	return mux
}

// What requests are answered with.
type (
	injectedBody struct {
		ID string `json:"id"`
	}
	clearedBody struct {
		Cleared int `json:"cleared"`
	}
	webBody struct {
		Addr string `json:"addr"`
	}
	errorBody struct {
		Error string `json:"error"`
	}
)

func inject(w http.ResponseWriter, r *http.Request, b *fakebase.Base) {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxFault))
	d.DisallowUnknownFields()
	var f fault.Fault
	if err := d.Decode(&f); err != nil {
		Refuse(w, http.StatusBadRequest, "the body is not a fault: "+err.Error())
		return
	}
	id, err := b.Inject(f)
	if err != nil {
		Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	Answer(w, http.StatusOK, injectedBody{id})
}

// Refuse answers a request that cannot be.
func Refuse(w http.ResponseWriter, status int, why string) { Answer(w, status, errorBody{why}) }

// Answer answers a request with a value as JSON.
func Answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
