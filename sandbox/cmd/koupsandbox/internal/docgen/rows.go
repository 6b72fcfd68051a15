package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/sandbox/internal/lint"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

// noAdvice is the suggestion of codes for which the Koupleless documentation has no advice. The tables omit it.
const noAdvice, noAdviceZH = "investigate", "请排查"

// unreported are the codes that no component of koupsandbox reports. The tables omit them.
var unreported = []errcode.Code{
	errcode.ModuleControllerBaseInstanceHasBeenReplaced, // the workload creates Pods on the new base
	errcode.ModuleControllerProcessNodeMissed,           // Pods wait; koupsandbox why reports that no controller runs
	errcode.ModuleControllerServiceMissed,               // there are no other kinds of templates than Pods
	errcode.OtherUpstreamEmptyIPList,                    // no command has a list of addresses
}

// inPodStatus are the codes in the first table of the page, which is not generated.
var inPodStatus = []errcode.Code{
	errcode.OtherUpstreamInvalidParameter,
	errcode.ArkletInstallModuleFailed,
	errcode.ArkletInstallModuleTimedOut,
	errcode.UserInstallModuleFailed,
	errcode.UserDiskFull,
	errcode.ArkletUninstallBizFailed,
	errcode.ArkletUninstallBizTimedOut,
	errcode.ModuleControllerBaseInstanceNotReady,
	errcode.ModuleControllerRetryTimesExceeded,
}

// errorCodes returns the tables of error codes. The table of arklet is complete, because its codes are also the codes
// of faults. The other tables omit the codes in earlier tables. The Chinese texts come from the code, not from
// translations.
func errorCodes(*translations) ([]table, error) {
	var tables []table
	var of errcode.Component
	listed := map[errcode.Code]bool{}
	for _, code := range inPodStatus {
		listed[code] = true
	}
	for _, info := range errcode.All() {
		if listed[info.Code] && info.Component != errcode.Arklet || slices.Contains(unreported, info.Code) {
			continue
		}
		listed[info.Code] = true
		if info.Component != of {
			of = info.Component
			tables = append(tables,
				table{title: same(string(of)),
					columns: []cell{{"Code", "错误码"}, {"Meaning", "含义"}, {"What to do", "处理"}}})
		}
		advice := cell{info.Suggestion, strings.TrimPrefix(info.SuggestionZH, "-")}
		if advice == (cell{noAdvice, noAdviceZH}) {
			advice = cell{}
		}
		t := &tables[len(tables)-1]
		t.rows = append(t.rows,
			[]cell{same("`" + string(info.Code) + "`"), {info.Meaning, info.MeaningZH}, advice})
	}
	return tables, nil
}

// whyReasons returns the list of the reasons that koupsandbox why reports.
func whyReasons(*translations) ([]table, error) {
	var t table
	for _, r := range why.ReasonTexts() {
		t.rows = append(t.rows, []cell{same("`" + string(r.Reason) + "`"), {r.Meaning.EN, r.Meaning.ZH}})
	}
	return []table{t}, nil
}

// lintRules returns the list of the rules of koupsandbox scenario lint.
func lintRules(w *translations) ([]table, error) {
	var t table
	for _, r := range lint.Rules() {
		id := "`" + r.ID + "`"
		t.rows = append(t.rows, []cell{{fmt.Sprintf("%s (%s)", id, r.Level), fmt.Sprintf("%s（%s）", id, r.Level)},
			w.text("lintRules", r.ID, r.Title)})
	}
	return []table{t}, nil
}

// groups are the scenario groups of the catalogue in the order of the page.
var groups = []string{"rollout", "peer", "base", "disturbance", "failure", "long"}

// catalogue returns a list of the scenarios in the repository for each group.
func catalogue(w *translations) ([]table, error) {
	var files []string
	for _, dir := range []string{"scenarios", "scenarios/regressions", "scenarios/long"} {
		found, err := filepath.Glob(filepath.Join(root, dir, "*.yaml"))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	rows := map[string][][]cell{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var s struct {
			Metadata struct {
				Name   string            `json:"name"`
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
			Spec struct {
				Description string `json:"description"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		name, group := s.Metadata.Name, s.Metadata.Labels["group"]
		path, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		link := same(fmt.Sprintf("[`%s`](../../../%s)", name, filepath.ToSlash(path)))
		rows[group] = append(rows[group],
			[]cell{link, w.text("catalogue", name, strings.TrimSuffix(s.Spec.Description, "."))})
	}
	var tables []table
	for _, group := range groups {
		title := map[string]string{"rollout": "Rollouts", "peer": "Peer deployment", "base": "Bases",
			"disturbance": "Faults", "failure": "Failures", "long": "Long outages"}[group]
		c := w.text("groups", group, title)
		tables = append(tables,
			table{title: cell{c.en + " (`group=" + group + "`)", c.zh + "（`group=" + group + "`）"}, rows: rows[group]})
		delete(rows, group)
	}
	for group := range rows {
		return nil, fmt.Errorf("scenarios have the unknown group %q", group)
	}
	return tables, nil
}
