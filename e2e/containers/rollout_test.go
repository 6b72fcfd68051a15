package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// between is the pause between two requests to one base.
const between = 10 * time.Millisecond

// users send requests to the module on every base, each on a connection of its own.
type users struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex
	answered int
	versions []string // in the order in which they were first seen, base by base
	errs     []error
}

// requests begins to send; end it.
func requests(t *testing.T, r release) *users {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	u := &users{stop: stop}
	for _, b := range all.bases {
		u.wg.Go(func() { u.send(ctx, b, r.module) })
	}
	t.Cleanup(func() {
		stop()
		u.wg.Wait()
	})
	return u
}

func (u *users) send(ctx context.Context, b *base, module string) {
	tick := time.NewTicker(between)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		version, err := b.version(ctx, module)
		if err != nil && ctx.Err() != nil {
			return
		}
		u.mu.Lock()
		if err != nil {
			u.errs = append(u.errs, err)
		} else {
			u.answered++
			if !slices.Contains(u.versions, version) {
				u.versions = append(u.versions, version)
			}
		}
		u.mu.Unlock()
	}
}

// end stops sending and checks that nothing was lost and which versions answered.
func (u *users) end(t *testing.T, versions ...string) {
	t.Helper()
	u.stop()
	u.wg.Wait()
	t.Logf("%d requests answered, %d lost", u.answered, len(u.errs))
	if len(u.errs) > 0 {
		t.Errorf("%d requests were lost, such as: %v", len(u.errs), errors.Join(u.errs[:min(3, len(u.errs))]...))
	}
	if diff := cmp.Diff(versions, u.versions); diff != "" {
		t.Errorf("versions that answered (-want +got):\n%s", diff)
	}
}

// A rolling update of bases in containers loses no request.
func TestRollingUpdate(t *testing.T) {
	r := deploy(t, "rolled", "1.0.0")
	users := requests(t, r)
	eventually(t, "requests are answered", func(context.Context) error {
		users.mu.Lock()
		defer users.mu.Unlock()
		if users.answered < bases {
			return fmt.Errorf("%d were", users.answered)
		}
		return nil
	})
	deployments := kube.AppsV1().Deployments(r.namespace)
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the Deployment's controller writes its status meanwhile
		d, err := deployments.Get(t.Context(), r.module, metav1.GetOptions{})
		if err != nil {
			return err
		}
		d.Spec.Template = r.template("2.0.0")
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType}
		_, err = deployments.Update(t.Context(), d, metav1.UpdateOptions{})
		return err
	}))
	eventually(t, "every base serves the new version, and nothing else", func(ctx context.Context) error {
		if err := r.wellEverywhere(ctx, "2.0.0"); err != nil {
			return err
		}
		list, err := kube.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != bases {
			err = fmt.Errorf("there are %d Pods", len(list.Items))
		}
		return err
	})
	users.end(t, "1.0.0", "2.0.0")
}
