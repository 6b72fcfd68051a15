package box

import (
	"context"
	"fmt"
	"net/http"

	"github.com/koupleless/koupsandbox/sandbox/bench"
)

// ControllerMetrics returns the metrics of the module controller.
func (b *Box) ControllerMetrics(ctx context.Context) (bench.Metrics, error) {
	addr, err := FindLogWord(b.Log(ControllerBinary), "msg=serving what=metrics addr=")
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of the controller: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // the body was only read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading the metrics of the controller: %s", response.Status)
	}
	return bench.ParseMetrics(response.Body)
}
