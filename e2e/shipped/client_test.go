package shipped

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// requests is a client that sends one request after the other to the endpoints of a Service, as a load balancer would.
type requests struct {
	mu     sync.Mutex
	sent   int
	failed []string
}

// sendRequests creates a Service for a module and sends requests to it until the test ends. webAddr maps the address
// of an endpoint to the listener of the base.
func sendRequests(t *testing.T, namespace, name string, webAddr map[string]string) *requests {
	t.Helper()
	_, err := client.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}, metav1.CreateOptions{})
	must(t, err)
	slices := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace)).Discovery().V1().EndpointSlices()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	informer := slices.Informer()
	group.Go(func() { informer.Run(ctx.Done()) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the watch of EndpointSlices has not begun")
	}
	eventually(t, "the Service has an endpoint for each base", func(context.Context) error {
		if n := len(endpoints(slices.Lister(), namespace)); n != len(webAddr) {
			return fmt.Errorf("it has %d", n)
		}
		return nil
	})
	r := &requests{}
	group.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			err := send(ctx, endpoints(slices.Lister(), namespace), webAddr, n, name)
			if ctx.Err() != nil {
				return
			}
			r.note(err)
		}
	})
	return r
}

func (r *requests) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	if err != nil {
		r.failed = append(r.failed, err.Error())
	}
}

// endpoints returns the addresses that are ready to serve.
func endpoints(lister discoverylisters.EndpointSliceLister, namespace string) (ready []string) {
	slices, err := lister.EndpointSlices(namespace).List(labels.Everything())
	if err != nil { // a lister returns none
		panic(err)
	}
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) && slice.AddressType == discoveryv1.AddressTypeIPv4 {
				ready = append(ready, e.Addresses...)
			}
		}
	}
	return ready
}

func send(ctx context.Context, ready []string, webAddr map[string]string, n int, name string) error {
	if len(ready) == 0 {
		return fmt.Errorf("the Service %s has no endpoint", name)
	}
	ip := ready[n%len(ready)]
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, webAddr[ip]+"/"+name, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // the status is enough
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("base %s answers %s", ip, answer.Status)
	}
	return nil
}

// noneLost waits for 50 more requests, and fails the test if any request has failed so far.
func (r *requests) noneLost(t *testing.T, when string) {
	t.Helper()
	count := func() (int, []string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.sent, r.failed
	}
	before, _ := count()
	eventually(t, "requests are sent", func(context.Context) error {
		if now, _ := count(); now < before+50 {
			return fmt.Errorf("%d were sent", now-before)
		}
		return nil
	})
	if sent, failed := count(); len(failed) > 0 {
		t.Errorf("%s %d of %d requests have failed, the first one: %s", when, len(failed), sent, failed[0])
	}
}
