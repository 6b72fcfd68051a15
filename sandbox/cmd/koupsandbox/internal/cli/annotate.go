package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox/internal/lint"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

const annotateFlag = "github"

// annotate is on by itself where GITHUB_ACTIONS says that GitHub reads what a step prints.
func newAnnotateFlag() *cli.BoolFlag {
	return &cli.BoolFlag{Name: annotateFlag, Usage: "annotate files in GitHub Actions, by lines on the standard error",
		EnvVars: []string{"GITHUB_ACTIONS"}}
}

// annotate tells GitHub of what is wrong in files. The standard output stays what it is.
func (s *commands) annotate(c *cli.Context, list []report.Annotation) error {
	if !c.Bool(annotateFlag) {
		return nil
	}
	return report.WriteAnnotations(s.Err, list)
}

func annotationsOf(findings []lint.Finding) []report.Annotation {
	var list []report.Annotation
	for _, f := range findings {
		if f.Level == lint.Info {
			continue
		}
		message := f.Message
		for _, more := range []string{f.Fix, f.Excerpt} {
			if more != "" {
				message += "\n" + more
			}
		}
		list = append(list, report.Annotation{Warning: f.Level == lint.Warning, File: f.File, Line: f.Line,
			Title: f.Rule, Message: message})
	}
	return list
}
