package box

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/bench"
)

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
	addr, err := Logged(b.Log(ControllerProgram), "msg=serving what="+what+" addr=")
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
