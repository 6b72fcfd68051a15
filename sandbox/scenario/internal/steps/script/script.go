// Package script executes the step script.
package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

const (
	// retryPause is the pause between two executions of a script with an until condition.
	retryPause = 200 * time.Millisecond
	// outputGrace is how long, after a script has exited, its child processes may keep its output open.
	outputGrace = time.Second
	// maxOutput is how many bytes of the standard output and of the standard error of a script are kept, each.
	maxOutput = 1 << 20
)

type result struct {
	stdout, stderr string
	code           int
}

// Exec runs a script. If the step has an until condition, it repeats the script until the condition is true.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Script) (string, error) {
	var until *expr.Program
	if a.Until != "" {
		var err error
		until, err = e.Compile(a.Until, expr.Until)
		if err != nil {
			return "", err
		}
	}
	var last *steps.Failure // failure of the previous attempt
	for {
		r, err := runShell(ctx, e, a)
		if err != nil {
			return "", steps.TimeoutFailure(ctx, err, func() *steps.Failure {
				if last != nil {
					return last
				}
				return withOutput(steps.Fail("the script has not ended"), r)
			})
		}
		f := checkResult(e, r, until)
		if f == nil {
			if a.Output != "" {
				e.SetOutput(a.Output, strings.TrimSuffix(r.stdout, "\n"))
			}
			return plain.FirstLine(r.stdout), nil
		}
		last = withOutput(f, r)
		if until == nil {
			return "", last
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return "", steps.TimeoutFailure(ctx, context.Cause(ctx), func() *steps.Failure { return last })
		}
	}
}

func checkResult(e *steps.Env, r result, until *expr.Program) *steps.Failure {
	if until == nil {
		if r.code != 0 {
			return steps.Fail("the script ended with exit code %d", r.code)
		}
		return nil
	}
	data := e.Values()
	data["stdout"], data["stderr"], data["exitCode"] = r.stdout, r.stderr, int64(r.code)
	got, err := until.Eval(data)
	switch {
	case err != nil:
		return steps.Fail("%v", err)
	case !got.True():
		return steps.Fail("condition is not true: %s", until.Text())
	}
	return nil
}

func withOutput(f *steps.Failure, r result) *steps.Failure {
	return f.With("Standard output", r.stdout).With("Standard error", r.stderr)
}

// runShell runs a script in its own process group, which is killed when ctx ends.
func runShell(ctx context.Context, e *steps.Env, a *v1alpha1.Script) (result, error) {
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", a.Content)
	cmd.Dir = e.Dir
	cmd.Env = append(supervise.ScriptEnviron(os.Environ()), "KUBECONFIG="+e.Kubeconfig, "NAMESPACE="+e.Namespace,
		"GROUP="+e.Group)
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		cmd.Env = append(cmd.Env, name+"="+a.Env[name])
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = outputGrace
	var stdout, stderr limited
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // a process of the group keeps the output open
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if the processes have ended
	}
	r := result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay):
		return r, fmt.Errorf("running the script: %w", err)
	}
	return r, nil
}

type limited struct{ bytes.Buffer }

// Write implements io.Writer. It never returns an error.
func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(maxOutput-l.Len(), 0))])
	return len(p), nil
}
