package expr_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

func env(t *testing.T) *expr.Env {
	t.Helper()
	e, err := expr.New(expr.Static{
		Vars: map[string]any{"version": "2.0", "count": int64(3), "share": 0.5, "names": []any{"biz1", "biz2"},
			"deep": map[string]any{"a": int64(1)}, "on": true},
		Matrix: map[string][]any{"tunnel": {"mqtt", "http"}, "bases": {int64(1), int64(4)},
			"mixed": {int64(1), "two"}},
		Outputs: []string{"revision"},
		Streams: []string{"traffic", "direct"},
		Sets:    []string{"base", "east"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func pod(name string, ready bool, containers ...any) map[string]any {
	status := "False"
	if ready {
		status = "True"
	}
	return map[string]any{
		"metadata": map[string]any{"name": name, "labels": map[string]any{"app": "biz1"}},
		"spec":     map[string]any{"containers": containers},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status}}},
	}
}

func data(pods ...any) expr.Data {
	return expr.Data{
		"vars": map[string]any{"version": "2.0", "count": int64(3), "share": 0.5, "names": []any{"biz1", "biz2"},
			"deep": map[string]any{"a": int64(1)}, "on": true},
		"matrix": map[string]any{"tunnel": "mqtt", "bases": int64(4), "mixed": "two"},
		"run": expr.Run{Namespace: "rolling-x7k2p", Group: "rolling-x7k2p", Seed: 1<<63 + 5, Env: "dev",
			Attempt: 1}.Value(),
		"outputs": map[string]any{"revision": "7"},
		"pods":    func() any { return pods },
		"nodes":   []any{},
		"bases": map[string]any{
			"base-1": expr.Base{Set: "base", Index: 1, Version: "1.0.0",
				BaseStatus: events.BaseStatus{Ready: true, Health: "UP", Metaspace: events.Metaspace{Used: 9, Max: 10},
					Modules: []events.ModuleStatus{
						{ModuleRef: events.ModuleRef{Name: "biz1", Version: "2.0"}, State: events.ModuleActivated},
					}}}.Value(),
			"base-2": expr.Base{Set: "base", Index: 2, Version: "1.0.0",
				BaseStatus: events.BaseStatus{Ready: true}}.Value(),
		},
		"traffic": map[string]any{"traffic": expr.Stream(
			traffic.Summary{Sent: 10, Lost: 1, Results: map[traffic.Result]int{traffic.OK: 9, traffic.Reset: 1},
				Versions: map[string]int{"2.0": 9}, P99: 20 * time.Millisecond})},
	}
}

func TestConditions(t *testing.T) {
	const ready = `p.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`
	for _, tc := range []struct {
		text string
		pods []any
		want expr.Result
		uses []string
	}{
		{`pods.all(p, ` + ready + `)`, []any{pod("a", true), pod("b", true)}, expr.Result{Value: true},
			[]string{"pods"}},
		{`pods.all(p, ` + ready + `)`, []any{pod("a", true), pod("b", false)}, expr.Result{Value: false},
			[]string{"pods"}},
		{`pods.all(p, ` + ready + `)`, nil, expr.Result{Value: true, EmptyLists: []string{"pods"}}, []string{"pods"}},
		{`!pods.exists(p, p.metadata.name == "x")`, nil, expr.Result{Value: true, EmptyLists: []string{"pods"}},
			[]string{"pods"}},
		{`size(pods) == 0`, nil, expr.Result{Value: true}, []string{"pods"}},
		{`size(pods) == 0 || pods.all(p, ` + ready + `)`, nil, expr.Result{Value: true}, []string{"pods"}},
		{`pods.filter(p, p.metadata.name == "x").all(p, ` + ready + `)`, []any{pod("a", true)},
			expr.Result{Value: true, EmptyLists: []string{`pods.filter(p, p.metadata.name == "x")`}}, []string{"pods"}},
		{`pods.filter(p, p.metadata.name == "x").size() == 0`, []any{pod("a", true)}, expr.Result{Value: true},
			[]string{"pods"}},
		{`pods.all(p, ` + ready + `) && nodes.all(n, true)`, []any{pod("a", true)},
			expr.Result{Value: true, EmptyLists: []string{"nodes"}}, []string{"nodes", "pods"}},
		{`pods.exists(p, ` + ready + `) || nodes.exists(n, true)`, []any{pod("a", false)}, expr.Result{Value: false},
			[]string{"nodes", "pods"}},
		{`nodes.exists(n, true) || pods.exists(p, ` + ready + `)`, []any{pod("a", true)}, expr.Result{Value: true},
			[]string{"nodes", "pods"}},
		{`pods.all(p, p.spec.containers.all(c, c.name == "biz1"))`, []any{pod("a", true)}, expr.Result{Value: true},
			[]string{"pods"}},
		{`pods.map(p, p.metadata.name).sortBy(n, n) == ["a", "b"]`, []any{pod("b", true), pod("a", true)},
			expr.Result{Value: true}, []string{"pods"}},
		{`bases["base-1"].modules.exists(m, m.name == "biz1" && m.version == vars.version)`, nil,
			expr.Result{Value: true}, []string{"bases", "vars", "vars.version"}},
		{`bases["base-1"].health == "UP" && bases["base-1"].metaspace.used < bases["base-1"].metaspace.max`, nil,
			expr.Result{Value: true}, []string{"bases"}},
		{`bases.all(name, bases[name].ready)`, nil, expr.Result{Value: true}, []string{"bases"}},
		{`bases.all(name, b, b.set == "base" && b.index > 0)`, nil, expr.Result{Value: true}, []string{"bases"}},
		{`traffic.traffic.lost == 1 && traffic["traffic"].reset == 1 && traffic.traffic.versions["2.0"] == 9`, nil,
			expr.Result{Value: true},
			[]string{"traffic", "traffic.traffic"}},
		{`traffic.traffic.p99 < duration("100ms")`, nil, expr.Result{Value: true},
			[]string{"traffic", "traffic.traffic"}},
		{`matrix.mixed == "two" && run.namespace.startsWith("rolling") && run.seed == 5`, nil, expr.Result{Value: true},
			[]string{"matrix", "matrix.mixed", "run", "run.namespace", "run.seed"}},
		{`vars.names.all(n, n.startsWith("biz"))`, nil, expr.Result{Value: true}, []string{"vars", "vars.names"}},
	} {
		t.Run(tc.text, func(t *testing.T) {
			p, err := env(t).Compile(tc.text, expr.Condition)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Eval(data(tc.pods...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.uses, p.Uses()); diff != "" {
				t.Errorf("uses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudgeAndUntil(t *testing.T) {
	judge, err := env(t).Compile("lost == 1 && reset == 1 && ok >= 9 && timeout == 0 && vars.count == 3", expr.Judge)
	if err != nil {
		t.Fatal(err)
	}
	figures := expr.Stream(traffic.Summary{Sent: 10, Lost: 1,
		Results: map[traffic.Result]int{traffic.OK: 9, traffic.Reset: 1}})
	figures["vars"] = data()["vars"]
	if r, err := judge.Eval(figures); err != nil || !r.True() {
		t.Errorf("judge returned %+v, %v", r, err)
	}
	until, err := env(t).Compile(`exitCode == 0 && stdout.contains("done")`, expr.Until)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := until.Eval(expr.Data{"stdout": "all done", "stderr": "", "exitCode": int64(0)}); err != nil ||
		!r.True() {
		t.Errorf("until returned %+v, %v", r, err)
	}
}

// TestNoValue checks that evaluation returns an error, and not false, if a value in the expression does not exist.
func TestNoValue(t *testing.T) {
	for text, want := range map[string]string{
		`bases["base-9"].ready`:             "base-9",
		`pods.all(p, p.spec.nodeName > "")`: "nodeName",
		`pods[0].metadata.name`:             " a,",
	} {
		p, err := env(t).Compile(text, expr.Condition)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Eval(data(pod("a", true)))
		if _, why, _ := strings.Cut(fmt.Sprint(err), strconv.Quote(text)); !strings.Contains(why, want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
}

// where compares problems. It ignores Text, which TestExcerpts compares, and requires only that Detail contains the
// wanted text.
var where = cmp.Options{
	cmpopts.IgnoreFields(expr.Problem{}, "Text"),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Detail" },
		cmp.Comparer(func(a, b string) bool { return strings.Contains(a, b) || strings.Contains(b, a) })),
}

func TestProblems(t *testing.T) {
	for _, tc := range []struct {
		text string
		kind expr.Scope
		want expr.Problems
	}{
		{"vars.versoin", expr.Value, expr.Problems{{1, 5, expr.UnknownField, "version", ""}}},
		{"vars.colour", expr.Value,
			expr.Problems{{1, 5, expr.UnknownField, "count, deep, names, on, share, version", ""}}},
		{"varz.count", expr.Value, expr.Problems{{1, 1, expr.MisspelledName, "vars", ""}}},
		{"outputs.revisoin", expr.Value, expr.Problems{{1, 8, expr.UnknownField, "revision", ""}}},
		{"pods.size()", expr.Value, expr.Problems{{1, 1, expr.NotKnownHere, "pods", ""}}},
		{"lost == 0", expr.Condition,
			expr.Problems{{1, 1, expr.UnknownName,
				"bases, daemonsets, deployments, endpointslices, events, matrix, nodes, outputs, pods, replicasets, " +
					"run, services, statefulsets, traffic, vars", ""}}},
		{"losd == 0", expr.Judge, expr.Problems{{1, 1, expr.MisspelledName, "lost", ""}}},
		{"vars.count == vars.version", expr.Condition, expr.Problems{{1, 12, expr.NoOverload, "(int, string)", ""}}},
		{"vars.count +\n vars.nothing", expr.Value,
			expr.Problems{{2, 6, expr.UnknownField, "count, deep, names, on, share, version", ""}}},
		{"siz(pods) == 0", expr.Condition, expr.Problems{{1, 4, expr.UnknownFunction, "size", ""}}},
		{"pods.al(p, p.x)", expr.Condition, expr.Problems{{1, 8, expr.UnknownFunction, "all", ""}}},
		{"size(pods)", expr.Condition, expr.Problems{{1, 1, expr.NotBoolean, "int", ""}}},
		{"pods.all(p", expr.Condition, expr.Problems{{1, 11, expr.Syntax, ")", ""}}},
		{"traffic.trafic.lost == 0", expr.Condition, expr.Problems{{1, 8, expr.UnknownStream, "traffic", ""}}},
		{`bases["bse-1"].ready`, expr.Condition, expr.Problems{{1, 6, expr.UnknownSet, "base", ""}}},
		{`bases["base"].ready`, expr.Condition, expr.Problems{{1, 6, expr.UnknownBase, "base", ""}}},
		{`bases["base-1"].raedy`, expr.Condition, expr.Problems{{1, 16, expr.UnknownField, "ready", ""}}},
		{"traffic.traffic.losst == 0", expr.Condition, expr.Problems{{1, 16, expr.UnknownField, "lost", ""}}},
		{"vars.version.all(x, true)", expr.Condition,
			expr.Problems{{1, 5, expr.Other,
				"expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)", ""}}},
	} {
		t.Run(tc.text, func(t *testing.T) {
			_, err := env(t).Compile(tc.text, tc.kind)
			if diff := cmp.Diff(error(tc.want), err, where); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTemplates(t *testing.T) {
	for text, want := range map[string]any{
		"${{ matrix.bases }}":                                 int64(4),
		"${{ vars.share }}":                                   0.5,
		"${{ vars.names }}":                                   []any{"biz1", "biz2"},
		"${{ vars.deep }}":                                    map[string]any{"a": int64(1)},
		"${{ vars.on ? dyn(null) : vars.names }}":             nil,
		"biz1-${{ vars.version }}-ark-biz.jar":                "biz1-2.0-ark-biz.jar",
		"${{ matrix.bases }}${{ vars.on }} ${{ vars.share }}": "4true 0.5",
		"${{ {'a': {'b': '}}'}} }}":                           map[string]any{"a": map[string]any{"b": "}}"}},
		`${{ "${{" }}`:                                        "${{",
		"${{ duration('90s') }}":                              "1m30s",
		"plain":                                               "plain",
		"r${{ outputs.revision }}":                            "r7",
	} {
		tpl, err := env(t).Template(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := tpl.Eval(data())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
}

func TestTemplateProblems(t *testing.T) {
	for text, want := range map[string]expr.Problems{
		"a ${{ vars.count":       {{1, 1, expr.Unclosed, "", ""}},
		"${{ }}":                 {{1, 1, expr.Empty, "", ""}},
		"a: 1\nb: ${{ vars.x }}": {{2, 6, expr.UnknownField, "count, deep, names, on, share, version", ""}},
		"list ${{ vars.names }}": {{1, 1, expr.NotText, "list(string)", ""}},
		"${{ vars.x }} and ${{ matrix.y }}": {{1, 6, expr.UnknownField, "count, deep, names, on, share, version", ""},
			{1, 8, expr.UnknownField, "bases, mixed, tunnel", ""}},
	} {
		_, err := env(t).Template(text)
		if diff := cmp.Diff(error(want), err, where); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", text, diff)
		}
	}
}

func TestExpand(t *testing.T) {
	in := map[string]any{"spec": map[string]any{"replicas": "${{ matrix.bases }}",
		"args": []any{"v${{ vars.version }}", int64(2), nil}}}
	got, err := env(t).Expand(in, data())
	want := map[string]any{"spec": map[string]any{"replicas": int64(4), "args": []any{"v2.0", int64(2), nil}}}
	if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := env(t).Expand(map[string]any{"a": []any{"${{ vars.x }}"}}, data()); err == nil ||
		!strings.HasPrefix(err.Error(), "a: [0]: ") {
		t.Errorf("error %v", err)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"${{ matrix.bases }}", "a${{ {'a': {}} }}", "${{ \"}}\" }}", "${{",
		"pods.all(p, true)"} {
		f.Add(text)
	}
	e, err := expr.New(expr.Static{Vars: map[string]any{"a": "b"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		tpl, err := e.Template(text)
		if err == nil {
			_, _ = tpl.Eval(expr.Data{"vars": map[string]any{"a": "b"}})
		}
		if p, err := e.Compile(text, expr.Condition); err == nil {
			_, _ = p.Eval(expr.Data{})
		}
	})
}

// TestExcerpts checks that errors show their position in the expression, and use the terms of scenario files.
func TestExcerpts(t *testing.T) {
	for text, want := range map[string]struct {
		reason      expr.Reason
		is, excerpt string
	}{
		"pods.size() == 1 &&":                {expr.Syntax, "", "    pods.size() == 1 &&\n                       ^"},
		"(1 + 2":                             {expr.Syntax, ")", "    (1 + 2\n          ^"},
		"pods.size() = 1":                    {expr.Syntax, "==", "    pods.size() = 1\n                ^"},
		"pods.size() # 1":                    {expr.Syntax, "#", "    pods.size() # 1\n                ^"},
		"1 == 1)":                            {expr.Syntax, ")", "    1 == 1)\n          ^"},
		"'x":                                 {expr.Syntax, "", "    'x\n    ^"},
		"pods.b.(c)":                         {expr.Syntax, "", "    pods.b.(c)\n           ^"},
		"  pods.size() > '3'":                {expr.NoOverload, ">", "    pods.size() > '3'\n                ^"},
		"pods.size() == 1 &&\n\tpods.sise()": {expr.UnknownFunction, "size", "    pods.sise()\n             ^"},
		"'模块' == '模块' && pods.exists(p, q, r, )": {expr.Syntax, ")",
			"    '模块' == '模块' && pods.exists(p, q, r, )\n                                         ^"},
		"pods.size()": {expr.NotBoolean, "int", ""},
	} {
		_, err := env(t).Compile(text, expr.Condition)
		var problems expr.Problems
		if !errors.As(err, &problems) || len(problems) != 1 {
			t.Errorf("%s: %v", text, err)
			continue
		}
		p := problems[0]
		if diff := cmp.Diff(want.excerpt, strings.TrimSuffix(p.Excerpt(), "\n")); diff != "" ||
			p.Reason != want.reason || !strings.Contains(p.Detail, want.is) {
			t.Errorf("%s: %s %s (-want +got):\n%s", text, p.Reason, p.Detail, diff)
		}
	}
}
