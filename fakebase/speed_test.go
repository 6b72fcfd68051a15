package fakebase

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/mqtt"
)

func TestSpeedDividesHeartbeatsAndFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		http    bool
		want    time.Duration
	}{
		{"as they are", Options{}, false, 10 * time.Second},
		{"over MQTT", Options{Speed: 10}, false, time.Second},
		{"over HTTP", Options{Speed: 10}, true, 1200 * time.Millisecond},
		{"of generation A", Options{Speed: 20, Generation: GenerationA}, false, 6 * time.Second},
		{"as set", Options{Speed: 4, HeartbeatInterval: time.Second}, true, 250 * time.Millisecond},
	} {
		if got := c.options.heartbeatInterval(c.http); got != c.want {
			t.Errorf("heartbeats %s come every %s, want %s", c.name, got, c.want)
		}
	}
	b, err := New(Options{Identity: "b", Speed: 10, Faults: []fault.Fault{{ID: "late", Kind: fault.KindDelay, Delay: fault.Delay{Min: fault.Duration(time.Minute)}}}})
	if err != nil {
		t.Fatal(err)
	}
	if f, hit := b.faults.fire(fault.KindDelay, subject{message: "heart"}); !hit || f.wait != 6*time.Second {
		t.Errorf("a delay of a minute is %s at speed 10", f.wait)
	}
	if _, err := New(Options{Identity: "b", Speed: 21}); err == nil || !strings.Contains(err.Error(), "option Speed 21") {
		t.Errorf("a speed of 21: %v", err)
	}
	if mqtt.LastPause/fastest < time.Second || mqtt.KeepAlive/fastest < time.Second {
		t.Error("a keep-alive holds whole seconds")
	}
}

// undivided are the functions and constants that write a time which is the same at every speed.
var undivided = []string{
	"shortestRestart",                           // what a broker needs, see there
	"heartbeatConnect", "heartbeatRead", "open", // of a network
	"asReported", // is divided where it is used
}

// Whoever writes a time into a base hands it to Options.of, or says above why not.
func TestEveryTimeIsDivided(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set, found := token.NewFileSet(), 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		in := "" // the declaration
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				in = n.Name.Name
			case *ast.ValueSpec:
				in = n.Names[0].Name
			case *ast.CallExpr:
				if s, is := n.Fun.(*ast.SelectorExpr); is && s.Sel.Name == "of" {
					found++
					return false
				}
			case *ast.SelectorExpr:
				if pkg, is := n.X.(*ast.Ident); is && pkg.Name == "time" && slices.Contains([]string{"Millisecond", "Second", "Minute"}, n.Sel.Name) && !slices.Contains(undivided, in) {
					t.Errorf("%s: %s writes a time that Options.of does not divide", set.Position(n.Pos()), in)
				}
			}
			return true
		})
	}
	if found < 10 {
		t.Errorf("only %d times are divided: this test sees nothing", found)
	}
}
