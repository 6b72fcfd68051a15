package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	basefault "github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

func onBase(p params) string { return kindBase + "/" + p["base"] }

func fromRow(name, field string) ActionParam { return ActionParam{Name: name, From: field} }

// sandboxActions lists the actions that require a sandbox. Each action calls the control API of the sandbox, like the
// command line does.
func sandboxActions() []act {
	all := []act{
		{
			Action: Action{ID: "fault.set", On: kindBase, Title: "Set a fault", Danger: true, Params: []ActionParam{
				fromRow("base", "name"),
				{Name: "kind", Choices: faultKinds(), Default: string(basefault.KindLatency)},
				{Name: "delay", Optional: true, Default: "2s",
					Hint: "for kinds with a delay, and the offset of clockSkew; for example 2s"},
				{Name: "code", Optional: true, Hint: "for the kind error, such as User.MetaspaceFull"},
				{Name: "count", Number: true, Optional: true, Hint: "maximum number of times; empty = unlimited"},
				{Name: "for", Optional: true, Hint: "duration, such as 30s; empty = until it is cleared"},
			}},
			target: onBase, do: setFault,
		},
		{
			Action: Action{ID: "fault.clear", On: kindFault, Title: "Clear this fault", Params: []ActionParam{
				fromRow("id", "id"), fromRow("target", "target"), {Name: "base", From: "base", Optional: true},
			}},
			target: onBase, do: clearFault,
		},
		{
			Action: Action{ID: "base.kill", On: kindBase, Title: "Kill this base", Danger: true,
				Params: []ActionParam{fromRow("base", "name")}},
			target: onBase, do: killBase,
		},
		{
			Action: Action{ID: "base.restart", On: kindBase, Title: "Restart this base", Danger: true,
				Params: []ActionParam{
					fromRow("base", "name"),
					{Name: "newIdentity", Choices: []string{"false", "true"}, Default: "false"},
				}},
			target: onBase, do: restartBase,
		},
		{
			Action: Action{ID: "base.remove", On: kindBase, Title: "Remove this base", Danger: true,
				Params: []ActionParam{fromRow("base", "name")}},
			target: onBase,
			do: func(ctx context.Context, b *Board, p params) (ActionResult, error) {
				_, err := b.daemon.RemoveBases(ctx, sandbox.RemoveRequest{Bases: []string{p["base"]}})
				return ActionResult{"base " + p["base"] + " was removed", b.koupsandbox("base", "remove", p["base"])},
					err
			},
		},
		{
			Action: Action{ID: "base.add", On: kindBoard, Title: "Add bases",
				Params: []ActionParam{{Name: "count", Number: true, Default: "1"}}},
			target: func(params) string { return "the bases" },
			do: func(ctx context.Context, b *Board, p params) (ActionResult, error) {
				added, err := b.daemon.AddBases(ctx, sandbox.AddRequest{Count: p.number("count")})
				return ActionResult{"added " + plain.Count(len(added), "base"),
					b.koupsandbox("base", "add", p["count"])}, err
			},
		},
		{
			Action: Action{ID: "traffic.start", On: kindService, Title: "Send requests", Params: []ActionParam{
				fromRow("namespace", "namespace"), fromRow("service", "name"), {Name: "module", From: "module"},
				{Name: "rate", Number: true, Default: "20", Hint: "requests per second"},
				{Name: "stream", Default: "board", Hint: "name of the stream"},
			}},
			target: onStream, do: startTraffic,
		},
		{
			Action: Action{ID: "traffic.stop", On: kindStream, Title: "Stop these requests", Params: []ActionParam{
				{Name: "group", From: "group", Optional: true}, fromRow("stream", "name"),
			}},
			target: onStream, do: stopTraffic,
		},
	}
	titles := map[supervise.Action]string{
		supervise.Kill: "Kill", supervise.Pause: "Pause", supervise.Resume: "Resume",
		supervise.Restart: "Restart", supervise.Stop: "Stop", supervise.Start: "Start",
	}
	for _, does := range supervise.Actions {
		all = append(all, act{
			Action: Action{ID: "component." + string(does), On: kindComponent, Title: titles[does],
				Params: []ActionParam{fromRow("component", "name")},
				Danger: does != supervise.Resume && does != supervise.Start},
			target: func(p params) string { return kindComponent + "/" + p["component"] },
			do: func(ctx context.Context, b *Board, p params) (ActionResult, error) {
				err := b.daemon.Act(ctx, sandbox.ActRequest{Component: p["component"], Action: does})
				return ActionResult{fmt.Sprintf("%s: %s succeeded", p["component"], does),
					b.koupsandbox("component", string(does), p["component"])}, err
			},
		})
	}
	return all
}

