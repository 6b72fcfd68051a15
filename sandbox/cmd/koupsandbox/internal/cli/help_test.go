package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/cli"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

var (
	example     = regexp.MustCompile(`\bkoupsandbox( '[^']*'| [^\s|>)]+)+`)
	exampleWord = regexp.MustCompile(`'[^']*'|\S+`)
)

// TestHelpIsComplete checks that each command has a summary, flags in categories, and at least two examples that are
// valid command lines.
func TestHelpIsComplete(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	for name, text := range map[string]string{"before.txt": "BenchmarkStartup 1 1 p50-ms\n",
		"ca.crt": "", "deploy/pod.yaml": badManifest, "deploy/app.yaml": ownWorkload, "scenarios/a.txt": ""} {
		check.Must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		check.Must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	run(t, home, "scenario", "new", "my-first")
	app := cli.App()
	commands := []*urfave.Command{{Name: app.Name, Usage: app.Usage, Description: app.Description,
		Subcommands: app.Commands}}
	for len(commands) > 0 {
		c := commands[0]
		commands = append(commands[1:], c.Subcommands...)
		if c.Hidden {
			continue
		}
		if c.Usage == "" {
			t.Errorf("%s has no summary", c.Name)
		}
		for _, f := range c.Flags {
			if f.(urfave.CategorizableFlag).GetCategory() == "" {
				t.Errorf("--%s of %s has no category", f.Names()[0], c.Name)
			}
		}
		_, text, _ := strings.Cut(c.Description, "Examples:\n")
		lines := example.FindAllString(strings.ReplaceAll(text, "\\\n    ", ""), -1)
		if len(lines) < 2 {
			t.Errorf("%s has %d examples, want at least 2", c.Name, len(lines))
		}
		for _, line := range lines {
			var words []string
			for _, word := range exampleWord.FindAllString(line, -1) {
				words = append(words, strings.Trim(word, "'"))
			}
			if words[len(words)-1] == "-" {
				continue // the test has no standard input
			}
			if strings.Contains(line, " new ") {
				check.Must(t, os.RemoveAll("my-first.yaml"))
			}
			if r := run(t, t.TempDir(), words[1:]...); r.Code == 2 {
				t.Errorf("example %q of %s is not valid: %s", line, c.Name, r.Err)
			}
		}
	}
}
