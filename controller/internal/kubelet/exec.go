package kubelet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"golang.org/x/term"
	utilexec "k8s.io/utils/exec"
)

// Exit statuses of commands, as in shells.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 127
)

// exit returns an error that makes kubectl exec return an exit status.
func exit(status int) error {
	return utilexec.CodeExitError{Err: fmt.Errorf("exit status %d", status), Code: status}
}

// prompt is the text before each line on a terminal.
const prompt = "ark> "

// startSession registers an exec session. It returns false if the server is being stopped.
func (s *Server) startSession() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.shells.Add(1)
	}
	return !s.stopped
}

// stopSessions rejects new exec sessions, and waits until the current sessions have ended.
func (s *Server) stopSessions() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.shells.Wait()
}

// exec implements api.ContainerExecHandlerFunc. It runs one command. If there is stdin and no command, it runs a
// prompt instead. exec blocks until the command or the prompt ends. ctx ends when the server stops or the client
// disconnects. The error is a utilexec.ExitError that is not wrapped, because virtual-kubelet asserts this type.
func (s *Server) exec(ctx context.Context, namespace, pod, container string, cmd []string, attach api.AttachIO) error {
	if !s.startSession() {
		return exit(exitFailed)
	}
	defer s.shells.Done()
	streams := newStreams(attach)
	t, err := s.find(namespace, pod, container)
	if err != nil {
		fmt.Fprintln(streams.err, err)
		return exit(exitFailed)
	}
	a := &ark{server: s, target: t, out: streams.out}
	if len(cmd) > 0 && cmd[0] == "ark" {
		cmd = cmd[1:]
	}
	switch {
	case len(cmd) > 0:
		return exitStatus(streams.err, a.run(ctx, cmd))
	case attach.Stdin() == nil:
		return exitStatus(streams.err, a.run(ctx, []string{"help"}))
	}
	return s.runPrompt(ctx, a, streams, attach)
}

// exitStatus prints an error and returns its exit status.
func exitStatus(w io.Writer, err error) error {
	if err == nil {
		return nil
	}
	fmt.Fprintln(w, err)
	status := exitFailed
	if e, ok := errors.AsType[*usageError](err); ok {
		status = e.status
	}
	return exit(status)
}

// runPrompt runs each line of stdin as a command. Without a terminal, it stops at the first failed command.
func (s *Server) runPrompt(ctx context.Context, a *ark, streams streams, attach api.AttachIO) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	prompts, lines := make(chan struct{}, 1), make(chan string)
	s.shells.Go(func() { // ends when the connection is closed, after runPrompt returns
		defer close(lines)
		for range prompts { // print the next prompt after the output of the last command
			line, err := streams.readLine()
			if err != nil {
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	})
	defer close(prompts)
	prompts <- struct{}{}
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(streams.err, "the module controller is stopping")
			return exit(exitFailed)
		case size := <-attach.Resize(): // nil without a terminal
			streams.resize(size)
		case line, more := <-lines:
			if !more {
				return nil
			}
			words := strings.Fields(line)
			switch {
			case len(words) > 0 && words[0] == "ark":
				words = words[1:]
			case len(words) == 1 && (words[0] == "exit" || words[0] == "quit"):
				return nil
			}
			if len(words) > 0 {
				if err := exitStatus(streams.err, a.run(ctx, words)); err != nil && !attach.TTY() {
					return err
				}
			}
			prompts <- struct{}{}
		}
	}
}

// streams are the input and output streams of a command.
type streams struct {
	out, err io.Writer
	readLine func() (string, error)
	resize   func(api.TermSize)
}

// newStreams returns the streams of an exec session. If the session has a terminal, the streams include a line
// editor.
func newStreams(attach api.AttachIO) streams {
	var in io.Reader = bytes.NewReader(nil)
	if attach.Stdin() != nil {
		in = attach.Stdin()
	}
	out, err := writer(attach.Stdout()), writer(attach.Stderr())
	if attach.TTY() {
		t := term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{in, out}, prompt)
		return streams{out: t, err: t, readLine: t.ReadLine, resize: func(size api.TermSize) {
			if size.Width > 0 { // a terminal without a size reports 0
				_ = t.SetSize(int(size.Width), int(size.Height)) // the next write returns the error
			}
		}}
	}
	scanner := bufio.NewScanner(in)
	return streams{out: out, err: err, resize: func(api.TermSize) {}, readLine: func() (string, error) {
		if !scanner.Scan() {
			return "", errors.Join(scanner.Err(), io.EOF)
		}
		return scanner.Text(), nil
	}}
}

func writer(w io.WriteCloser) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
