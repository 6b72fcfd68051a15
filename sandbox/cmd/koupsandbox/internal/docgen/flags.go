package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/cli"
)

// flagOf is a flag as a program's help shows it.
type flagOf struct {
	name               string // --bases
	shown              string // --bases N
	usage, env, preset string
	commands           []string
}

var (
	helpLine   = regexp.MustCompile(`^ {3}(--.*?) {2,}(.*)$`)
	helpEnv    = regexp.MustCompile(` \[(\$[^\]]*)\]$`)
	helpPreset = regexp.MustCompile(` \(default: (.*?)\)`)
	helpTwice  = regexp.MustCompile(` \[ .* \]$`)
)

// flagsOf reads the flags of a help text. What is the same everywhere is left out.
func flagsOf(help string) []flagOf {
	var list []flagOf
	for line := range strings.Lines(help) {
		m := helpLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil || strings.HasPrefix(m[1], "--help") || strings.HasPrefix(m[1], "--version") {
			continue
		}
		f := flagOf{shown: strings.ReplaceAll(helpTwice.ReplaceAllString(m[1], ""), " value", ""), usage: m[2]}
		f.name, _, _ = strings.Cut(strings.TrimSuffix(strings.Fields(f.shown)[0], ","), " ")
		if e := helpEnv.FindStringSubmatch(f.usage); e != nil {
			f.env = strings.ReplaceAll(e[1], "$", "")
			f.usage = strings.TrimSuffix(f.usage, e[0])
		}
		if p := helpPreset.FindStringSubmatch(f.usage); p != nil {
			f.preset = p[1]
			f.usage = helpPreset.ReplaceAllString(f.usage, "")
		}
		list = append(list, f)
	}
	return list
}

// koupsandboxFlags merges the flags of all commands that mean the same.
func koupsandboxFlags(w *words) ([]table, error) {
	var list []flagOf
	var visit func(command []string) error
	visit = func(command []string) error {
		var out, problems bytes.Buffer
		args := slices.Concat([]string{"koupsandbox"}, command, []string{"--help"})
		if cli.Run(context.Background(), cli.Streams{Out: &out, Err: &problems, UserHome: "~"}, args) != 0 {
			return fmt.Errorf("%s: %s", strings.Join(args, " "), problems.String())
		}
		who := strings.Join(command, " ")
		for _, f := range flagsOf(out.String()) {
			i := slices.IndexFunc(list, func(o flagOf) bool {
				return o.shown == f.shown && o.usage == f.usage && o.preset == f.preset
			})
			if i < 0 {
				list, i = append(list, f), len(list)
			}
			list[i].commands = append(list[i].commands, who)
		}
		for _, sub := range subcommands(out.String()) {
			if err := visit(append(slices.Clone(command), sub)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(nil); err != nil {
		return nil, err
	}
	t := table{columns: []cell{{"Flag", "选项"}, {"Environment", "环境变量"}, {"Default", "默认值"}, {"Of", "适用"}, {"Meaning", "含义"}}}
	for _, f := range list {
		key := f.name
		if slices.ContainsFunc(list, func(o flagOf) bool { return o.name == f.name && o.usage != f.usage }) {
			key = strings.TrimSpace(f.name + " of " + f.commands[0])
		}
		of := same("`" + strings.Join(f.commands, "`, `") + "`")
		if f.commands[0] == "" {
			of = cell{"all", "全部"}
		}
		t.rows = append(t.rows, []cell{same("`" + f.shown + "`"), variables(f.env), w.byDefault(f.preset), of, w.of("flags", key, f.usage)})
	}
	return []table{t}, nil
}

// subcommands are the names behind COMMANDS.
func subcommands(help string) []string {
	_, rest, found := strings.Cut(help, "COMMANDS:\n")
	if !found {
		return nil
	}
	var list []string
	for line := range strings.Lines(rest) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !strings.HasPrefix(line, "   ") {
			break
		}
		if fields[0] != "help," {
			list = append(list, strings.TrimSuffix(fields[0], ","))
		}
	}
	return list
}

func variables(env string) cell {
	if env == "" {
		return cell{}
	}
	return same("`" + strings.ReplaceAll(env, ", ", "`, `") + "`")
}

func controllerFlags(w *words) ([]table, error) {
	return programFlags(w, "controller", "./controller/cmd/module-controller")
}

func fakebaseFlags(w *words) ([]table, error) {
	return programFlags(w, "fakebase", "./fakebase/cmd/fakebase")
}

// programFlags asks a program that cannot be imported; it is built as make build does.
func programFlags(w *words, section, program string) ([]table, error) {
	cmd := exec.Command("go", "run", "-trimpath", program, "--help")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	help, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s --help: %w\n%s", program, err, problems.String())
	}
	t := table{columns: []cell{{"Flag", "选项"}, {"Environment", "环境变量"}, {"Default", "默认值"}, {"Meaning", "含义"}}}
	for _, f := range flagsOf(string(help)) {
		t.rows = append(t.rows, []cell{same("`" + f.shown + "`"), variables(f.env), w.byDefault(f.preset), w.of(section, f.name, f.usage)})
	}
	return []table{t}, nil
}
