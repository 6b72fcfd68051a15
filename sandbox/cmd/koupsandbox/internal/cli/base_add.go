package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

// The flags of base add that need code of their own.
const (
	setFlag       = "set"
	labelFlag     = "label"
	webModuleFlag = "web-module"
	moduleFlag    = "module"
)

// baseSettings returns the flags of base add that set fields of v1alpha1.BaseSet, with the path of each field.
func baseSettings() []setting {
	text := func(name, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Usage: usage, Category: newSetCategory}
	}
	duration := func(name, usage string) cli.Flag {
		return &cli.DurationFlag{Name: name, Usage: "`DURATION`: " + usage, Category: newSetCategory}
	}
	enable := func(name, usage string) cli.Flag {
		return &cli.BoolFlag{Name: name, Usage: usage, Category: newSetCategory}
	}
	percent := func(name, usage string) cli.Flag {
		return &cli.IntFlag{Name: name, Usage: "`PERCENT`: " + usage, Category: newSetCategory}
	}
	return []setting{
		{"baseName", text("base-name", "`NAME`: application name of the bases")},
		{"version", text("base-version", "`VERSION`: version of the bases")},
		{"clusterName", text("base-cluster-name", "`NAME`: cluster name of the bases")},
		{"zone", text("zone", "`ZONE`: zone of the bases, a label of their Nodes")},
		{"generation", text("generation", "`GENERATION`: generation of the Koupleless runtime: A, B, C or D")},
		{"tunnel", text("tunnel", "`TUNNEL`: tunnel of the bases: mqtt or http")},
		{"runtime", text("base-runtime", "`RUNTIME`: where the bases run: process or cluster")},
		{"activation", text("activation",
			"`RULE`: active versions of a module: newModule (the newest), default (the first) or multi (all)")},
		{"unreachable", enable("unreachable", "give the bases addresses at which no client can reach their modules")},
		{"web", enable("web", "make all modules web applications, each with its name as context path")},
		{"installTime", duration("install-time", "how long a module takes to start")},
		{"uninstallTime", duration("uninstall-time", "how long a module takes to stop")},
		{"pullTime", duration("pull-time", "how long a base takes to download a module")},
		{"requestTime", duration("request-time", "how long a module takes to process a request")},
		{"startupTime", duration("startup-time", "how long a base takes to start")},
		{"metaspace.max", text("metaspace", "`SIZE`: maximum size of the metaspace, for example 256Mi")},
		{"metaspace.used", text("metaspace-used", "`SIZE`: metaspace that a base uses without modules")},
		{"metaspace.perModule", text("metaspace-per-module", "`SIZE`: metaspace that each module uses")},
		{"metaspace.leak", percent("metaspace-leak",
			"share of a module's metaspace that an uninstallation does not free")},
		{"metaspace.threshold", &cli.IntFlag{Name: "metaspace-threshold", Category: newSetCategory,
			Usage:       "`PERCENT`: metaspace usage above which a base refuses to install modules",
			DefaultText: "none"}},
		{"health.withAllBizReadiness",
			enable("with-all-biz-readiness", "include installed modules in the readiness of the bases")},
		{"health.silenceBeforeUninstall",
			duration("silence-before-uninstall", "how long a base waits before it uninstalls a module")},
	}
}

func (s *commands) baseAdd() *cli.Command {
	flags := []cli.Flag{sandboxNameFlag(),
		&cli.StringFlag{Name: setFlag,
			Usage:       "`NAME`: base set of the new bases; a new name creates a set, which the other flags configure",
			DefaultText: "the first set of the sandbox", Category: basesCategory},
		&cli.StringSliceFlag{Name: labelFlag, Usage: "`NAME=VALUE`: label to set on the Nodes of the new bases; repeatable",
			Category: newSetCategory},
		&cli.StringSliceFlag{Name: webModuleFlag, Category: newSetCategory,
			Usage: "`MODULE=PATH`: context path of a web module; MODULE is NAME or NAME:VERSION; repeatable"},
		&cli.StringSliceFlag{Name: moduleFlag, Category: newSetCategory,
			Usage: "`URL`: module jar that is installed when each new base starts; repeatable"},
	}
	for _, s := range baseSettings() {
		flags = append(flags, s.flag)
	}
	return &cli.Command{
		Name: "add", Usage: "add N bases (default: 1)", ArgsUsage: "[N]",
		Description: describe("", "koupsandbox base add 10",
			"koupsandbox base add 2 --set old --base-version 1.9.0 --tunnel http --zone zone-b"),
		Flags:  flags,
		Action: withArgs(0, 1, "at most one argument: the number of bases", s.addBases),
	}
}

func (s *commands) addBases(c *cli.Context, list []string) error {
	n := 1
	if len(list) == 1 {
		var err error
		n, err = strconv.Atoi(list[0])
		if err != nil {
			return usageError{fmt.Errorf("invalid number of bases %q; use a positive integer", list[0])}
		}
	}
	r := control.AddRequest{Count: n, Set: c.String(setFlag)}
	spec, err := newSet(c)
	if err != nil {
		return usageError{err}
	}
	if spec != nil {
		if r.Set == "" {
			return usageError{errors.New("settings of bases require a new set; set its name with --set")}
		}
		r.Spec = spec
	}
	return inSandbox(c, func(up *sandbox.Sandbox) error {
		added, err := up.AddBases(c.Context, r)
		s.printEach("added", added)
		return err
	})
}

// newSet returns the settings of a new set of bases from the flags of base add; nil if there are none. The error lists
// all invalid settings.
func newSet(c *cli.Context) (*v1alpha1.BaseSet, error) {
	origins, given := &v1alpha1.Origins{}, false
	config := &v1alpha1.Sandbox{Spec: v1alpha1.Spec{Bases: []v1alpha1.BaseSet{{Name: c.String(setFlag)}}}}
	set := &config.Spec.Bases[0]
	for _, s := range baseSettings() {
		if name := s.flag.Names()[0]; c.IsSet(name) {
			path := "spec.bases[0]." + s.field
			setField(config, path, c.Value(name))
			origins.SetFlag(path, "--"+name)
			given = true
		}
	}
	for _, label := range c.StringSlice(labelFlag) {
		name, value, found := strings.Cut(label, "=")
		if !found {
			return nil, fmt.Errorf("invalid --%s %q; use NAME=VALUE", labelFlag, label)
		}
		if set.Labels == nil {
			set.Labels = map[string]string{}
		}
		set.Labels[name] = value
		origins.SetFlag("spec.bases[0].labels["+name+"]", "--"+labelFlag)
	}
	for _, text := range c.StringSlice(webModuleFlag) {
		module, path, found := strings.Cut(text, "=")
		name, version, _ := strings.Cut(module, ":")
		if !found || name == "" {
			return nil, fmt.Errorf("invalid --%s %q; use NAME=PATH or NAME:VERSION=PATH", webModuleFlag, text)
		}
		set.WebModules = append(set.WebModules, v1alpha1.WebModule{Name: name, Version: version, ContextPath: path})
	}
	set.Modules = c.StringSlice(moduleFlag)
	for i := range set.Modules {
		origins.SetFlag(fmt.Sprintf("spec.bases[0].modules[%d]", i), "--"+moduleFlag)
	}
	if !given && len(set.Labels)+len(set.WebModules)+len(set.Modules) == 0 {
		return nil, nil
	}
	origins.SetFlag("spec.bases[0].name", "--"+setFlag)
	asked := *set
	if err := v1alpha1.Complete(config, origins, nil); err != nil {
		return nil, err
	}
	return &asked, nil
}
