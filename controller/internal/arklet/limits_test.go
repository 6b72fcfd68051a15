package arklet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIdentities(t *testing.T) {
	for identity, ok := range map[string]bool{
		"10.1.2.3": true, "base-0": true, "A b": true, "基座": true, strings.Repeat("x", 253): true,
		"": false, "a/b": false, "+": false, "a#": false, "a\x00": false, "a\nb": false, "a\u202eb": false,
		"\xff": false, strings.Repeat("x", 254): false,
	} {
		if err := CheckIdentity(identity); (err == nil) != ok || err != nil && !errors.Is(err, ErrLimit) {
			t.Errorf("%.20q: %v", identity, err)
		}
	}
}

// TestLimits checks for each message and field that a value above its limit is rejected with ErrLimit, and that a
// value at the limit is accepted.
func TestLimits(t *testing.T) {
	long, name := strings.Repeat("x", MaxName+1), strings.Repeat("x", MaxName)
	decoders := map[string]func(string) error{
		"envelope":  func(s string) error { _, err := DecodeEnvelope([]byte(s)); return err },
		"heartbeat": func(s string) error { _, err := DecodeHeartbeat([]byte(s)); return err },
		"metadata":  func(s string) error { _, err := DecodeMetadata([]byte(s)); return err },
		"simpleBiz": func(s string) error { _, err := DecodeSimpleBiz([]byte(s)); return err },
		"operation": func(s string) error { _, err := DecodeBizOperation([]byte(s)); return err },
		"batch":     func(s string) error { _, err := DecodeBatchInstall([]byte(s)); return err },
		"answer": func(s string) error {
			_, err := DecodeHTTPAnswer([]byte(s), Request{Command: CommandInstallBiz})
			return err
		},
	}
	modules := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"name":"b","version":"1","state":"activated"},`, n), ",") + "]"
	}
	urls := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"u%d":{"code":"SUCCESS"},`, i)
		}
		return `{"command":"batchInstallBiz","response":{"code":"SUCCESS","data":{"bizUrlToResponse":{` +
			strings.TrimSuffix(b.String(), ",") + `}}}}`
	}
	record := func(at string) string {
		return `[{"name":"b","version":"1","state":"activated","latestStateRecord":{"changeTime":` + at +
			`,"state":"activated","reason":"STARTED"}}]`
	}
	for _, c := range []struct {
		message, good, bad string
	}{
		{"envelope", `{"data":1,"publishTimestamp":253402300799999}`, `{"data":1,"publishTimestamp":253402300800000}`},
		{"envelope", `{"data":1,"publishTimestamp":0}`, `{"data":1,"publishTimestamp":-1}`},
		{"heartbeat", `{"baseMetadata":{"identity":"a"}}`, `{"baseMetadata":{"identity":"a/b"}}`},
		{"heartbeat", `{"baseMetadata":{"identity":"a","name":"` + name + `"}}`,
			`{"baseMetadata":{"identity":"a","name":"` + long + `"}}`},
		{"heartbeat", `{"baseMetadata":{"identity":"a","version":"1"}}`,
			`{"baseMetadata":{"identity":"a","version":"1\u0000"}}`},
		{"heartbeat", `{"baseMetadata":{"identity":"a"},"localHostName":"h"}`,
			`{"baseMetadata":{"identity":"a"},"localHostName":"\u001b[31mh"}`},
		{"heartbeat", `{"baseMetadata":{"identity":"a","clusterName":"` + name + `"}}`,
			`{"baseMetadata":{"identity":"a","clusterName":"` + long + `"}}`},
		{"heartbeat", `{"masterBizInfo":{"bizName":"b"},"networkInfo":{"localHostName":"h"}}`,
			`{"masterBizInfo":{"bizName":"b"},"networkInfo":{"localHostName":"` + long + `"}}`},
		{"metadata", `{"identity":"a"}`, `{"identity":"a#"}`},
		{"metadata", `{"identity":"a","name":"` + name + `"}`, `{"identity":"a","name":"` + long + `"}`},
		{"simpleBiz", modules(MaxModules), modules(MaxModules + 1)},
		{"simpleBiz", `[{"name":"` + name + `","version":"1"}]`, `[{"name":"` + long + `","version":"1"}]`},
		{"simpleBiz", `[{"name":"b","version":"` + name + `"}]`, `[{"name":"b","version":"` + long + `"}]`},
		{"simpleBiz", `[{"name":"b","webContextPath":"p"}]`, `[{"name":"b","webContextPath":"\n"}]`},
		{"simpleBiz", record("253402300799999"), record("253402300800000")},
		{"simpleBiz", record("0"), record("-1")},
		{"simpleBiz", record("1"), strings.Replace(record("1"), "STARTED", long, 1)},
		{"simpleBiz", `[{"bizName":"b","bizStateRecords":[{"changeTime":1}]}]`,
			`[{"bizName":"b","bizStateRecords":[{"changeTime":-5},{"changeTime":1}]}]`},
		{"operation", `{"command":"installBiz","bizName":"b","response":{"code":"FAILED"}}`,
			`{"command":"installBiz","bizName":"` + long + `","response":{"code":"FAILED"}}`},
		{"operation", `{"command":"installBiz","response":{"code":"` + name + `"}}`,
			`{"command":"installBiz","response":{"code":"` + long + `"}}`},
		{"operation", `{"command":"installBiz","response":{"code":"FAILED"}}`,
			`{"command":"\u0007","response":{"code":"FAILED"}}`},
		{"answer", `{"code":"FAILED","errorCode":"` + name + `"}`, `{"code":"FAILED","errorCode":"` + long + `"}`},
		{"answer", `{"code":"FAILED","data":{"code":"` + name + `"}}`,
			`{"code":"FAILED","data":{"code":"` + long + `"}}`},
		{"batch", urls(MaxModules), urls(MaxModules + 1)},
		{"batch", urls(1), strings.Replace(urls(1), `"u0":{"code":"SUCCESS"`, `"u0":{"code":"`+long+`"`, 1)},
	} {
		if err := decoders[c.message](c.good); err != nil {
			t.Errorf("%s %.120s: rejected: %v", c.message, c.good, err)
		}
		if err := decoders[c.message](c.bad); !errors.Is(err, ErrLimit) || len(err.Error()) > 400 {
			t.Errorf("%s %.120s: %.500v, want a short ErrLimit", c.message, c.bad, err)
		}
	}
}

