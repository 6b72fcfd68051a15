package recording_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

func TestNormal(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"times", `{"publishTimestamp":1732096800000,"endTimestamp":0}`, `{"publishTimestamp":1,"endTimestamp":0}`},
		{"sizes", `{"elapsedSpace":-12,"java max metaspace":268435456,"free (%)":-1.2E-7}`, `{"elapsedSpace":1,"java max metaspace":1,"free (%)":1}`},
		{"durations", `cost: 812 ms, started at: 10:15:30,123`, `cost: 1 ms, started at: 00:00:00,000`},
		{"folders", `"/tmp/sofa-ark/plain-1.0.0-20261120150439221-unpack"`, `"{temp}/plain-1.0.0-1-unpack"`},
		{"stack frames, but no causes", `"a.E: \"x\"\n\tat a.b(C.java:1)\n\tat c.d(E.java)\nCaused by: a.F\n\t... 3 more\n"`, `"a.E: \"x\"\nCaused by: a.F\n"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, recording.Normal(c.in)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name, real, fake string
		want             []recording.Difference
	}{
		{"the same, in another order", `{"a":1,"b":[{"id":"x"},{"id":"y"}]}`, `{"b":[{"id":"y"},{"id":"x"}],"a":1}`, nil},
		{"values", `{"a":{"b":1}}`, `{"a":{"b":"1"}}`, []recording.Difference{{Path: "$.a.b", Real: "1", Fake: `"1"`}}},
		{"fields", `{"a":1}`, `{"b":2}`, []recording.Difference{{Path: "$.a", Real: "1", Fake: "absent"}, {Path: "$.b", Real: "absent", Fake: "2"}}},
		{"an element", `[{"v":1},{"v":2}]`, `[{"v":1},{"v":3}]`, []recording.Difference{{Path: "$[1].v", Real: "2", Fake: "3"}}},
		{"lengths", `[]`, `[1]`, []recording.Difference{{Path: "$", Real: "[]", Fake: "[1]"}}},
		{"no JSON", `x`, `{}`, []recording.Difference{{Path: "$", Real: "x", Fake: "{}"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, recording.ComparePayload(c.real, c.fake)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	t.Run("heads", func(t *testing.T) {
		got := recording.CompareHTTP("HTTP/1.1 200 OK\r\n\r\n{}", "HTTP/1.1 404 Not Found\r\n\r\n{}")
		if d := cmp.Diff([]recording.Difference{{Path: "head", Real: "HTTP/1.1 200 OK", Fake: "HTTP/1.1 404 Not Found"}}, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	t.Run("topics", func(t *testing.T) {
		got := recording.CompareMessages([]recording.Message{{Topic: "base/health", Payload: "{}"}}, nil)
		if d := cmp.Diff([]recording.Difference{{Path: "topics", Real: "base/health", Fake: "absent"}}, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

func TestSaveAndLoad(t *testing.T) {
	folder := t.TempDir()
	want := recording.Recording{
		Condition: "c", Tunnel: recording.MQTT, Base: recording.Settings{Activation: "new"},
		Jars:      map[string]recording.Manifest{"x.jar": {"Ark-Biz-Name": "x"}, "no.jar": nil},
		Exchanges: []recording.Exchange{{Command: "health", Body: "<{}>", Messages: []recording.Message{{Topic: "base/health", Payload: "{}"}}}},
	}
	if err := want.Save(folder, "one"); err != nil {
		t.Fatal(err)
	}
	names, all, err := recording.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]recording.Recording{"mqtt/one": want}, all); d != "" || len(names) != 1 {
		t.Errorf("%v (-want +got):\n%s", names, d)
	}
}
