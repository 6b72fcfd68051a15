package fakebase

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// dialect is the message encoding of a tunnel. The tunnels encode states and reasons differently (protocol 3.5 and
// 4.3). The fields of the wire types are sorted by their JSON keys, as fastjson encodes beans.
type dialect struct {
	state  func(State) string
	reason func(Reason) string
	codes  bool // whether to add the error codes of the Koupleless documentation
	unpack bool // whether to add the fields of wireBiz with omitzero
}

func mqttDialect(codes bool) dialect {
	return dialect{
		state:  func(s State) string { return string(s) },
		reason: func(r Reason) string { return string(r) },
		codes:  codes, unpack: !codes,
	}
}

func httpDialect(codes bool) dialect {
	return dialect{state: State.Lower, reason: Reason.Text, codes: codes, unpack: !codes}
}

type wireRecord struct {
	ChangeTime int64  `json:"changeTime"`
	Message    string `json:"message"`
	Reason     string `json:"reason"`
	State      string `json:"state"`
}

// wireBiz is the biz model in the response to an install. Only a faithful base sends the fields with omitzero, which
// contain the directory of the unpacked jar and the import rules.
type wireBiz struct {
	Attributes                   struct{}     `json:"attributes"`
	BizName                      string       `json:"bizName"`
	BizState                     string       `json:"bizState"`
	BizStateRecords              []wireRecord `json:"bizStateRecords"`
	BizTempWorkDir               string       `json:"bizTempWorkDir,omitzero"`
	BizURL                       string       `json:"bizUrl,omitzero"`
	BizVersion                   string       `json:"bizVersion"`
	ClassPath                    []string     `json:"classPath,omitzero"`
	DeclaredMode                 bool         `json:"declaredMode"`
	DenyImportClasses            []string     `json:"denyImportClasses,omitzero"`
	DenyImportPackageNodes       []string     `json:"denyImportPackageNodes,omitzero"`
	DenyImportPackageStems       []string     `json:"denyImportPackageStems,omitzero"`
	DenyImportPackages           []string     `json:"denyImportPackages,omitzero"`
	DenyImportResources          []string     `json:"denyImportResources,omitzero"`
	DenyPrefixImportResourceStem []string     `json:"denyPrefixImportResourceStems,omitzero"`
	DenySuffixImportResourceStem []string     `json:"denySuffixImportResourceStems,omitzero"`
	Identity                     string       `json:"identity"`
	InjectExportPackages         []string     `json:"injectExportPackages,omitzero"`
	InjectPluginDependencies     []string     `json:"injectPluginDependencies,omitzero"`
	MainClass                    string       `json:"mainClass"`
	Priority                     int          `json:"priority"`
	WebContextPath               string       `json:"webContextPath"`
}

// unpack sets the fields that only a faithful base sends. The directory name contains the installation time.
func (w *wireBiz) unpack(b *Biz) {
	var empty = []string{}
	created := time.Time{}
	if len(b.Records) > 0 {
		created = b.Records[0].ChangeTime
	}
	stamp := strings.ReplaceAll(created.Format("20060102150405.000"), ".", "")
	w.BizTempWorkDir = fmt.Sprintf("/tmp/sofa-ark/%s-%s-%s-unpack", b.Name, b.Version, stamp)
	w.BizURL = "file:" + w.BizTempWorkDir + "/"
	w.ClassPath = []string{w.BizURL, w.BizURL + "lib"}
	w.DenyImportClasses, w.DenyImportPackageNodes, w.DenyImportPackageStems, w.DenyImportPackages = empty, empty, empty,
		empty
	w.DenyImportResources, w.DenyPrefixImportResourceStem, w.DenySuffixImportResourceStem = empty, empty, empty
	w.InjectExportPackages, w.InjectPluginDependencies = empty, empty
}

// wireListedBiz is an element of the response to queryAllBiz.
type wireListedBiz struct {
	BizName         string       `json:"bizName"`
	BizState        string       `json:"bizState"`
	BizStateRecords []wireRecord `json:"bizStateRecords"`
	BizVersion      string       `json:"bizVersion"`
	MainClass       string       `json:"mainClass"`
	WebContextPath  string       `json:"webContextPath"`
}

// wireBizInfo is an element of the module list in the response to the command health.
type wireBizInfo struct {
	BizName        string `json:"bizName"`
	BizState       string `json:"bizState"`
	BizVersion     string `json:"bizVersion"`
	WebContextPath string `json:"webContextPath"`
}

type wireClientResponse struct {
	BizInfos     []wireBiz `json:"bizInfos,omitempty"`
	Code         string    `json:"code"`
	ElapsedSpace *int64    `json:"elapsedSpace,omitempty"`
	Message      string    `json:"message"`
}

