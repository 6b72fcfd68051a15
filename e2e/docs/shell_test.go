package docs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shell is a bash process that runs all commands of a page, so that variables and functions persist between commands.
type shell struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when the shell has exited
}

// startShell starts a shell in a directory. The caller must call close.
func startShell(dir string, env []string) (*shell, error) {
	s := &shell{cmd: exec.Command("bash", "--noprofile", "--norc"), lines: make(chan string, 1024)}
	s.cmd.Dir, s.cmd.Env = dir, env
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that close also stops background jobs
	var out io.Reader
	var err error
	s.in, err = s.cmd.StdinPipe()
	if err == nil {
		out, err = s.cmd.StdoutPipe()
	}
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting a shell: %w", err)
	}
	go func() {
		defer close(s.lines)
		scan := bufio.NewScanner(out)
		scan.Buffer(nil, 1<<20)
		for scan.Scan() {
			s.lines <- scan.Text()
		}
	}()
	return s, nil
}

// done marks the end of a command. After each command, the shell prints done and the exit status.
const done = "=====documented command ended====="

// terminated matches the message that bash prints when a background job is killed.
var terminated = regexp.MustCompile(`^bash: line \d+: +\d+ (Terminated|Killed)`)

// run executes a command and blocks until it has exited. It returns the combined standard output and standard error,
// and the exit status.
func (s *shell) run(ctx context.Context, command string) (lines []string, status int, err error) {
	if _, err := fmt.Fprintf(s.in, "{ %s\n} 2>&1 </dev/null\nprintf '\\n%s %%d\\n' $?\n", command, done); err != nil {
		return nil, 0, fmt.Errorf("the shell has exited: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return lines, 0, fmt.Errorf("the command timed out (%w)", ctx.Err())
		case line, open := <-s.lines:
			if !open {
				return lines, 0, errors.New("the shell has exited")
			}
			if rest, found := strings.CutPrefix(line, done+" "); found {
				status, err = strconv.Atoi(rest)
				return trimmed(lines), status, err
			}
			if !terminated.MatchString(line) {
				lines = append(lines, line)
			}
		}
	}
}

// trimmed returns the lines without trailing empty lines.
func trimmed(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// close stops the shell and all processes that the shell has started, and blocks until they have exited.
func (s *shell) close() {
	_ = s.in.Close()
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM)
	end := time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	defer end.Stop()
	for range s.lines { // until the shell has exited
	}
	_ = s.cmd.Wait()
}
