package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox/internal/lint"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

const annotateFlag = "github"

// newAnnotateFlag returns the flag that enables annotations. The environment variable GITHUB_ACTIONS, which GitHub
// Actions sets, also enables them.
func newAnnotateFlag() *cli.BoolFlag {
	return &cli.BoolFlag{Name: annotateFlag, Usage: "print GitHub Actions annotations on standard error",
		Category: outputCategory, EnvVars: []string{"GITHUB_ACTIONS"}}
}

// annotate prints annotations to standard error if they are enabled.
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
		for _, detail := range []string{f.Fix, f.Excerpt} {
			if detail != "" {
				message += "\n" + detail
			}
		}
		list = append(list, report.Annotation{Warning: f.Level == lint.Warning, File: f.File, Line: f.Line,
			Title: f.Rule, Message: message})
	}
	return list
}