type wireBatchResponse struct {
	BizURLToResponse map[string]wireClientResponse `json:"bizUrlToResponse"`
	Code             string                        `json:"code"`
	ElapsedSpace     int64                         `json:"elapsedSpace"`
	Message          string                        `json:"message"`
}

type wireHealth struct {
	HealthData wireHealthData `json:"healthData"`
}

type wireHealthData struct {
	CPU            *cpuHealth    `json:"cpu,omitempty"`
	JVM            *jvmHealth    `json:"jvm,omitempty"`
	MasterBizInfo  *wireBizInfo  `json:"masterBizInfo,omitempty"`
	BizInfo        *wireBizInfo  `json:"bizInfo,omitempty"`
	BizListInfo    []wireBizInfo `json:"bizListInfo,omitempty"`
	PluginInfo     *plugin       `json:"pluginInfo,omitempty"`
	PluginListInfo []plugin      `json:"pluginListInfo,omitempty"`
}

type wireCommand struct {
	Desc string `json:"desc"`
	ID   string `json:"id"`
}

// wireThrowable is the wire form of a Java exception, as fastjson encodes it.
type wireThrowable struct {
	Type             string         `json:"@type"`
	Cause            *wireThrowable `json:"cause,omitempty"`
	LocalizedMessage *string        `json:"localizedMessage,omitempty"`
	Message          *string        `json:"message,omitempty"`
	StackTrace       []struct{}     `json:"stackTrace"`
}

func throwable(class, message string, cause *wireThrowable) *wireThrowable {
	return &wireThrowable{Type: class, Message: nullable(message), LocalizedMessage: nullable(message), Cause: cause,
		StackTrace: []struct{}{}}
}

type wireProcessRecord struct {
	ArkBizMeta     any            `json:"arkBizMeta"`
	ElapsedTime    int64          `json:"elapsedTime"`
	EndTime        *int64         `json:"endTime,omitempty"`
	EndTimestamp   int64          `json:"endTimestamp"`
	ErrorCode      string         `json:"errorCode,omitempty"`
	Message        string         `json:"message,omitempty"`
	RequestID      string         `json:"requestId"`
	StartTime      int64          `json:"startTime"`
	StartTimestamp int64          `json:"startTimestamp"`
	Status         string         `json:"status"`
	ThreadName     string         `json:"threadName"`
	Throwable      *wireThrowable `json:"throwable,omitempty"`
}

// render converts the data of a command result to the wire type of the tunnel.
func (d dialect) render(data any) any {
	switch v := data.(type) {
	case nil:
		return nil
	case clientResponse:
		return d.clientResponse(v)
	case batchResponse:
		out := wireBatchResponse{
			BizURLToResponse: map[string]wireClientResponse{}, Code: codeSuccess,
			ElapsedSpace: v.elapsed, Message: "batch install success",
		}
		if v.failed {
			out.Code, out.Message = codeFailed, "batch install failed"
		}
		for url, r := range v.byURL {
			out.BizURLToResponse[url] = d.clientResponse(r)
		}
		return out
	case []Biz:
		out := make([]wireListedBiz, len(v))
		for i, b := range v {
			out[i] = wireListedBiz{
				BizName: b.Name, BizVersion: b.Version, BizState: d.state(b.State),
				BizStateRecords: d.encodeRecords(b.Records), MainClass: b.MainClass, WebContextPath: b.WebContextPath,
			}
		}
		return out
	case healthData:
		return d.health(v)
	case processRecord:
		return d.process(v)
	case []wireCommand:
		return v
	default:
		panic(fmt.Sprintf("fakebase: no wire type for %T", data))
	}
}

func (d dialect) clientResponse(r clientResponse) wireClientResponse {
	out := wireClientResponse{Code: r.code, Message: r.message, ElapsedSpace: r.elapsed}
	for _, b := range r.biz {
		w := wireBiz{
			BizName: b.Name, BizVersion: b.Version, BizState: d.state(b.State),
			BizStateRecords: d.encodeRecords(b.Records), DeclaredMode: true, Identity: b.ID(),
			MainClass: b.MainClass, Priority: b.Priority, WebContextPath: b.WebContextPath,
		}
		if d.unpack {
			w.unpack(&b)
		}
		out.BizInfos = append(out.BizInfos, w)
	}
	return out
}

func (d dialect) encodeRecords(list []Record) []wireRecord {
	out := make([]wireRecord, len(list))
	for i, r := range list {
		out[i] = wireRecord{ChangeTime: r.ChangeTime.UnixMilli(), Message: r.Message,
			Reason: d.reason(r.Reason), State: d.state(r.State)}
	}
	return out
}

