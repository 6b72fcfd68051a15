package fakebase

import (
	"maps"
	"slices"
	"sync"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
	"github.com/koupleless/koupsandbox/fakebase/internal/jar"
)

// batchID is the biz identity that a batch command locks. It is the identity of a request without a name and a
// version, so a batch blocks only other batches (protocol 4.8).
const batchID = "null:null"

type batchResponse struct {
	failed  bool
	elapsed int64
	byURL   map[string]clientResponse
}

// batchCommand executes batchInstallBiz (protocol 4.9). With the origin Replay, it installs a baseline instead
// (protocol 3.7).
func (l *incarnation) batchCommand(req *batchRequest, origin ark.Origin) commandResult {
	sub := subject{command: cmdBatch}
	return l.handle(sub, func() commandResult {
		switch {
		case req == nil:
			return exceptionResult(nullPointer(handlers[cmdBatch], "isAsync()"))
		case bool(req.Async) && blank(req.RequestID):
			return exceptionResult(asyncWithoutID())
		case req.BizList == nil:
			return exceptionResult(newValidationException(fault.CodeInvalidParameter, "bizList is null"))
		}
		checked := batchRequest{BizList: slices.Clone(req.BizList)}
		for i, item := range checked.BizList {
			item.Async = false
			item, ex := l.validateInstall(item)
			if ex != nil {
				return failedResult(ex)
			}
			checked.BizList[i] = item
		}
		op := func() commandResult { return l.installBatch(&checked, origin) }
		if req.Async {
			return l.operateAsync(req.RequestID.value, batchID, req, sub, op)
		}
		out, _ := l.withLock(batchID, sub, op)
		return out
	})
}

// installBatch installs modules in the order of their priorities, and modules with the same priority concurrently. If
// a jar cannot be read, the batch fails before the first installation. If only an attribute in the manifest of a jar
// is missing, the other modules are installed.
func (l *incarnation) installBatch(req *batchRequest, origin ark.Origin) commandResult {
	groups := map[int][]*bizRequest{}
	for i := range req.BizList {
		item := &req.BizList[i]
		f, ex := l.resolve(item)
		switch {
		case ex != nil && ex.class == badManifest:
			f.Priority = jar.DefaultPriority
		case ex != nil:
			return failedResult(ex)
		}
		groups[f.Priority] = append(groups[f.Priority], item)
	}
	l.b.mu.Lock()
	before := l.metaspaceUse.used
	l.b.mu.Unlock()

	var mu sync.Mutex
	resp := batchResponse{byURL: map[string]clientResponse{}}
	noAnswer := false
	for _, p := range slices.Sorted(maps.Keys(groups)) {
		var wg sync.WaitGroup
		for _, item := range groups[p] {
			wg.Go(func() {
				r, ex := l.install(item, item.subject(cmdBatch), origin)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case ex == errNoAnswer:
					noAnswer = true
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
	if noAnswer {
		return commandResult{noAnswer: true}
	}
	l.b.mu.Lock()
	resp.elapsed = l.metaspaceUse.used - before
	l.b.mu.Unlock()
	out := ok(resp)
	if resp.failed {
		out.failed, out.message, out.code = true, "install biz not success!", fault.CodeInstallBizFailed
	}
	return out
}
