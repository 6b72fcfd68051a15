package fakebase

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// TestBatchOrder checks that a batch installs modules in the order of their priorities, and modules with the same
// priority concurrently (protocol 3.7).
func TestBatchOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := func(n int) *int { return &n }
		second := Delay{Min: Duration(time.Second)}
		b := start(t, Options{Identity: "b1",
			Catalogue: &Catalogue{Fetch: FetchNever, InstallTime: second, Modules: []Module{
				{Name: "last"}, {Name: "first", Priority: p(-1)}, {Name: "mid1", Priority: p(50)},
				{Name: "mid2", Priority: p(50)},
			}}})
		synctest.Wait()
		begun := time.Now()
		at := map[string]time.Duration{}
		_, stop := b.Watch(func(e Event) {
			if e.To == StateActivated {
				at[e.Biz] = e.Time.Sub(begun)
			}
		})
		defer stop()
		b.mu.Lock()
		l := b.current
		b.mu.Unlock()
		var batch batchRequest
		for _, name := range []string{"last", "mid2", "mid1", "first"} {
			batch.BizList = append(batch.BizList,
				bizRequest{BizName: jsonString{name, true}, BizVersion: jsonString{"1", true},
					BizURL: jsonString{"http://h/" + name + ".jar", true}})
		}
		out := l.batchCommand(&batch, ark.Hot)
		want := map[string]time.Duration{"first": time.Second, "mid1": 2 * time.Second, "mid2": 2 * time.Second,
			"last": 3 * time.Second}
		if d := cmp.Diff(want, at); d != "" {
			t.Errorf("activation times (-want +got):\n%s", d)
		}
		if resp := out.data.(batchResponse); resp.failed || resp.elapsed != 4*defaultModuleMetaspace ||
			len(resp.byURL) != 4 {
			t.Errorf("response = %+v", resp)
		}
	})
}

// TestBatchesExcludeEachOther checks that two batches conflict, because each locks the identity null:null, and that
// this lock does not reject a single install: the install fails with REPEAT_BIZ, because the batch is installing the
// biz.
func TestBatchesExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Options{Identity: "b1",
			Catalogue: &Catalogue{Fetch: FetchNever, InstallTime: Delay{Min: Duration(time.Second)}}})
		synctest.Wait()
		b.mu.Lock()
		l := b.current
		b.mu.Unlock()
		batch := func() commandResult {
			return l.batchCommand(&batchRequest{BizList: []bizRequest{*request("1")}}, ark.Hot)
		}
		l.spawn(func() { batch() })
		synctest.Wait()
		if got, want := batch().message, "FAILED:null:null batchInstallBiz conflict, exist unfinished "+
			"command(batchInstallBiz) for this biz"; got != want {
			t.Errorf("message of the second batch = %q, want %q", got, want)
		}
		single := l.installCommand(request("1"))
		if resp := single.data.(clientResponse); resp.code != codeRepeat ||
			single.code != fault.CodeInstallBizExecuting {
			t.Errorf("result of a single install during the batch = %+v", single)
		}
	})
}

// ExampleBase_Watch shows how to observe the modules of a base with Watch.
func ExampleBase_Watch() {
	b, err := New(Options{Identity: "b1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	now, stop := b.Watch(func(e Event) {
		if e.Kind == EventBiz {
			fmt.Println(e.Time, e.Biz, e.Version, e.From, "->", e.To)
		}
	})
	defer stop()
	fmt.Println(now.Identity, len(now.Biz))
	// Output: b1 0
}
