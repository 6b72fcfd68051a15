package controller

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestWaitForAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset()
		began, outage := time.Now(), 90*time.Second
		api.PrependReactor("get", "version", func(clienttesting.Action) (bool, runtime.Object, error) {
			if time.Since(began) < outage {
				return true, nil, errors.New("connection refused")
			}
			return false, nil, nil
		})
		c := &Controller{client: api, logger: slog.New(slog.DiscardHandler)}
		c.waitForAPI(t.Context())
		if late := time.Since(began) - outage; late < 0 || late > time.Second {
			t.Errorf("waitForAPI returned %s after the API answered", late)
		}
		outage = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c.waitForAPI(ctx)
	})
}