func faultKinds() []string {
	var names []string
	for _, k := range basefault.Kinds() {
		names = append(names, string(k))
	}
	return names
}

func onStream(p params) string { return kindStream + "/" + p["group"] + "/" + p["stream"] }

func setFault(ctx context.Context, b *Board, p params) (ActionResult, error) {
	f := basefault.Fault{Kind: basefault.Kind(p["kind"]), Count: p.number("count"), Code: p["code"]}
	delay, err := duration(p, "delay")
	if err != nil {
		return ActionResult{}, err
	}
	f.For, err = duration(p, "for")
	if err != nil {
		return ActionResult{}, err
	}
	switch {
	case f.Kind == basefault.KindClockSkew:
		f.Skew = delay
	case basefault.Fault{Kind: f.Kind, Delay: basefault.Delay{Min: delay}}.Validate() == nil:
		f.Delay.Min = delay // of other kinds the default has no meaning
	}
	if err := f.Validate(); err != nil {
		return ActionResult{}, invalid("%v", err)
	}
	text, err := json.Marshal(f)
	if err != nil {
		return ActionResult{}, fmt.Errorf("encoding the fault: %w", err)
	}
	id, err := b.daemon.SetFault(ctx, onBases(f, p["base"]))
	return ActionResult{fmt.Sprintf("fault %s (%s) was set on %s", id, f.Kind, p["base"]),
		b.koupsandbox("fault", "set", "--base", p["base"], string(text))}, err
}

func duration(p params, name string) (basefault.Duration, error) {
	if p[name] == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(p[name])
	if err != nil || d < 0 {
		return 0, invalid("%s must be a duration, for example 2s or 500ms", name)
	}
	return basefault.Duration(d), nil
}

func onBases(f basefault.Fault, base string) fault.Injection {
	return fault.Injection{Fault: v1alpha1.FaultOf(f), Target: v1alpha1.TargetBase, Bases: []string{base}}
}

func clearFault(ctx context.Context, b *Board, p params) (ActionResult, error) {
	r := sandbox.FaultSelector{Target: v1alpha1.FaultTarget(p["target"]), IDs: []string{p["id"]}}
	where := []string{"--target", p["target"]}
	if p["base"] != "" {
		r.Bases, where = []string{p["base"]}, append(where, "--base", p["base"])
	}
	err := b.daemon.ClearFaults(ctx, r)
	return ActionResult{"fault " + p["id"] + " was cleared",
		b.koupsandbox(append(append([]string{"fault", "clear"}, where...), p["id"])...)}, err
}

func killBase(ctx context.Context, b *Board, p params) (ActionResult, error) {
	_, err := b.daemon.SetFault(ctx, onBases(basefault.Fault{Kind: basefault.KindCrash}, p["base"]))
	return ActionResult{"base " + p["base"] + " was killed", b.koupsandbox("base", "kill", p["base"])}, err
}

func restartBase(ctx context.Context, b *Board, p params) (ActionResult, error) {
	anew := p["newIdentity"] == strconv.FormatBool(true)
	_, err := b.daemon.RestartBase(ctx, p["base"], sandbox.RestartRequest{NewIdentity: anew})
	words := []string{"base", "restart", p["base"]}
	if anew {
		words = append(words, "--new-identity")
	}
	return ActionResult{"base " + p["base"] + " was restarted", b.koupsandbox(words...)}, err
}

func startTraffic(ctx context.Context, b *Board, p params) (ActionResult, error) {
	spec := traffic.Spec{Namespace: p["namespace"]}
	rate := p.number("rate")
	spec.Name, spec.Service, spec.Module, spec.Rate = p["stream"], p["service"], p["module"], &rate
	err := b.daemon.StartTraffic(ctx, "", spec)
	return ActionResult{Message: fmt.Sprintf("sending %d requests per second to %s of Service %s", rate, spec.Module,
		spec.Service)}, err
}

func stopTraffic(ctx context.Context, b *Board, p params) (ActionResult, error) {
	end, err := b.daemon.StopTraffic(ctx, p["group"], p["stream"])
	if err != nil {
		return ActionResult{}, err
	}
	if end == nil {
		return ActionResult{}, errors.New("the sandbox returned no result for the stream")
	}
	return ActionResult{Message: fmt.Sprintf("%s was stopped: %d requests, %d lost", p["stream"], end.Sent, end.Lost)},
		nil
}
