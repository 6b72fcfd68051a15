package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	urfave "github.com/urfave/cli/v2"
)

func TestChineseInStep(t *testing.T) {
	for name, c := range map[string]struct {
		texts map[string]map[string]string
		says  string
	}{
		"in step": {texts: map[string]map[string]string{"flags": {"--bases": "基座数量"}}},
		"a key is missing": {
			texts: map[string]map[string]string{"flags": {}},
			says:  "docs/chinese.yaml is not in step with the code:\nmissing: flags: \"--bases\" (N bases)",
		},
		"a key is stale": {
			texts: map[string]map[string]string{"flags": {"--bases": "基座数量", "--hosts": "主机"}},
			says:  "docs/chinese.yaml is not in step with the code:\nstale: flags: \"--hosts\"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &words{texts: c.texts, used: map[string]bool{}}
			w.of("flags", "--bases", "N bases")
			says := ""
			if err := w.err(); err != nil {
				says = err.Error()
			}
			if diff := cmp.Diff(c.says, says); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFlagsOf(t *testing.T) {
	flags := []urfave.Flag{
		&urfave.IntFlag{Name: "bases", Usage: "`N` simulated bases", EnvVars: []string{"KOUPSANDBOX_BASES"}, Value: 3},
		&urfave.IntFlag{Name: "mqtt-port", Usage: "broker `PORT`", DefaultText: "1883, with TLS 8883"},
		&urfave.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print failures only"},
		&urfave.IntFlag{Name: "count", Aliases: []string{"n"}, Usage: "number of bases", EnvVars: []string{"FIRST", "SECOND"}, Value: 1},
		&urfave.BoolFlag{Name: "internal", Hidden: true},
		urfave.HelpFlag,
	}
	want := []flagOf{
		{name: "--bases", shown: "--bases N", usage: "N simulated bases", env: "KOUPSANDBOX_BASES", preset: "3"},
		{name: "--mqtt-port", shown: "--mqtt-port PORT", usage: "broker PORT", preset: "1883, with TLS 8883"},
		{name: "--quiet", shown: "--quiet, -q", usage: "print failures only", preset: "false"},
		{name: "--count", shown: "--count, -n", usage: "number of bases", env: "FIRST, SECOND", preset: "1"},
	}
	if diff := cmp.Diff(want, flagsOf(flags), cmp.AllowUnexported(flagOf{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A field is named as a file has it, not as Go does.
func TestNamed(t *testing.T) {
	for text, want := range map[string]string{
		"Count is how many\nthere are.":           "`count` is how many there are.",
		"TLS makes it speak TLS, see Broker.URL.": "TLS makes it speak TLS, see `broker.url`.",
		"": "see the field above",
	} {
		if got := named("count", text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	tables := []table{{
		title:   cell{"Rollouts", "发布"},
		columns: []cell{{"Flag", "选项"}, {"Meaning", "含义"}},
		rows:    [][]cell{{same("`a|b`"), {"one\n  line", "一行"}}},
	}}
	if diff := cmp.Diff("## Rollouts\n\n| Flag | Meaning |\n|---|---|\n| `a\\|b` | one line |\n\n", markdown(tables, "en")); diff != "" {
		t.Errorf("English (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("## 发布\n\n| 选项 | 含义 |\n|---|---|\n| `a\\|b` | 一行 |\n\n", markdown(tables, "zh")); diff != "" {
		t.Errorf("Chinese (-want +got):\n%s", diff)
	}
}
