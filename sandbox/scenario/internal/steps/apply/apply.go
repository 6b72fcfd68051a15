// Package apply executes the step apply.
package apply

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/match"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec applies objects and waits until the run has observed the written objects.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Apply) (string, error) {
	objects, err := manifest(e, a)
	if err != nil {
		return "", err
	}
	if len(objects) == 0 {
		return "", steps.Fail("file %q has no objects", a.File)
	}
	var done, refusals []string
	for _, o := range objects {
		o = kube.Bind(o, e.Group)
		before, err := e.ExistingWorkload(ctx, o)
		if err != nil {
			return "", err
		}
		began := time.Now()
		k, written, err := e.Kube.Apply(ctx, o, e.Namespace)
		if refusal, err := steps.CheckRefusal(err, a.Refused); err != nil {
			return "", err
		} else if refusal != "" {
			refusals = append(refusals, refusal)
			continue
		}
		e.RecordRelease(began, before, written, a.ReleaseCheck)
		if err := e.Recorder.WaitForVersion(ctx, e.Subject(k, written.GetNamespace()), written); err != nil {
			return "", err
		}
		done = append(done, written.GetKind()+" "+written.GetName())
	}
	if len(refusals) > 0 {
		return strings.Join(refusals, "; "), nil
	}
	return "applied " + strings.Join(done, ", "), nil
}

func manifest(e *steps.Env, a *v1alpha1.Apply) (objects []*unstructured.Unstructured, err error) {
	add := func(object any) {
		content, _ := match.Normalize(object).(map[string]any)
		v1alpha1.EachObject(content, nil, func(o map[string]any, _ *field.Path) {
			objects = append(objects, &unstructured.Unstructured{Object: o})
		})
	}
	if a.File == "" {
		add(a.Resource)
		return objects, nil
	}
	text, err := os.ReadFile(filepath.Join(e.Dir, a.File))
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	env, known, err := fileEnv(e, a.Vars)
	if err != nil {
		return nil, fmt.Errorf("declaring the variables of %s: %w", a.File, err)
	}
	sources, problems := strictyaml.ParseAll(a.File, text)
	for _, source := range sources {
		content := map[string]any{}
		_, more := source.Decode(&content, strictyaml.Options{})
		problems = append(problems, more...)
		if len(problems) > 0 {
			break
		}
		expanded, err := env.Expand(content, known)
		if err != nil {
			return nil, fmt.Errorf("expanding %s: %w", a.File, err)
		}
		add(expanded)
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	if err := kube.MoveIntoRun(objects); err != nil {
		return nil, fmt.Errorf("file %q: %w", a.File, err)
	}
	return objects, nil
}

// fileEnv returns the Env and the values for the expressions in a file. They include the variables that the step
// defines.
func fileEnv(e *steps.Env, vars map[string]v1alpha1.Any) (*expr.Env, expr.Data, error) {
	static, known := e.Static, e.Values()
	static.Vars = map[string]any{}
	maps.Copy(static.Vars, e.Vars)
	for name, v := range vars {
		static.Vars[name] = match.Normalize(v)
	}
	known["vars"] = static.Vars
	env, err := expr.New(static)
	return env, known, err
}
