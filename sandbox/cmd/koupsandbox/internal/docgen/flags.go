package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	controller "github.com/koupleless/koupsandbox/controller/cmd/module-controller/app"
	fakebase "github.com/koupleless/koupsandbox/fakebase/cmd/fakebase/app"
	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/cli"
)

// flagRow is a row of the flag table.
type flagRow struct {
	name                    string // for example --bases
	shown                   string // for example --bases N
	usage, env, defaultText string
	commands                []string
}

// flagsOf returns the rows of the visible flags, except --help and --version.
func flagsOf(flags []urfave.Flag) []flagRow {
	var list []flagRow
	for _, f := range flags {
		d, documented := f.(urfave.DocGenerationFlag)
		v, canHide := f.(urfave.VisibleFlag)
		if name := f.Names()[0]; !documented || canHide && !v.IsVisible() || name == "help" || name == "version" {
			continue
		}
		before, rest, _ := strings.Cut(d.GetUsage(), "`")
		placeholder, after, _ := strings.Cut(rest, "`")
		usage, ok := strings.CutPrefix(after, ": ") // the usage starts with "`NAME`: "
		if !ok || before != "" {
			usage = before + placeholder + after
		}
		var names []string
		for _, name := range d.Names() {
			dashes := "--"
			if len(name) == 1 {
				dashes = "-"
			}
			names = append(names, strings.TrimSpace(dashes+name+" "+placeholder))
		}
		list = append(list, flagRow{
			name: "--" + d.Names()[0], shown: strings.Join(names, ", "), usage: usage,
			env: strings.Join(d.GetEnvVars(), ", "), defaultText: d.GetDefaultText(),
		})
	}
	return list
}

// koupsandboxFlags returns the flags of all commands. Identical flags of several commands share a row.
func koupsandboxFlags(w *translations) ([]table, error) {
	app := cli.App()
	var list []flagRow
	add := func(command string, flags []urfave.Flag) {
		for _, f := range flagsOf(flags) {
			i := slices.IndexFunc(list, func(o flagRow) bool {
				return o.shown == f.shown && o.usage == f.usage && o.defaultText == f.defaultText
			})
			if i < 0 {
				list, i = append(list, f), len(list)
			}
			list[i].commands = append(list[i].commands, command)
		}
	}
	add("", app.Flags)
	var visit func(parent string, commands []*urfave.Command)
	visit = func(parent string, commands []*urfave.Command) {
		for _, c := range commands {
			if !c.Hidden {
				name := strings.TrimSpace(parent + " " + c.Name)
				add(name, c.Flags)
				visit(name, c.Subcommands)
			}
		}
	}
	visit("", app.Commands)
	t := table{columns: []cell{{"Flag", "选项"}, {"Environment", "环境变量"}, {"Default", "默认值"}, {"Commands", "适用"},
		{"Meaning", "含义"}}}
	for _, f := range list {
		key := f.name
		if slices.ContainsFunc(list, func(o flagRow) bool { return o.name == f.name && o.usage != f.usage }) {
			key = strings.TrimSpace(f.name + " of " + f.commands[0])
		}
		of := same("`" + strings.Join(f.commands, "`, `") + "`")
		if f.commands[0] == "" {
			of = cell{"all", "全部"}
		}
		t.rows = append(t.rows,
			[]cell{same("`" + f.shown + "`"), variables(f.env), w.defaultCell(f.defaultText), of,
				w.text("flags", key, f.usage)})
	}
	return []table{t}, nil
}

func variables(env string) cell {
	if env == "" {
		return cell{}
	}
	return same("`" + strings.ReplaceAll(env, ", ", "`, `") + "`")
}

func controllerFlags(w *translations) ([]table, error) {
	return programFlags(w, "controller", controller.New("")), nil
}

// fakebaseFlags returns the flags of fakebase. The page states how to form the names of the environment variables.
func fakebaseFlags(w *translations) ([]table, error) {
	t := table{}
	for _, f := range flagsOf(fakebase.New("", io.Discard, io.Discard).Flags) {
		variable := "FAKEBASE_" + strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(f.name, "--"), "-", "_"))
		if f.env != "" && f.env != variable {
			return nil, fmt.Errorf("the environment variable of %s is %s, not %s", f.name, f.env, variable)
		}
		text := w.text("fakebase", f.name, f.usage)
		if d := w.defaultCell(f.defaultText); d.en != "" {
			text = cell{text.en + " (default: " + d.en + ")", text.zh + "（默认：" + d.zh + "）"}
		}
		t.rows = append(t.rows, []cell{same("`" + f.shown + "`"), text})
	}
	return []table{t}, nil
}

func programFlags(w *translations, section string, app *urfave.App) []table {
	t := table{columns: []cell{{"Flag", "选项"}, {"Environment", "环境变量"}, {"Default", "默认值"}, {"Meaning", "含义"}}}
	for _, f := range flagsOf(app.Flags) {
		t.rows = append(t.rows,
			[]cell{same("`" + f.shown + "`"), variables(f.env), w.defaultCell(f.defaultText),
				w.text(section, f.name, f.usage)})
	}
	return []table{t}
}
