package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An API server that is away, or starts, is asked again soon; what it answers then counts.
func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused, expired := fmt.Errorf("dial: %w", syscall.ECONNREFUSED), apierrors.NewResourceExpired("too old")
		services := schema.GroupResource{Resource: "services"}
		for name, c := range map[string]struct{ first, last error }{
			"refused":                    {refused, nil},
			"cut":                        {io.ErrUnexpectedEOF, nil},
			"roles that are not known":   {apierrors.NewForbidden(services, "", errors.New("no role")), nil},
			"not all is there":           {apierrors.NewInternalError(errors.New("storage is (re)initializing")), nil},
			"too much at once":           {apierrors.NewTooManyRequests("later", 1), nil},
			"a version that is too old":  {refused, expired},
			"a request that is mistaken": {refused, apierrors.NewBadRequest("no")},
		} {
			began, asked := time.Now(), 0
			_, err := patiently(t.Context(), func() (int, error) {
				if asked++; asked <= 20 {
					return 0, c.first
				}
				return 0, c.last
			})
			if !errors.Is(err, c.last) || time.Since(began) != 20*again {
				t.Errorf("%s: %v after %s, asked %d times", name, err, time.Since(began), asked)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := patiently(ctx, func() (int, error) { return 0, refused }); !errors.Is(err, refused) || ctx.Err() == nil {
			t.Errorf("it gave up before its time: %v", err)
		}
	})
}