// TestTexts checks that a text that is too long is truncated and not rejected, because real bases send stack traces
// of any length.
func TestTexts(t *testing.T) {
	frames := strings.Repeat("\tat com.example.Deep.call(Deep.java:1)\n", 1000)
	for name, c := range map[string]struct{ text, want string }{
		"short":                             {"a\n\tat b\n", "a\n\tat b\n"},
		"characters that are not printable": {"a\x00\x1b[31mb\u202e\r\nc", "a[31mb\nc"},
		"a long stack trace": {"java.io.IOException: x\n" + frames + "Caused by: y\n" + frames + "\t... 7 more\n",
			"java.io.IOException: x\nCaused by: y\n"},
		"a long line":            {strings.Repeat("é", MaxText), strings.Repeat("é", (MaxText-3)/2) + "…"},
		"exactly what may be":    {strings.Repeat("x", MaxText), strings.Repeat("x", MaxText)},
		"one byte too many":      {strings.Repeat("x", MaxText+1), strings.Repeat("x", MaxText-3) + "…"},
		"frames within limits":   {frames[:400], frames[:400]},
		"bytes that are no text": {strings.Repeat("\xff\x80", MaxText) + "a", "\uFFFDa"},
	} {
		if diff := cmp.Diff(c.want, SanitizeText(c.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	long := strings.Repeat("x", 100_000)
	a, err := DecodeHTTPAnswer(
		[]byte(`{"code":"FAILED","message":"`+long+`","data":{"code":"FAILED","message":"`+long+`"}}`), Request{})
	if err != nil || len(a.Message) > MaxText || len(a.DataMessage) > MaxText || a.Message == "" ||
		a.DataMessage == "" {
		t.Errorf("an answer with long messages: %d and %d bytes, error %v", len(a.Message), len(a.DataMessage),
			err)
	}
	list, err := DecodeSimpleBiz([]byte(`[{"name":"b","latestStateRecord":{"changeTime":1,"message":"` + long + `"}}]`))
	if err != nil || len(list) != 1 || list[0].Latest.Message == "" || len(list[0].Latest.Message) > MaxText {
		t.Errorf("a record with a long message: %d modules, error %v", len(list), err)
	}
	batch, err := DecodeBatchInstall(
		[]byte(`{"response":{"code":"FAILED","data":{"bizUrlToResponse":{"` + long + `":{"code":"FAILED","message":"` +
			long + `"}}}}}`))
	if err != nil || len(batch.Failed) != 1 {
		t.Fatalf("a batch with a long message: %v, error %v", len(batch.Failed), err)
	}
	for url, one := range batch.Failed {
		if len(url) > MaxText || len(one.DataMessage) > MaxText || one.DataMessage == "" {
			t.Errorf("a batch with a URL of %d bytes and a message of %d bytes", len(url), len(one.DataMessage))
		}
	}
	if _, err := DecodeHealth([]byte(`{"code":"` + long + `","message":"` + long + `"}`)); err == nil ||
		len(err.Error()) > MaxText+200 {
		t.Errorf("the error for a failed health check has %d bytes", len(err.Error()))
	}
}

func TestNewestRecordsAreKept(t *testing.T) {
	var records strings.Builder
	for i := range maxRecords + 5 {
		fmt.Fprintf(&records, `{"changeTime":%d},`, i+1)
	}
	list, err := DecodeBizListOutput(
		[]byte(`{"code":"SUCCESS","data":[{"bizName":"b","bizStateRecords":[` +
			strings.TrimSuffix(records.String(), ",") + `]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r := list[0].Records
	if len(r) != maxRecords || r[0].At.UnixMilli() != 6 || r[maxRecords-1] != list[0].Latest ||
		list[0].Latest.At.UnixMilli() != maxRecords+5 {
		t.Errorf("%d records from %v to %v, latest %v", len(r), r[0].At, r[len(r)-1].At, list[0].Latest.At)
	}
}

func TestMessageWithManyObjectsIsRejected(t *testing.T) {
	list := "[" + strings.Repeat("{},", maxObjects) + "{}]"
	if _, err := DecodeSimpleBiz([]byte(list)); !errors.Is(err, ErrLimit) {
		t.Errorf("error %v, want ErrLimit", err)
	}
}

// TestInvalidEntriesOfListsAreDropped checks that decoding a module list with an invalid entry returns the valid
// modules, and an error that reports the invalid entry.
func TestInvalidEntriesOfListsAreDropped(t *testing.T) {
	long := strings.Repeat("9", MaxName+1)
	good := `{"bizName":"good","bizVersion":"1","bizState":"ACTIVATED"}`
	for name, tt := range map[string]struct {
		entry string
		want  []string // modules that are expected in addition to the valid module
	}{
		"a version that is too long":      {`{"bizName":"b","bizVersion":"` + long + `"}`, nil},
		"a name that is too long":         {`{"bizName":"` + long + `","bizVersion":"1"}`, nil},
		"a character that is not printed": {`{"bizName":"b","bizVersion":"1\u0000"}`, nil},
		"a version that is a number":      {`{"bizName":"b","bizVersion":1.5}`, nil},
		"records that are not a list":     {`{"bizName":"b","bizVersion":"1","bizStateRecords":7}`, nil},
		"a context path that is too long": {`{"bizName":"b","bizVersion":"1","webContextPath":"` + long + `"}`,
			[]string{"b:1"}},
		"a record of a time before 1970": {`{"bizName":"b","bizVersion":"1","bizStateRecords":[{"changeTime":-1}]}`,
			[]string{"b:1"}},
		"a latest record with a long reason": {
			`{"bizName":"b","bizVersion":"1","latestStateRecord":{"reason":"` + long + `"}}`, []string{"b:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := DecodeBizListOutput([]byte(`{"code":"SUCCESS","data":[` + tt.entry + `,` + good + `]}`))
			if !errors.Is(err, ErrDropped) || !errors.Is(err, ErrLimit) || len(err.Error()) > 400 {
				t.Errorf("error %.500v", err)
			}
			var got []string
			for _, b := range list {
				got = append(got, b.Module().Identity())
			}
			if diff := cmp.Diff(append(tt.want, "good:1"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if list, err := DecodeBizListOutput([]byte(`{"code":"SUCCESS","data":[1,` + good + `]}`)); err == nil ||
		errors.Is(err, ErrDropped) {
		t.Errorf("a list of numbers: %v, error %v", list, err)
	}
}

// TestRootCause checks that RootCause returns the last cause of a stack trace.
func TestRootCause(t *testing.T) {
	for trace, want := range map[string]string{
		"": "", "java.io.IOException: x\n\tat a.b": "",
		"a.Z\nCaused by: a.B: first\n\tat c.d\nCaused by: e.F: last\n\t... 3 more": "e.F: last",
	} {
		if got := RootCause(trace); got != want {
			t.Errorf("RootCause(%q) = %q, want %q", trace, got, want)
		}
	}
}
