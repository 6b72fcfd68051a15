package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/board/internal/access"
)

const (
	// actionTimeout is the timeout of an action. The restart of a component takes longer than any other action.
	actionTimeout = 2 * time.Minute
	// maxActions is the maximum number of concurrent actions.
	maxActions = 16
	// maxParams is the maximum size of an action request.
	maxParams = 64 << 10
)

type params map[string]string

type act struct {
	Action
	// target returns the key of the object that the action changes. Only one action per target can run at a time.
	target func(params) string
	do     func(ctx context.Context, b *Board, p params) (ActionResult, error)
}

// actionError is the error of a rejected action. It contains an error code.
type actionError struct {
	code    errcode.Code
	status  int
	message string
}

// Error returns the message.
func (r *actionError) Error() string { return r.message }

func refuse(code errcode.Code, status int, format string, values ...any) error {
	return &actionError{code, status, fmt.Sprintf(format, values...)}
}

// invalid returns the error for an invalid action parameter.
func invalid(format string, values ...any) error {
	return refuse(errcode.OtherUpstreamInvalidParameter, http.StatusBadRequest, format, values...)
}

type actions struct {
	board *Board
	ctx   context.Context //nolint:containedctx // of Start; ends the actions that continue after their response
	all   map[string]act

	mu      sync.Mutex
	busy    map[string]string // targets of running actions
	running sync.WaitGroup    // actions that continue after their response was sent
}

func newActions(b *Board) *actions {
	a := &actions{board: b, all: map[string]act{}, busy: map[string]string{}}
	var list []act
	if b.daemon != nil {
		list = append(list, sandboxActions()...)
		if b.o.Sandbox != nil && len(b.o.Scenarios) > 0 {
			list = append(list, scenarioAction(b.o.Scenarios))
		}
	}
	if b.o.API != nil && (b.daemon != nil || b.o.AllowActions) {
		list = append(list, workloadActions()...)
	}
	for _, x := range list {
		a.all[x.ID] = x
	}
	return a
}

