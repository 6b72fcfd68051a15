package arklet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Each target checks a decoder: for any input, it returns either a value within the limits, which
// does not change when it is encoded and decoded again, or a short printable error. The corpora in testdata are
// written by hand from the protocol.

func FuzzEnvelope(f *testing.F) {
	f.Fuzz(func(t *testing.T, payload []byte) {
		e, err := DecodeEnvelope(payload)
		if isRejected(t, err) {
			return
		}
		if !json.Valid(e.Data) || e.PublishTimestamp < 0 || e.PublishTimestamp >= maxMillis {
			t.Errorf("accepted: %+v", e)
		}
		requireRoundTrip(t, e, fmt.Appendf(nil, `{"data":%s,"publishTimestamp":%d}`, e.Data, e.PublishTimestamp), DecodeEnvelope)
	})
}

func FuzzHeartbeat(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := DecodeHeartbeat(data)
		if isRejected(t, err) {
			return
		}
		identity(t, h.Identity)
		requireNameLimits(t, h.Name, h.Version, h.Cluster, h.IP, h.HostName)
		if h.Port < 0 || h.Port > 65535 {
			t.Errorf("port %d", h.Port)
		}
		m := map[string]any{"localIP": h.IP, "localHostName": h.HostName, "port": h.Port,
			"state": map[bool]string{true: "activated"}[h.Active]}
		if h.Identity == "" {
			m["masterBizInfo"] = map[string]string{"name": h.Name, "version": h.Version}
		} else {
			m["baseMetadata"] = map[string]string{"identity": h.Identity, "name": h.Name, "version": h.Version,
				"clusterName": h.Cluster}
		}
		requireRoundTrip(t, h, wire(t, m), DecodeHeartbeat)
	})
}

func FuzzBaselineQuery(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeMetadata(data)
		if isRejected(t, err) {
			return
		}
		identity(t, m.Identity)
		requireNameLimits(t, m.Name, m.Version, m.Cluster)
		requireRoundTrip(t, m, wire(t, map[string]string{"identity": m.Identity, "name": m.Name, "version": m.Version,
			"clusterName": m.Cluster}), DecodeMetadata)
	})
}

// FuzzBizList decodes both forms of a module list: the short form, and the full form that generation A and HTTP use.
func FuzzBizList(f *testing.F) {
	f.Fuzz(func(t *testing.T, full bool, data []byte) {
		decode := DecodeSimpleBiz
		if full {
			decode = DecodeBizListOutput
		}
		list, err := decode(data)
		if isRejected(t, err) {
			return
		}
		if len(list) > MaxModules {
			t.Errorf("%d modules", len(list))
		}
		record := func(r Record) map[string]any {
			ms := int64(0)
			if !r.At.IsZero() {
				ms = r.At.UnixMilli()
				if ms <= 0 || ms >= maxMillis {
					t.Errorf("time %s", r.At)
				}
			}
			requireNameLimits(t, r.Reason)
			text(t, r.Message)
			return map[string]any{"changeTime": ms, "state": r.State, "reason": r.Reason, "message": r.Message}
		}
		out := []map[string]any{}
		for _, b := range list {
			requireNameLimits(t, b.Name, b.Version, b.WebContextPath)
			if b.Name == "" || len(b.Records) > maxRecords {
				t.Errorf("module %q with %d records", b.Name, len(b.Records))
			}
			one := map[string]any{"bizName": b.Name, "bizVersion": b.Version, "bizState": b.State,
				"webContextPath": b.WebContextPath}
			if b.Latest != (Record{}) {
				one["latestStateRecord"] = record(b.Latest)
			}
			var records []map[string]any
			for _, r := range b.Records {
				records = append(records, record(r))
			}
			one["bizStateRecords"] = records
			out = append(out, one)
		}
		requireRoundTrip(t, list, wire(t, out), DecodeSimpleBiz)
		requireRoundTrip(t, list, wire(t, map[string]any{"code": "SUCCESS", "data": out}), DecodeBizListOutput)
	})
}

