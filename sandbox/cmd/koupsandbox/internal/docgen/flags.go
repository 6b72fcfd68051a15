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

// koupsandboxFlags returns a table of all commands, and tables of their flags: the flags of all commands, of several
// commands, and of single commands.
func koupsandboxFlags(w *translations) ([]table, error) {
	app := cli.App()
	var commands table
	fields := cli.FlagFields()
	subcommands := map[string][]string{} // names of the subcommands by the name of their parent
	var list []flagRow
	var visit func(parent string, all []*urfave.Command)
	visit = func(parent string, all []*urfave.Command) {
		for _, c := range all {
			if c.Hidden {
				continue
			}
			name := strings.TrimSpace(parent + " " + c.Name)
			if parent != "" {
				subcommands[parent] = append(subcommands[parent], name)
			}
			list = addFlags(list, name, c.Flags)
			if len(c.Subcommands) == 0 {
				commands.rows = append(commands.rows,
					[]cell{same("`" + strings.TrimSpace(name+" "+strings.ReplaceAll(c.ArgsUsage, "|", ", ")) + "`"),
						w.text("commands", name, c.Usage)})
			}
			visit(name, c.Subcommands)
		}
	}
	visit("", app.Commands)
	list = addFlags(list, "", app.Flags)
	tables := []table{commands}
	for _, g := range groupFlags(list) {
		t := table{title: g.title}
		for _, f := range g.flags {
			shown := same("`" + f.shown + "`")
			if f.env != "" {
				shown = same(shown.en + " `$" + strings.ReplaceAll(f.env, ", ", "` `$") + "`")
			}
			key := f.name
			if slices.ContainsFunc(list, func(o flagRow) bool { return o.name == f.name && o.usage != f.usage }) {
				key += " of " + f.commands[0]
			}
			if fields[f.commands[0]+" "+f.name] != "" {
				continue // the flags of base add have the names of the fields
			}
			field := ""
			if g.settings {
				field = fields[f.name]
			}
			meaning := same("`" + field + "`")
			if field == "" {
				meaning = withDefault(w.text("flags", key, f.usage), w.defaultCell(f.defaultText))
			}
			if g.mixed {
				names := strings.Join(collapse(f.commands, subcommands), "`, `")
				shown = cell{shown.en + " (`" + names + "`)", shown.zh + "（`" + strings.ReplaceAll(names, ", ", "、") + "`）"}
			}
			t.rows = append(t.rows, []cell{shown, meaning})
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// withDefault appends the default value to a description.
func withDefault(text, value cell) cell {
	if value.en == "" {
		return text
	}
	return cell{text.en + " (default: " + value.en + ")", text.zh + "（默认：" + value.zh + "）"}
}

// addFlags adds the flags of a command to a list. Identical flags of several commands share a row.
func addFlags(list []flagRow, command string, flags []urfave.Flag) []flagRow {
	for _, f := range flagsOf(flags) {
		i := slices.IndexFunc(list, func(o flagRow) bool {
			return o.shown == f.shown && o.usage == f.usage && o.defaultText == f.defaultText
		})
		if i < 0 {
			list, i = append(list, f), len(list)
		}
		list[i].commands = append(list[i].commands, command)
	}
	return list
}

// flagGroup is a set of flags that share a table.
type flagGroup struct {
	title    cell
	mixed    bool // the flags have different commands, which the list names
	settings bool // the list refers to the settings that the flags override
	flags    []flagRow
}

// tableSize is the minimum number of flags for which a set of several commands has its own list.
const tableSize = 5

// groupFlags groups flags by their commands, and sorts each group by name: first the flags of several commands, then
// the flags of single commands in the order of the commands.
func groupFlags(list []flagRow) []flagGroup {
	slices.SortStableFunc(list, func(a, b flagRow) int { return strings.Compare(a.name, b.name) })
	var keys []string
	sets := map[string][]flagRow{}
	for _, f := range list {
		key := strings.Join(f.commands, ", ")
		if sets[key] == nil {
			keys = append(keys, key)
		}
		sets[key] = append(sets[key], f)
	}
	slices.Sort(keys)
	all := flagGroup{title: cell{"Flags of all commands", "所有命令的选项"}, flags: sets[""]}
	mixed := flagGroup{title: cell{"Flags of several commands", "多个命令的选项"}, mixed: true}
	var shared, single []flagGroup
	for _, key := range keys {
		switch flags := sets[key]; {
		case key == "":
		case len(flags[0].commands) == 1:
			single = append(single, flagGroup{title: same(key), flags: flags})
		case len(flags) >= tableSize:
			shared = append(shared, flagGroup{
				title:    cell{"Flags of " + key, strings.ReplaceAll(key, ", ", "、") + " 的选项"},
				settings: slices.Contains(flags[0].commands, "up"), flags: flags,
			})
		default:
			mixed.flags = append(mixed.flags, flags...)
		}
	}
	slices.SortStableFunc(mixed.flags, func(a, b flagRow) int { return strings.Compare(a.name, b.name) })
	return slices.Concat([]flagGroup{all, mixed}, shared, single)
}

// collapse replaces all subcommands of a command by the command.
func collapse(commands []string, subcommands map[string][]string) (short []string) {
	for _, name := range commands {
		parent, _, nested := strings.Cut(name, " ")
		missing := func(s string) bool { return !slices.Contains(commands, s) }
		if nested && !slices.ContainsFunc(subcommands[parent], missing) {
			name = parent
		}
		if !slices.Contains(short, name) {
			short = append(short, name)
		}
	}
	return short
}

func variables(env string) cell {
	if env == "" {
		return cell{}
	}
	return same("`" + strings.ReplaceAll(env, ", ", "`, `") + "`")
}

// controllerFlags returns the variables of the module controller. The flag of a variable is shown if its name differs.
func controllerFlags(w *translations) ([]table, error) {
	var t table
	for _, f := range flagsOf(controller.New("").Flags) {
		name, _, _ := strings.Cut(f.env, ", ")
		shown := variables(f.env)
		if f.name != "--"+strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
			shown = same(shown.en + " `" + f.name + "`")
		}
		t.rows = append(t.rows,
			[]cell{shown, withDefault(w.text("controller", f.name, f.usage), w.defaultCell(f.defaultText))})
	}
	return []table{t}, nil
}

// fakebaseFlags returns the flags of fakebase. The page states how to form the names of the environment variables.
func fakebaseFlags(w *translations) ([]table, error) {
	t := table{}
	for _, f := range flagsOf(fakebase.New("", io.Discard, io.Discard).Flags) {
		variable := "FAKEBASE_" + strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(f.name, "--"), "-", "_"))
		if f.env != "" && f.env != variable {
			return nil, fmt.Errorf("the environment variable of %s is %s, not %s", f.name, f.env, variable)
		}
		t.rows = append(t.rows, []cell{same("`" + f.shown + "`"),
			withDefault(w.text("fakebase", f.name, f.usage), w.defaultCell(f.defaultText))})
	}
	return []table{t}, nil
}
