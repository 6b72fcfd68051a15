package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReasonsAndConditionTypesAreDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is {
			for _, value := range spec.Values {
				name, err := strconv.Unquote(value.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
		}
		return true
	})
	if len(names) == 0 {
		t.Fatal("reasons.go has no constants")
	}
	for _, language := range []string{"en", "zh"} {
		path := "../../docs/" + language + "/reference/modules.md"
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("%s does not document `%s`", path, name)
			}
		}
	}
}

func TestNextAttempt(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	next, rest, found := CutNextAttempt(NextAttempt(6, at) + ": Arklet.InstallBizFailed: Zip: broken")
	if !found || !next.Equal(at) || rest != "Arklet.InstallBizFailed: Zip: broken" {
		t.Errorf("got %s, %q, %t", next, rest, found)
	}
	if _, rest, found := CutNextAttempt("Arklet.InstallBizFailed: 2026-01-02T12:00:00Z: broken"); found ||
		!strings.HasPrefix(rest, "Arklet") {
		t.Errorf("a message without a next attempt: %q, %t", rest, found)
	}
}

func TestParseLogCommand(t *testing.T) {
	at := time.Date(2026, 1, 2, 11, 59, 30, 0, time.UTC)
	const start = "2026-01-02 11:59:30.000 biz1:1.0.0 "
	for line, want := range map[string]LogCommand{
		start + "installBiz sent: https://host/biz1.jar": {At: at, Module: "biz1", Version: "1.0.0",
			Command: "installBiz", Event: LogSent},
		start + "installBiz not answered: late": {At: at, Module: "biz1", Version: "1.0.0", Command: "installBiz",
			Event: LogUnanswered},
		start + "is ACTIVATED": {}, "": {}, "Caused by: java.lang.IllegalArgumentException": {},
	} {
		got, ok := ParseLogCommand(line)
		if ok != (want != LogCommand{}) || ok && !cmp.Equal(want, got) {
			t.Errorf("%q: %+v, %t", line, got, ok)
		}
	}
}

func TestMassOutage(t *testing.T) {
	for _, c := range []struct {
		unreachable, all int
		want             bool
	}{{0, 3, false}, {1, 3, false}, {2, 3, true}, {2, 2, false}, {2, 4, false}, {3, 4, true}} {
		if got := MassOutage(c.unreachable, c.all, MassPercent, MassMinBases); got != c.want {
			t.Errorf("%d of %d: %t", c.unreachable, c.all, got)
		}
	}
}
