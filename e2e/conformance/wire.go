package main

import (
	"encoding/json"
	"strings"
	"time"
)

// object is a JSON object.
type object = map[string]any

// The commands of the protocol (3.3, 4.4).
const (
	installBiz   = "installBiz"
	uninstallBiz = "uninstallBiz"
	switchBiz    = "switchBiz"
	queryAllBiz  = "queryAllBiz"
	health       = "health"
	baseline     = "baseline"
)

// The states of a module (protocol 5.1), as MQTT writes them.
const (
	resolved    = "RESOLVED"
	activated   = "ACTIVATED"
	deactivated = "DEACTIVATED"
	broken      = "BROKEN"
	stopped     = "STOPPED"
)

// reasons are the reasons of state records by their names over MQTT; HTTP writes the values
// (protocol 4.3).
var reasons = map[string]string{
	"CREATED": "Created", "STARTED": "Started", "INSTALL_FAILED": "Install Failed", "UN_INSTALL_FAILED": "Uninstall Failed",
	"SWITCHED": "Switched", "KILLING": "Killing", "STOPPED": "Stopped", "UNDEFINE": "Undefine",
}

// encode is JSON; what is encoded here can be.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// envelope wraps what a base sends over MQTT (protocol 3.5).
func envelope(data any, at time.Time) []byte {
	return encode(object{"data": data, "publishTimestamp": at.UnixMilli()})
}

// metadata is what a base says of itself.
func (b *base) metadata() object {
	return object{"identity": b.identity, "name": b.name, "version": b.version, "clusterName": b.cluster}
}

// heart is a heartbeat (protocol 3.6, 4.1).
func (b *base) heart() object {
	return object{"baseMetadata": b.metadata(), "localIP": b.ip, "localHostName": b.host, "port": b.port, "state": "activated"}
}

// record is a change of a module's state.
type record struct {
	at                     time.Time
	state, reason, message string
}

// biz is a module as the base has it.
type biz struct {
	name, version, url string
	records            []record
}

func (m *biz) latest() record { return m.records[len(m.records)-1] }
func (m *biz) state() string  { return m.latest().state }
func (m *biz) String() string { return m.name + ":" + m.version + " " + m.state() }

func (r record) mqtt() object {
	return object{"changeTime": r.at.UnixMilli(), "state": r.state, "reason": r.reason, "message": r.message}
}

func (r record) http() object {
	return object{"changeTime": r.at.UnixMilli(), "state": strings.ToLower(r.state), "reason": reasons[r.reason], "message": r.message}
}

// simple is a module in the list over MQTT (simpleBiz, protocol 3.6).
func (m *biz) simple() object {
	return object{"name": m.name, "version": m.version, "state": strings.ToLower(m.state()), "latestStateRecord": m.latest().mqtt()}
}

// full is a module in the list over HTTP (protocol 4.7).
func (m *biz) full() object {
	records := []object{}
	for _, r := range m.records {
		records = append(records, r.http())
	}
	return object{
		"bizName": m.name, "bizVersion": m.version, "bizState": strings.ToLower(m.state()), "bizStateRecords": records,
		"mainClass": "com.example.Main", "webContextPath": m.name,
	}
}

// info is a module in an answer to an install.
func (m *biz) info(state string) object {
	return object{"bizName": m.name, "bizVersion": m.version, "bizState": state, "identity": m.name + ":" + m.version, "webContextPath": m.name}
}

// healthData is the health of a base (protocol 7). The caller holds the base's lock.
func (b *base) healthData() object {
	state := activated
	if b.tunnel == overHTTP {
		state = strings.ToLower(state)
	}
	master := object{"bizName": b.name, "bizVersion": "1.0.0", "bizState": state, "webContextPath": "/"}
	return object{"healthData": object{
		"cpu": object{"count": 4, "type": "by hand", "total used (%)": 131749.0, "user used (%)": 9.93, "system used (%)": 6.25, "free (%)": 81.46},
		"jvm": object{
			"java version": "17.0.15", "run time(s)": time.Since(b.since).Seconds(), "max memory(M)": 885.5,
			"max non heap memory(M)":   -9.5367431640625e-7,
			"java used metaspace":      b.committed - 1<<20,
			"java committed metaspace": b.committed, "java max metaspace": b.metaspace,
		},
		"masterBizInfo": master, "bizListInfo": []object{master}, "pluginListInfo": []object{},
	}}
}

// reply is what a base answers to a command.
type reply struct {
	// none: nothing is answered.
	none bool
	// code and message are the outer ones; data is the ClientResponse. All but code may be empty.
	code, message string
	data          object
}

// output is the reply as the protocol writes it: nulls are left out.
func (r reply) output() object {
	o := object{"code": r.code}
	if r.message != "" {
		o["message"] = r.message
	}
	if r.data != nil {
		o["data"] = r.data
	}
	return o
}

// The replies of the protocol.
var silence = reply{none: true}

func success(message string, bizInfos ...object) reply {
	data := object{"code": "SUCCESS", "message": message}
	if len(bizInfos) > 0 {
		data["bizInfos"], data["elapsedSpace"] = bizInfos, 3145728
	}
	return reply{code: "SUCCESS", data: data}
}

// refused is what sofa-ark answers to a command that it does not carry out (protocol 3.6).
func refused(command, code, message string) reply {
	return reply{code: "FAILED", message: strings.TrimSuffix(command, "Biz") + " biz not success!", data: object{"code": code, "elapsedSpace": 0, "message": message}}
}

// thrown is what becomes of an exception (protocol 3.6, 6).
func thrown(exception string) reply {
	const wrapped = "com.alipay.sofa.koupleless.arklet.core.common.exception.ArkletRuntimeException: "
	return reply{code: "FAILED", message: exception, data: object{"code": "FAILED", "message": wrapped + exception + "\n\tat com.example.Main.main(Main.java:7)"}}
}

// conflict is the answer while another command for the same module runs (protocol 4.8).
func conflict(c command) reply {
	return reply{code: "FAILED", message: "FAILED:" + c.BizName + ":" + c.BizVersion + " " + c.name + " conflict, exist unfinished command(" + c.name + ") for this biz"}
}