// FuzzAnswer decodes the answer to a command over each tunnel.
func FuzzAnswer(f *testing.F) {
	request := Request{Command: CommandInstallBiz, Module: Module{Name: "biz1", Version: "1"}}
	f.Fuzz(func(t *testing.T, overHTTP bool, data []byte) {
		decode := DecodeBizOperation
		if overHTTP {
			decode = func(b []byte) (Answer, error) { return DecodeHTTPAnswer(b, request) }
		}
		a, err := decode(data)
		if isRejected(t, err) {
			return
		}
		checkAnswer(t, a)
		if a.Code == "" {
			t.Error("an answer without a code")
		}
		if overHTTP && (a.Command != request.Command || a.Module != request.Module) {
			t.Errorf("the answer is for %s of %s", a.Command, a.Module.Identity())
		}
		response := map[string]any{
			"code": a.Code, "message": a.Message, "errorCode": a.ErrorCode,
			"data": map[string]string{"code": a.DataCode, "message": a.DataMessage},
		}
		if overHTTP {
			requireRoundTrip(t, a, wire(t, response), decode)
			return
		}
		requireRoundTrip(t, a, wire(t, map[string]any{"command": a.Command, "bizName": a.Module.Name,
			"bizVersion": a.Module.Version, "response": response}), decode)
	})
}

func FuzzBatchAnswer(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeBatchInstall(data)
		if isRejected(t, err) {
			return
		}
		checkAnswer(t, r.Answer)
		if len(r.Failed) > MaxModules {
			t.Errorf("%d modules failed", len(r.Failed))
		}
		byURL := map[string]any{}
		for url, a := range r.Failed {
			text(t, url)
			checkAnswer(t, a)
			byURL[url] = map[string]string{"code": a.DataCode, "message": a.DataMessage}
		}
		requireRoundTrip(t, r, wire(t, map[string]any{"response": map[string]any{
			"code": r.Code, "message": r.Message, "errorCode": r.ErrorCode,
			"data": map[string]any{"code": r.DataCode, "message": r.DataMessage, "bizUrlToResponse": byURL},
		}}), DecodeBatchInstall)
	})
}

func FuzzHealth(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := DecodeHealth(data)
		if isRejected(t, err) {
			return
		}
		for _, size := range []int64{h.MetaspaceUsed, h.MetaspaceCommitted, h.MetaspaceMax} {
			if size < Unlimited {
				t.Errorf("metaspace of %d bytes", size)
			}
		}
		if h.CPUs < 0 || h.RunTime < 0 || h.RunTime > longestRun {
			t.Errorf("accepted: %+v", h)
		}
	})
}

// FuzzText sanitizes texts. The result must be short and printable, and must not change when it is sanitized again.
func FuzzText(f *testing.F) {
	f.Fuzz(func(t *testing.T, s string) {
		clean := SanitizeText(s)
		text(t, clean)
		if diff := cmp.Diff(clean, SanitizeText(clean)); diff != "" {
			t.Errorf("sanitized again (-first +second):\n%s", diff)
		}
		if CheckIdentity(s) == nil {
			identity(t, s)
			if clean != s {
				t.Errorf("the identity %q is sanitized as %q", s, clean)
			}
		}
	})
}

// isRejected reports whether err is not nil. It checks that the error text is short and printable.
func isRejected(t *testing.T, err error) bool {
	t.Helper()
	if err != nil && (err.Error() == "" || len(err.Error()) > MaxText+400 || !utf8.ValidString(err.Error())) {
		t.Errorf("an error of %d bytes: %.500q", len(err.Error()), err)
	}
	return err != nil
}

func checkAnswer(t *testing.T, a Answer) {
	t.Helper()
	requireNameLimits(t, string(a.Command), a.Module.Name, a.Module.Version, a.Code, a.DataCode, a.ErrorCode)
	text(t, a.Message)
	text(t, a.DataMessage)
}

func identity(t *testing.T, s string) {
	t.Helper()
	requireNameLimits(t, s)
	if len(s) > MaxIdentity || strings.ContainsAny(s, "/+#") {
		t.Errorf("an identity of %d bytes: %q", len(s), s)
	}
}

func requireNameLimits(t *testing.T, names ...string) {
	t.Helper()
	for _, s := range names {
		if len(s) > MaxName || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("a name of %d bytes: %q", len(s), s)
		}
	}
}

func text(t *testing.T, s string) {
	t.Helper()
	if len(s) > MaxText || !utf8.ValidString(s) ||
		strings.ContainsFunc(s, func(c rune) bool { return c != '\n' && c != '\t' && !unicode.IsPrint(c) }) {
		t.Errorf("a text of %d bytes: %.200q", len(s), s)
	}
}

// wire encodes a message as JSON.
func wire(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// requireRoundTrip decodes an encoded value and checks that the result is equal to the original. It ignores values that
// exceed the size limit.
func requireRoundTrip[T any](t *testing.T, first T, written []byte, decode func([]byte) (T, error)) {
	t.Helper()
	if len(written) > MaxPayload {
		return
	}
	second, err := decode(written)
	if diff := cmp.Diff(first, second); err != nil || diff != "" {
		t.Errorf("%.500s\ndecoded again: %v (-first +second):\n%s", written, err, diff)
	}
}