// available returns the actions that are available, sorted by ID.
func (a *actions) available() []Action {
	var list []Action
	for _, x := range a.all {
		list = append(list, x.Action)
	}
	slices.SortFunc(list, func(a, b Action) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func (a *actions) wait() { a.running.Wait() }

// serve handles an action request: it runs the action and logs the user who requested it.
func (a *actions) serve(w http.ResponseWriter, r *http.Request) {
	id, user := r.PathValue("id"), access.User(r.Context())
	var p params
	result, err := ActionResult{}, error(nil)
	if wrong := json.NewDecoder(io.LimitReader(r.Body, maxParams)).Decode(&p); wrong != nil &&
		!errors.Is(wrong, io.EOF) {
		err = invalid("the parameters must be a JSON object of strings: %v", wrong)
	} else {
		result, err = a.do(r.Context(), id, p)
	}
	entry := LogEntry{Kind: LogAction, User: user, Name: id, Base: p["base"], Text: result.Message}
	if err != nil {
		problem, status := problemOf(err)
		entry.Bad, entry.Code, entry.Text = true, problem.Code, problem.Error
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(problem) // the client may have disconnected
	} else {
		answer(w, result)
	}
	a.board.o.Logger.Info("board action", "user", user, "action", id, "params", p, "err", err)
	entry.Time = millis(a.board.now())
	a.board.state.record(entry)
}

// problemOf returns the error code and the HTTP status for an error.
func problemOf(err error) (Problem, int) {
	var r *actionError
	var api apierrors.APIStatus
	switch {
	case errors.As(err, &r):
		return Problem{Error: r.message, Code: string(r.code)}, r.status
	case errors.Is(err, context.DeadlineExceeded):
		return Problem{Error: err.Error(), Code: string(errcode.KouplelessBoardNetworkError)}, http.StatusGatewayTimeout
	case errors.As(err, &api):
		return Problem{Error: err.Error(), Code: string(errcode.OtherDownstreamExternalError)}, http.StatusBadGateway
	}
	return Problem{Error: err.Error(), Code: string(errcode.KouplelessBoardUnknownError)}, http.StatusBadGateway
}

// do validates the parameters of an action and runs the action. Actions on the same target are mutually exclusive.
func (a *actions) do(ctx context.Context, id string, p params) (result ActionResult, err error) {
	x, known := a.all[id]
	if !known {
		return result, refuse(errcode.KouplelessBoardOperationPlanNotFound, http.StatusNotFound,
			"unknown action %q", id)
	}
	p, err = x.complete(p)
	if err != nil {
		return result, err
	}
	target := x.target(p)
	release, err := a.reserve(target, x.ID)
	if err != nil {
		return result, err
	}
	defer release()
	defer func() {
		if r := recover(); r != nil {
			a.board.o.Logger.Error("internal error in an action", "action", id, "panic", r, "stack",
				string(debug.Stack()))
			err = refuse(errcode.KouplelessBoardInternalError, http.StatusInternalServerError,
				"internal error in %s; see the log of the board", id)
		}
	}()
	// The action continues when the page disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actionTimeout)
	defer cancel()
	result, err = x.do(ctx, a.board, p)
	return result, a.failure(ctx, x, p, err)
}

// failure converts the error of an action to an error with an error code, if the code can be determined.
func (a *actions) failure(ctx context.Context, x act, p params, err error) error {
	var r *actionError
	var daemon *sandbox.Error
	switch {
	case err == nil || errors.As(err, &r):
		return err
	case ctx.Err() != nil && p["base"] != "":
		return refuse(errcode.ModuleControllerBaseInstanceOperationTimeOut, http.StatusGatewayTimeout,
			"%s of base %s took longer than %s", x.ID, p["base"], actionTimeout)
	case errors.As(err, &daemon) && daemon.Code == http.StatusBadRequest:
		return invalid("%s", daemon.Message)
	case errors.As(err, &daemon) && p["base"] != "":
		return refuse(errcode.ModuleControllerBaseInstanceOperationFailed, http.StatusBadGateway, "%s", daemon.Message)
	case errors.As(err, &daemon):
		return refuse(errcode.OtherDownstreamExternalError, http.StatusBadGateway, "%s", daemon.Message)
	}
	return err
}

// reserve reserves a target for one action until the caller calls release. Until then, other actions on the target
// are rejected.
func (a *actions) reserve(target, id string) (release func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if other, busy := a.busy[target]; busy {
		code := errcode.KouplelessBoardOperationPlanMutualExclusion
		if strings.HasPrefix(target, kindBase+"/") {
			code = errcode.ModuleControllerBaseInstanceUnderOperation
		}
		return nil, refuse(code, http.StatusConflict,
			"the action %s on %s is in progress; try again when it has ended", other, target)
	}
	if len(a.busy) >= maxActions {
		return nil, refuse(errcode.KouplelessBoardThreadPoolError, http.StatusServiceUnavailable,
			"%d actions are in progress; try again later", len(a.busy))
	}
	a.busy[target] = id
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.busy, target)
	}, nil
}

// complete validates the parameters of an action request and adds the default values.
func (x *act) complete(p params) (params, error) {
	full := params{}
	for name := range p {
		if !slices.ContainsFunc(x.Params, func(q ActionParam) bool { return q.Name == name }) {
			return nil, invalid("%s has no parameter %q", x.ID, name)
		}
	}
	for _, q := range x.Params {
		value := p[q.Name]
		if value == "" {
			value = q.Default
		}
		switch {
		case value == "" && q.Optional:
			continue
		case value == "":
			return nil, invalid("%s requires the parameter %s", x.ID, q.Name)
		case len(q.Choices) > 0 && !slices.Contains(q.Choices, value):
			return nil, invalid("%s must be one of: %s", q.Name, strings.Join(q.Choices, ", "))
		}
		if q.Number {
			if n, err := strconv.Atoi(value); err != nil || n < 0 || n > 1_000_000 {
				return nil, invalid("%s must be a whole number from 0 to 1000000", q.Name)
			}
		}
		full[q.Name] = value
	}
	return full, nil
}

// number returns the value of a numeric parameter that complete has validated. It returns 0 if the parameter is
// missing.
func (p params) number(name string) int {
	n, _ := strconv.Atoi(p[name])
	return n
}
