package fakebase

import (
	"maps"
	"slices"
	"sync"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
	"github.com/koupleless/koupsandbox/fakebase/internal/jar"
)

// batchID is what a batch locks: the name and version of a request that has
// none, so that batches exclude each other and nothing else (protocol 3.6).
const batchID = "null:null"

type batchResponse struct {
	failed  bool
	elapsed int64
	byURL   map[string]clientResponse
}

// batchCommand is batchInstallBiz (protocol 4.9), and what a baseline does
// (protocol 3.6) with the origin Replay.
func (l *life) batchCommand(req *batchRequest, origin ark.Origin) outcome {
	sub := subject{command: cmdBatch}
	return l.handle(sub, func() outcome {
		switch {
		case req == nil:
			return thrownOutcome(nullPointer(handlers[cmdBatch], "isAsync()"))
		case bool(req.Async) && blank(req.RequestID):
			return thrownOutcome(asyncWithoutID())
		case req.BizList == nil:
			return thrownOutcome(invalid(fault.CodeInvalidParameter, "bizList is null"))
		}
		checked := batchRequest{BizList: slices.Clone(req.BizList)}
		for i, item := range checked.BizList {
			item.Async = false
			item, ex := l.validateInstall(item)
			if ex != nil {
				return failure(ex)
			}
			checked.BizList[i] = item
		}
		op := func() outcome { return l.installBatch(&checked, origin) }
		if req.Async {
			return l.operateAsync(req.RequestID.value, batchID, req, sub, op)
		}
		out, _ := l.exclusively(batchID, sub, op)
		return out
	})
}

// installBatch installs in ascending groups of priority, in parallel inside a
// group. A jar that cannot be read for its priority ends the batch before
// anything is installed; one whose manifest lacks something fails alone.
func (l *life) installBatch(req *batchRequest, origin ark.Origin) outcome {
	groups := map[int][]*bizRequest{}
	for i := range req.BizList {
		item := &req.BizList[i]
		f, ex := l.resolve(item)
		switch {
		case ex != nil && ex.class == badManifest:
			f.Priority = jar.DefaultPriority
		case ex != nil:
			return failure(ex)
		}
		groups[f.Priority] = append(groups[f.Priority], item)
	}
	l.b.mu.Lock()
	before := l.meta.used
	l.b.mu.Unlock()

	var mu sync.Mutex
	resp := batchResponse{byURL: map[string]clientResponse{}}
	gone := false
	for _, p := range slices.Sorted(maps.Keys(groups)) {
		var wg sync.WaitGroup
		for _, item := range groups[p] {
			wg.Go(func() {
				r, ex := l.install(item, item.subject(cmdBatch), origin)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case ex == errGone:
					gone = true
				case ex != nil:
					r = clientResponse{code: codeFailed, message: "internal exception: " + ex.nullableDetail()}
				}
				r.elapsed = nil
				resp.failed = resp.failed || r.code != codeSuccess
				resp.byURL[item.BizURL.value] = r
			})
		}
		wg.Wait()
	}
	if gone {
		return outcome{gone: true}
	}
	l.b.mu.Lock()
	resp.elapsed = l.meta.used - before
	l.b.mu.Unlock()
	out := ok(resp)
	if resp.failed {
		out.failed, out.message, out.code = true, "install biz not success!", fault.CodeInstallBizFailed
	}
	return out
}
