package box

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/bench"
)

// ControllerAddr is where the module controller serves "health" or "metrics".
// The sandbox gives it free ports, and its log tells which.
func (b *Box) ControllerAddr(what string) (string, error) {
	log, err := os.Open(b.Log(ControllerProgram))
	if err != nil {
		return "", fmt.Errorf("looking for the controller's address: %w", err)
	}
	defer func() { _ = log.Close() }() // it was only read
	addr := ""
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if _, after, ok := strings.Cut(lines.Text(), "msg=serving what="+what+" addr="); ok {
			addr = after // the last start counts
		}
	}
	if addr == "" {
		return "", fmt.Errorf("%s does not tell where the controller serves its %s", b.Log(ControllerProgram), what)
	}
	return addr, nil
}

// ControllerMetrics asks the module controller for its metrics.
func (b *Box) ControllerMetrics(ctx context.Context) (bench.Metrics, error) {
	body, status, err := b.AskController(ctx, "metrics", "/metrics")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("asking the controller for its metrics: it answers %d", status)
	}
	return bench.ParseMetrics(strings.NewReader(body))
}

// AskController sends a GET to one of the controller's two servers.
func (b *Box) AskController(ctx context.Context, what, path string) (body string, status int, err error) {
	addr, err := b.ControllerAddr(what)
	if err != nil {
		return "", 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return "", 0, fmt.Errorf("asking the controller for %s: %w", path, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", 0, fmt.Errorf("asking the controller for %s: %w", path, err)
	}
	defer func() { _ = response.Body.Close() }() // what counts has been read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", 0, fmt.Errorf("asking the controller for %s: %w", path, err)
	}
	return string(text), response.StatusCode, nil
}