func (d dialect) info(b *Biz) *wireBizInfo {
	if b == nil {
		return nil
	}
	return &wireBizInfo{BizName: b.Name, BizState: d.state(b.State), BizVersion: b.Version,
		WebContextPath: b.WebContextPath}
}

func (d dialect) health(h healthData) wireHealth {
	out := wireHealthData{
		CPU: h.cpu, JVM: h.jvm, MasterBizInfo: d.info(h.master), BizInfo: d.info(h.biz),
		PluginInfo: h.plugin, PluginListInfo: h.plugins,
	}
	for i := range h.bizs {
		out.BizListInfo = append(out.BizListInfo, *d.info(&h.bizs[i]))
	}
	return wireHealth{out}
}

func (d dialect) process(r processRecord) wireProcessRecord {
	out := wireProcessRecord{
		ArkBizMeta: r.meta, RequestID: r.requestID, Status: r.status, ThreadName: r.thread,
		Message: r.message, StartTime: r.start.UnixMilli(), StartTimestamp: r.start.UnixMilli(),
	}
	if d.codes {
		out.ErrorCode = r.code
	}
	if r.thrown != nil {
		out.Throwable = throwable(r.thrown.class, r.thrown.detail, nil)
		if !r.thrown.fromArklet {
			out.Throwable = throwable(arkletException, r.thrown.String(), out.Throwable)
		}
	}
	if !r.end.IsZero() {
		end := r.end.UnixMilli()
		out.EndTime, out.EndTimestamp, out.ElapsedTime = &end, end, end-out.StartTimestamp
	}
	return out
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// encode returns JSON as fastjson encodes it, without HTML escapes and without a newline at the end.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// wireMetadata is the wire form of the Java class BaseMetadata.
type wireMetadata struct {
	ClusterName string            `json:"clusterName"`
	Identity    string            `json:"identity"`
	Labels      map[string]string `json:"labels,omitempty"` // an extension; a real base does not send it
	Name        string            `json:"name"`
	Version     string            `json:"version"`
}

// wireStatus is the wire form of the Java class BaseStatus, the heartbeat of generation C.
type wireStatus struct {
	BaseMetadata  wireMetadata `json:"baseMetadata"`
	LocalHostName string       `json:"localHostName"`
	LocalIP       string       `json:"localIP"`
	Port          int          `json:"port"`
	State         string       `json:"state"`
}

// wireOldStatus is the heartbeat payload of generations A and B.
type wireOldStatus struct {
	MasterBizInfo wireOldMaster  `json:"masterBizInfo"`
	NetworkInfo   wireOldNetwork `json:"networkInfo"`
	State         string         `json:"state"`
}

type wireOldMaster struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type wireOldNetwork struct {
	LocalHostName string `json:"localHostName"`
	LocalIP       string `json:"localIP"`
}

func (l *incarnation) metadata() wireMetadata {
	o := &l.b.opts
	return wireMetadata{ClusterName: o.ClusterName, Identity: l.identity, Labels: o.Labels, Name: o.Name,
		Version: o.Version}
}

func (l *incarnation) hostName() string { return l.b.opts.hostName(l.identity) }

func (o *Options) hostName(identity string) string {
	if o.HostName != "" {
		return o.HostName
	}
	return strings.ToLower(identity)
}

// heartbeat returns the payload of a heartbeat. port is the port of the arklet HTTP server; 0 over MQTT.
func (l *incarnation) heartbeat(port int) any {
	o := &l.b.opts
	if o.Generation.isOld() {
		return wireOldStatus{
			MasterBizInfo: wireOldMaster{Name: o.Name, Version: o.Version},
			NetworkInfo:   wireOldNetwork{LocalHostName: l.hostName(), LocalIP: o.IP},
			State:         string(StateActivated),
		}
	}
	return wireStatus{
		BaseMetadata: l.metadata(), LocalHostName: l.hostName(), LocalIP: o.IP,
		Port: port, State: StateActivated.Lower(),
	}
}

// heartbeatInterval returns the interval between the heartbeats of a tunnel.
func (o *Options) heartbeatInterval(overHTTP bool) time.Duration {
	switch {
	case o.HeartbeatInterval > 0:
		return o.scaled(o.HeartbeatInterval)
	case overHTTP:
		return o.scaled(12 * time.Second)
	case o.Generation == GenerationA:
		return o.scaled(120 * time.Second)
	default:
		return o.scaled(10 * time.Second)
	}
}
