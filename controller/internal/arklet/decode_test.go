package arklet

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The messages are written by hand from the protocol, not with an encoder.

func TestDecodeHeartbeat(t *testing.T) {
	cases := []struct {
		name, data string
		want       Heartbeat
		wantErr    string
	}{
		{
			"generation C over MQTT",
			`{"baseMetadata":{"clusterName":"default","identity":"10.1.2.3","name":"base","version":"1.0.0"},"localHostName":"base-76d79d8599-f64jt","localIP":"10.1.2.3","port":0,"state":"activated"}`,
			Heartbeat{Identity: "10.1.2.3", Name: "base", Version: "1.0.0", Cluster: "default", IP: "10.1.2.3",
				HostName: "base-76d79d8599-f64jt", Active: true},
			"",
		},
		{
			"generation C over HTTP names its port",
			`{"baseMetadata":{"clusterName":"default","identity":"10.1.2.3","name":"TO_BE_IMPLEMENTED","version":"1.0.0"},"localHostName":"base-0","localIP":"10.1.2.3","port":1238,"state":"activated"}`,
			Heartbeat{Identity: "10.1.2.3", Name: "TO_BE_IMPLEMENTED", Version: "1.0.0", Cluster: "default",
				IP: "10.1.2.3", HostName: "base-0", Port: 1238, Active: true},
			"",
		},
		{
			"generation B writes its state in upper case and no identity",
			`{"masterBizInfo":{"name":"base","version":"1.1.1"},"networkInfo":{"localIP":"10.0.0.9","localHostName":"b9"},"state":"ACTIVATED"}`,
			Heartbeat{Name: "base", Version: "1.1.1", IP: "10.0.0.9", HostName: "b9", Active: true},
			"",
		},
		{
			"generation 1.3.0 has the state in masterBizInfo",
			`{"masterBizInfo":{"bizName":"base","bizState":"DEACTIVATED","bizVersion":"1.0.0","webContextPath":"/"},"networkInfo":{"localIP":"10.0.0.9","localHostName":"b9"}}`,
			Heartbeat{Name: "base", Version: "1.0.0", IP: "10.0.0.9", HostName: "b9", Active: false},
			"",
		},
		{"a base that is going", `{"baseMetadata":{"identity":"a"},"state":"deactivated"}`, Heartbeat{Identity: "a"},
			""},
		{"no metadata at all", `{"state":"activated"}`, Heartbeat{}, "neither baseMetadata nor masterBizInfo"},
		{"an empty identity", `{"baseMetadata":{"name":"x"}}`, Heartbeat{}, "has no identity"},
		{"a port out of range", `{"baseMetadata":{"identity":"a"},"port":70000}`, Heartbeat{}, "port 70000"},
		{"a wrong type", `{"baseMetadata":7}`, Heartbeat{}, "decoding"},
		{"no JSON", `<html>`, Heartbeat{}, "decoding"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeHeartbeat([]byte(c.data))
			checkErr(t, err, c.wantErr)
			if c.wantErr != "" {
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("heartbeat (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeEnvelope(t *testing.T) {
	e, err := DecodeEnvelope([]byte(`{"data":{"a":1},"publishTimestamp":1732096800000}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Envelope{Data: []byte(`{"a":1}`), PublishTimestamp: 1732096800000}, e); diff != "" {
		t.Errorf("envelope (-want +got):\n%s", diff)
	}
	for payload, want := range map[string]string{
		"":                           "decoding",
		"null":                       "has no data",
		`{"publishTimestamp":1}`:     "has no data",
		`{"data":null}`:              "has no data",
		`{"data":{},"publishTimest`:  "decoding",
		`{"publishTimestamp":"now"}`: "decoding",
	} {
		_, err := DecodeEnvelope([]byte(payload))
		checkErr(t, err, want)
	}
	if _, err := DecodeEnvelope(make([]byte, MaxPayload+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error for an oversized payload: %v, want ErrTooLarge", err)
	}
}

func TestDecodeBizLists(t *testing.T) {
	at := time.UnixMilli(1732096700123)
	cases := []struct {
		name   string
		decode func([]byte) ([]Biz, error)
		data   string
		want   []Biz
	}{
		{
			"simpleBiz writes states in both cases",
			DecodeSimpleBiz,
			`[{"latestStateRecord":{"changeTime":1732096700123,"message":"","reason":"STARTED","state":"ACTIVATED"},"name":"biz1","state":"activated","version":"0.0.1-SNAPSHOT"},{"latestStateRecord":null,"name":"biz2","state":"resolved","version":"1"}]`,
			[]Biz{
				{Name: "biz1", Version: "0.0.1-SNAPSHOT", State: StateActivated,
					Latest: Record{At: at, State: StateActivated, Reason: "STARTED"}},
				{Name: "biz2", Version: "1", State: StateResolved},
			},
		},
		{"an empty base", DecodeSimpleBiz, `[]`, []Biz{}},
		{
			"HTTP spells reasons in words and may list the base itself",
			DecodeBizListOutput,
			`{"baseIdentity":"10.1.2.3","code":"SUCCESS","data":[{"bizName":"biz1","bizState":"broken","bizStateRecords":[{"changeTime":1732096700000,"message":"","reason":"Created","state":"resolved"},{"changeTime":1732096700123,"message":"boom","reason":"Install Failed","state":"broken"}],"bizVersion":"2","mainClass":"com.x.Biz1Application","webContextPath":"biz1"},{"bizName":"base","bizState":"activated","bizVersion":"1.0.0","mainClass":"embed main","webContextPath":"/"}]}`,
			[]Biz{{
				Name: "biz1", Version: "2", State: StateBroken, WebContextPath: "biz1",
				Latest: Record{At: at, State: StateBroken, Reason: "INSTALL_FAILED", Message: "boom"},
				Records: []Record{
					{At: time.UnixMilli(1732096700000), State: StateResolved, Reason: "CREATED"},
					{At: at, State: StateBroken, Reason: "INSTALL_FAILED", Message: "boom"},
				},
			}},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.decode([]byte(c.data))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
		})
	}
	_, err := DecodeBizListOutput([]byte(`{"code":"FAILED","message":"no"}`))
	checkErr(t, err, "FAILED")
}

func TestDecodeAnswers(t *testing.T) {
	cases := []struct {
		name, data                    string
		want                          Answer
		succeeded, repeated, notThere bool
	}{
		{
			"success",
			`{"bizName":"biz1","bizVersion":"0.0.1-SNAPSHOT","command":"installBiz","response":{"code":"SUCCESS","data":{"bizInfos":[{"attributes":{},"bizName":"biz1","bizState":"ACTIVATED"}],"code":"SUCCESS","elapsedSpace":3145728,"message":"Install Biz: biz1:0.0.1-SNAPSHOT success, cost: 5123 ms, started at: 10:15:30,123"}}}`,
			Answer{Command: CommandInstallBiz, Module: Module{Name: "biz1", Version: "0.0.1-SNAPSHOT"}, Code: "SUCCESS",
				DataCode:    "SUCCESS",
				DataMessage: "Install Biz: biz1:0.0.1-SNAPSHOT success, cost: 5123 ms, started at: 10:15:30,123"},
			true, false, false,
		},
		{
			"refused as a duplicate",
			`{"bizName":"biz1","bizVersion":"1.0.0","command":"installBiz","response":{"code":"FAILED","data":{"code":"REPEAT_BIZ","elapsedSpace":0,"message":"Biz: biz1:1.0.0 has been installed or registered."},"message":"install biz not success!"}}`,
			Answer{Command: CommandInstallBiz, Module: Module{Name: "biz1", Version: "1.0.0"}, Code: "FAILED",
				Message: "install biz not success!", DataCode: "REPEAT_BIZ",
				DataMessage: "Biz: biz1:1.0.0 has been installed or registered."},
			false, true, false,
		},
		{
			"nothing to uninstall, with the proposed error code",
			`{"bizName":"biz1","bizVersion":"1.0.0","command":"uninstallBiz","response":{"code":"FAILED","errorCode":"Arklet.NoMatchedBiz","data":{"code":"NOT_FOUND_BIZ","message":"Uninstall biz: biz1:1.0.0 not found."},"message":"uninstall biz not success!"}}`,
			Answer{Command: CommandUninstallBiz, Module: Module{Name: "biz1", Version: "1.0.0"}, Code: "FAILED",
				Message: "uninstall biz not success!", DataCode: "NOT_FOUND_BIZ",
				DataMessage: "Uninstall biz: biz1:1.0.0 not found.", ErrorCode: "Arklet.NoMatchedBiz"},
			false, false, true,
		},
		{
			"a conflict has no data",
			`{"bizName":"biz1","bizVersion":"1.0.0","command":"installBiz","response":{"code":"FAILED","message":"FAILED:biz1:1.0.0 installBiz conflict, exist unfinished command(installBiz) for this biz"}}`,
			Answer{Command: CommandInstallBiz, Module: Module{Name: "biz1", Version: "1.0.0"}, Code: "FAILED",
				Message: "FAILED:biz1:1.0.0 installBiz conflict, exist unfinished command(installBiz) for this biz"},
			false, false, false,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeBizOperation([]byte(c.data))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if got.Succeeded() != c.succeeded || got.AlreadyInstalled() != c.repeated ||
				got.NotInstalled() != c.notThere {
				t.Errorf("Succeeded, AlreadyInstalled, NotInstalled = %t, %t, %t", got.Succeeded(),
					got.AlreadyInstalled(), got.NotInstalled())
			}
		})
	}
	_, err := DecodeBizOperation([]byte(`{"command":"installBiz"}`))
	checkErr(t, err, "has no code")
}

func TestDecodeBatchInstall(t *testing.T) {
	got, err := DecodeBatchInstall(
		[]byte(`{"command":"batchInstallBiz","response":{"code":"FAILED","data":{"bizUrlToResponse":{"file:///m/biz1.jar":{"bizInfos":[{"bizName":"biz1"}],"code":"SUCCESS","message":"ok"},"file:///m/biz2.jar":{"code":"REPEAT_BIZ","message":"Biz: biz2:1.0.0 has been installed or registered."}},"code":"FAILED","elapsedSpace":1048576,"message":"batch install failed"},"message":"install biz not success!"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := BatchResult{
		Answer: Answer{Command: CommandBatchInstallBiz, Code: "FAILED", Message: "install biz not success!",
			DataCode: "FAILED", DataMessage: "batch install failed"},
		Failed: map[string]Answer{
			"file:///m/biz2.jar": {Code: "FAILED", DataCode: "REPEAT_BIZ",
				DataMessage: "Biz: biz2:1.0.0 has been installed or registered.",
				Module:      Module{URL: "file:///m/biz2.jar"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("batch (-want +got):\n%s", diff)
	}
}

func TestDecodeHealth(t *testing.T) {
	cases := []struct {
		name, data string
		want       Health
		wantErr    string
	}{
		{
			"the document over MQTT",
			`{"code":"SUCCESS","data":{"healthData":{"cpu":{"count":4},"jvm":{"max non heap memory(M)":-9.5367431640625E-7,"run time(s)":34.432,"java used metaspace":55574528,"java committed metaspace":58589184,"java max metaspace":268435456},"masterBizInfo":{"bizName":"base","bizState":"ACTIVATED","bizVersion":"1.0.0","webContextPath":"/"}}}}`,
			Health{CPUs: 4, MetaspaceUsed: 55574528, MetaspaceCommitted: 58589184, MetaspaceMax: 268435456,
				RunTime: 34432 * time.Millisecond, State: StateActivated},
			"",
		},
		{
			"no limit, and a pool that the JVM does not report",
			`{"code":"SUCCESS","data":{"healthData":{"jvm":{"run time(s)":1,"java used metaspace":7,"java max metaspace":-1}}}}`,
			Health{MetaspaceUsed: 7, MetaspaceCommitted: Unlimited, MetaspaceMax: Unlimited, RunTime: time.Second,
				State: StateUnresolved},
			"",
		},
		{"a refusal", `{"code":"FAILED","message":"can not find biz: x"}`, Health{}, "can not find biz: x"},
		{"no jvm", `{"code":"SUCCESS","data":{"healthData":{}}}`, Health{}, "has no jvm field"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeHealth([]byte(c.data))
			checkErr(t, err, c.wantErr)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("health (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestBodies(t *testing.T) {
	m := Module{Name: "biz1", Version: "1.0.0", URL: "file:///m/biz1.jar"}
	for want, r := range map[string]Request{
		`{"bizName":"biz1","bizVersion":"1.0.0","bizUrl":"file:///m/biz1.jar"}`: {Command: CommandInstallBiz,
			Module: m},
		`{"bizName":"biz1","bizVersion":"1.0.0","bizUrl":"file:///m/biz1.jar","installStrategy":"uninstallThenInstall"}`: {
			Command: CommandInstallBiz, Module: m, UninstallFirst: true},
		`{"bizName":"biz1","bizVersion":"1.0.0"}`: {Command: CommandUninstallBiz, Module: m, UninstallFirst: true},
		`{}`: {Command: CommandHealth},
	} {
		body, err := r.Body()
		if err != nil || string(body) != want {
			t.Errorf("%s: body %s, error %v, want %s", r.Command, body, err, want)
		}
	}
	if body, err := BaselineBody(nil); err != nil || string(body) != "[]" {
		t.Errorf("body of an empty baseline: %s, error %v, want []", body, err)
	}
}

func checkErr(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Fatalf("unexpected error: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Fatalf("error %v, want an error with %q", err, want)
	}
}
