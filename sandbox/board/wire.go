package board

import (
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/board/internal/feed"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// All times in messages are milliseconds since 1970 in UTC, and all durations are milliseconds. web/src/wire.ts
// has the same types and is generated from this file; a test compares both.

// Snapshot is the complete state at one point in time. It replaces all tables of the page. Every stream and every
// history chunk starts with a snapshot.
type Snapshot struct {
	// Seq is the sequence number of the message. The server increases it by one with each message.
	Seq  int64 `json:"seq"`
	Time int64 `json:"time"`
	// Epoch identifies one run of the server. If it changes, the page discards all data.
	Epoch  string `json:"epoch"`
	Tables Tables `json:"tables"`
	// Log lists the newest log entries, oldest first. It is empty in a history chunk.
	Log []LogEntry `json:"log,omitempty"`
}

// Changes holds the changes since the previous message. At most ten messages are sent per second.
type Changes struct {
	Seq  int64 `json:"seq"`
	Time int64 `json:"time"`
	// Set contains new rows, and rows that replace a row with the same key.
	Set Tables `json:"set,omitzero"`
	// Del lists the keys of deleted rows, by kind.
	Del map[string][]string `json:"del,omitempty"`
	// Log lists the new log entries, oldest first.
	Log []LogEntry `json:"log,omitempty"`
}

// Tables holds the rows by kind and key.
type Tables struct {
	// Board contains one row, with the key "board".
	Board map[string]BoardRow `json:"board,omitempty"`
	// Base contains bases, by host name.
	Base map[string]BaseRow `json:"base,omitempty"`
	// Pod contains module Pods, by Pod UID.
	Pod map[string]PodRow `json:"pod,omitempty"`
	// Workload contains workloads with modules, by kind/namespace/name. The kind is in lower case.
	Workload map[string]WorkloadRow `json:"workload,omitempty"`
	// Revision contains revisions, by workload key and revision name.
	Revision map[string]RevisionRow `json:"revision,omitempty"`
	// Service contains Services that select module Pods, by namespace/name.
	Service map[string]ServiceRow `json:"service,omitempty"`
	// Component contains the components of a sandbox, or the controllers of a cluster, by name.
	Component map[string]ComponentRow `json:"component,omitempty"`
	// Fault contains faults, by base/id or target/id.
	Fault map[string]FaultRow `json:"fault,omitempty"`
	// Stream contains request streams, by group/name.
	Stream map[string]StreamRow `json:"stream,omitempty"`
	// Step contains the steps of a scenario, by number.
	Step map[string]StepRow `json:"step,omitempty"`
	// Finding contains findings, by code and subject.
	Finding map[string]FindingRow `json:"finding,omitempty"`
	// Notice contains notices, by subject.
	Notice map[string]NoticeRow `json:"notice,omitempty"`
}

// Source is the kind of data source that a board shows: a sandbox, a cluster or a report.
type Source string

// The kinds of sources.
const (
	SourceSandbox Source = "sandbox"
	SourceCluster Source = "cluster"
	SourceReport  Source = "report"
)

// BoardRow describes the source that the board shows.
type BoardRow struct {
	Source Source `json:"source"`
	// Title is the name of the sandbox, the kubeconfig context or the scenario.
	Title string `json:"title"`
	// Since is the time at which the history begins.
	Since int64 `json:"since"`
	// Ended is the time at which the recorded run or the sandbox ended; 0 while it is running.
	Ended int64 `json:"ended,omitempty"`
	// Version is the Kubernetes version; empty if unknown.
	Version string `json:"version,omitempty"`
	// Verdict is the result of a recorded run. Failure is the reason why the run failed.
	Verdict string `json:"verdict,omitempty"`
	Failure string `json:"failure,omitempty"`
	// User is the user of the session; empty if the board has only one user.
	User string `json:"user,omitempty"`
	// CanWhy reports whether the page can request explanations from /api/why.
	CanWhy bool `json:"canWhy,omitempty"`
	// Actions lists the available actions. If it is empty, the board is read-only.
	Actions []Action `json:"actions,omitempty"`
}

// Action describes an action that the page offers. POST /api/actions/ID runs the action.
type Action struct {
	// ID is the action ID, such as fault.set. The page has a translated title for each known ID, and shows Title for
	// other IDs.
	ID string `json:"id"`
	// On is the kind of row to which the action applies. It is "board" if the action does not apply to a row.
	On    string `json:"on"`
	Title string `json:"title"`
	// When maps field names to required values. The action is available for rows whose fields have these values. A
	// field that is missing from the row has the value false.
	When   map[string][]string `json:"when,omitempty"`
	Danger bool                `json:"danger,omitempty"`
	// Params lists the parameters in the order of the form. The page takes the values of parameters with From from
	// the row.
	Params []ActionParam `json:"params,omitempty"`
}

// ActionParam describes a parameter of an Action. All parameter values are strings.
type ActionParam struct {
	Name string `json:"name"`
	// From is the field of the row that contains the value. If it is empty, the user enters the value.
	From string `json:"from,omitempty"`
	// Choices lists the allowed values; if it is empty, any text is allowed. Number requires a whole number.
	Choices []string `json:"choices,omitempty"`
	// ChoicesFrom is the field of the row that lists objects whose names are the choices.
	ChoicesFrom string `json:"choicesFrom,omitempty"`
	Number      bool   `json:"number,omitempty"`
	// Optional allows the user to omit the value. Default is the initial value in the form.
	Optional bool   `json:"optional,omitempty"`
	Default  string `json:"default,omitempty"`
	// Hint is an example or an explanation, in English.
	Hint string `json:"hint,omitempty"`
}

// ActionResult is the response to a successful action. The response to a failed action is a Problem.
type ActionResult struct {
	// Message describes the result of the action.
	Message string `json:"message"`
	// Command is the koupsandbox or kubectl command that has the same effect.
	Command string `json:"command,omitempty"`
}

// Health is the health of a base, a workload or a component.
type Health string

// The values of Health.
const (
	HealthGood Health = "good"
	HealthBusy Health = "busy"
	HealthWarn Health = "warn"
	HealthBad  Health = "bad"
)

// BaseProblem is the most important problem of a running base.
type BaseProblem string

// The values of BaseProblem.
const (
	ProblemPressure BaseProblem = "pressure"
	ProblemModule   BaseProblem = "brokenModule"
	ProblemOther    BaseProblem = "badReason"
)

// BaseRow describes a base and its Node.
type BaseRow struct {
	Name   string           `json:"name"`
	State  events.BaseState `json:"state"`
	Health Health           `json:"health"`
	// Problem is empty if the base has no problem or is not running.
	Problem BaseProblem `json:"problem,omitempty"`
	// Reason describes all problems of the base, most important first.
	Reason   string `json:"reason,omitempty"`
	Identity string `json:"identity,omitempty"`
	// Zone is the topology zone or the group of the base.
	Zone string `json:"zone,omitempty"`
	// BaseName and Version are the name and the version of the base application. Bases with the same name and version
	// should have the same modules.
	BaseName string `json:"baseName,omitempty"`
	Version  string `json:"version,omitempty"`
	IP       string `json:"ip,omitempty"`
	// Tunnel is the type of the tunnel: mqtt or http.
	Tunnel string `json:"tunnel,omitempty"`
	// Node is the name of the base's Node; empty if the Node does not exist.
	Node      string           `json:"node,omitempty"`
	NodeState events.NodeState `json:"nodeState,omitempty"`
	// Cordoned reports whether the Node is unschedulable.
	Cordoned bool `json:"cordoned,omitempty"`
	// Controller is the name of the controller that manages the base; empty if no controller manages it or the
	// controller is unknown.
	Controller string `json:"controller,omitempty"`
	// MetaspaceMax is the metaspace limit in bytes (0 if there is none or it is unknown). MetaspaceUsed is the
	// committed metaspace or the sum of the Pods' memory requests, whichever is larger, in bytes. Pressure reports
	// whether more than 90 % of the metaspace is in use.
	MetaspaceMax  int64 `json:"metaspaceMax,omitempty"`
	MetaspaceUsed int64 `json:"metaspaceUsed,omitempty"`
	Pressure      bool  `json:"pressure,omitempty"`
	// ReleasesLeft is the number of releases after which the base is still not under pressure, or "unlimited" if past
	// releases left no metaspace behind; empty if it is unknown.
	ReleasesLeft string `json:"releasesLeft,omitempty"`
	// Actuator is the status that /actuator/health of the base returns: UP, UNKNOWN or DOWN; empty if it is unknown.
	Actuator string         `json:"actuator,omitempty"`
	Modules  []ModuleOnBase `json:"modules"`
	// Started is the start time of the base process; 0 if unknown.
	Started int64 `json:"started,omitempty"`
}

// ModuleOnBase describes a module version on a base.
type ModuleOnBase struct {
	Name    string             `json:"name"`
	Version string             `json:"version"`
	State   events.ModuleState `json:"state"`
	// Since is the time when the module version was first reported.
	Since int64 `json:"since"`
	// Own reports whether the module is preinstalled, that is, the base installed it without a command.
	Own bool `json:"own,omitempty"`
}

// PodRow describes a module Pod.
type PodRow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Workload is the key of the Pod's workload in Tables.Workload; empty if there is none. For a Pod of a
	// ReplicaSet, the workload is the Deployment.
	Workload string `json:"workload,omitempty"`
	// Revision is the RevisionRow.Hash of the Pod's revision; empty if there is none.
	Revision string `json:"revision,omitempty"`
	Node     string `json:"node,omitempty"`
	// Base is the base on which the Pod is scheduled; empty if the Pod is not scheduled.
	Base     string             `json:"base,omitempty"`
	Modules  []events.ModuleRef `json:"modules"`
	Phase    string             `json:"phase"`
	State    events.PodStage    `json:"state"`
	Ready    bool               `json:"ready"`
	Reason   string             `json:"reason,omitempty"`
	Deleting bool               `json:"deleting,omitempty"`
	Created  int64              `json:"created"`
	// ReadySince is the time when the Pod became Ready; 0 if it is not Ready.
	ReadySince int64 `json:"readySince,omitempty"`
}

// WorkloadState is the state of the rollout of a workload.
type WorkloadState string

// The values of WorkloadState.
const (
	// WorkloadStuck means that the rollout does not progress: the condition Progressing of the Deployment is False.
	// WorkloadRow.Stuck is the reason.
	WorkloadStuck   WorkloadState = "stuck"
	WorkloadPaused  WorkloadState = "paused"
	WorkloadRolling WorkloadState = "rolling"
	WorkloadReady   WorkloadState = "ready"
	// WorkloadWaiting means that no rollout is in progress, but some Pods are not Ready.
	WorkloadWaiting WorkloadState = "waiting"
)

// WorkloadRow describes a Deployment, DaemonSet or StatefulSet whose Pods contain modules.
type WorkloadRow struct {
	// Kind is the kind of the workload: deployment, daemonset or statefulset.
	Kind      string             `json:"kind"`
	Namespace string             `json:"namespace"`
	Name      string             `json:"name"`
	Modules   []events.ModuleRef `json:"modules"`
	// Desired, Updated, Ready and Available are the numbers of desired, updated, Ready and available Pods of the
	// workload.
	Desired   int `json:"desired"`
	Updated   int `json:"updated"`
	Ready     int `json:"ready"`
	Available int `json:"available"`
	// Total is the number of Pods of the workload, in all revisions. Unavailable is the number of desired Pods that
	// are missing or not available.
	Total       int           `json:"total"`
	Unavailable int           `json:"unavailable,omitempty"`
	State       WorkloadState `json:"state"`
	// Strategy describes the rollout strategy and its limits, for example "RollingUpdate, +25% −0".
	Strategy string `json:"strategy"`
	// Partition is the partition of a StatefulSet. Pods with a lower ordinal keep their revision.
	Partition int `json:"partition,omitempty"`
	// Revision is the number of the current revision; 0 if unknown.
	Revision int `json:"revision,omitempty"`
	// Peer reports whether the workload requests its modules on each base. Paused reports whether the rollout is
	// paused until a user approves it.
	Peer   bool `json:"peer,omitempty"`
	Paused bool `json:"paused,omitempty"`
	// Stuck is the reason why the rollout does not progress; empty if the rollout is not stuck.
	Stuck string `json:"stuck,omitempty"`
}

// RevisionRow describes a current or earlier Pod template of a workload. Kubernetes stores it in a ReplicaSet or a
// ControllerRevision.
type RevisionRow struct {
	Workload string `json:"workload"`
	// Number is the revision number. It increases with each revision.
	Number int `json:"number"`
	// Hash identifies the Pods of this revision: it is the value of PodRow.Revision.
	Hash    string             `json:"hash"`
	Modules []events.ModuleRef `json:"modules"`
	Created int64              `json:"created"`
}

// ServiceRow describes a Service and its endpoints.
type ServiceRow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Module is the name of the module in the Pods that the Service selects; empty if unknown.
	Module string `json:"module,omitempty"`
	Ready  int    `json:"ready"`
	Total  int    `json:"total"`
	// Bases lists the bases that have ready endpoints, sorted.
	Bases []string `json:"bases,omitempty"`
}

// ComponentRow describes a component of a sandbox, or a module controller of a cluster.
type ComponentRow struct {
	Name  string                `json:"name"`
	State events.ComponentState `json:"state"`
	// Since is the time of the last state change of the component.
	Since   int64  `json:"since"`
	Message string `json:"message,omitempty"`
	// PID is the process ID. RSS is the resident memory of the process in bytes. Both are 0 if unknown.
	PID int   `json:"pid,omitempty"`
	RSS int64 `json:"rss,omitempty"`
	// Bases is the number of bases that a module controller manages.
	Bases int `json:"bases,omitempty"`
}

// FaultRow describes a fault that is in effect.
type FaultRow struct {
	ID     string               `json:"id"`
	Target v1alpha1.FaultTarget `json:"target"`
	// Base is the base that the fault affects; empty if the fault affects no base or several bases.
	Base string `json:"base,omitempty"`
	// Text describes the fault, including its kind and settings.
	Text  string `json:"text"`
	Since int64  `json:"since"`
	// Fired is the number of times that the fault has been triggered.
	Fired int `json:"fired,omitempty"`
}

// StreamRow describes a stream of requests to modules. It is updated every second while the stream runs.
type StreamRow struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	// Route is the route of the requests to the modules: gateway, kube-proxy or bases.
	Route string `json:"route,omitempty"`
	// Sent and Lost count the sent and the lost requests since the start of the stream. Open is the number of
	// requests that are waiting for a response.
	Sent int `json:"sent"`
	Lost int `json:"lost"`
	Open int `json:"open,omitempty"`
	// Rate is the number of requests per second. LostRate is the number of lost requests per second. Versions is the
	// number of responses per second from each module version.
	Rate     float64            `json:"rate"`
	LostRate float64            `json:"lostRate"`
	Versions map[string]float64 `json:"versions,omitempty"`
	// Results counts the requests by result.
	Results map[events.RequestResult]int `json:"results,omitempty"`
	P50     float64                      `json:"p50,omitempty"`
	P99     float64                      `json:"p99,omitempty"`
	// Ended is the time at which the stream ended; 0 if it is running.
	Ended int64 `json:"ended,omitempty"`
}

// StepRow describes a step of a scenario.
type StepRow struct {
	Number  int              `json:"number"`
	Name    string           `json:"name"`
	State   events.StepState `json:"state"`
	From    int64            `json:"from"`
	To      int64            `json:"to,omitempty"`
	Message string           `json:"message,omitempty"`
}

// FindingRow describes a problem that the board has detected.
type FindingRow struct {
	// Code is an error code of the Koupleless documentation, such as KouplelessBoard.BaselineInconsistency, or
	// RequestsLost or ComponentNotRunning.
	Code string `json:"code"`
	// Text describes the problem in English. Chinese describes it in Chinese.
	Text    string `json:"text"`
	Chinese string `json:"chinese"`
	// Advice is the recommendation from the Koupleless documentation.
	Advice        string `json:"advice,omitempty"`
	AdviceChinese string `json:"adviceChinese,omitempty"`
	Since         int64  `json:"since"`
	// Bases, Pods and Workloads list the keys of the affected bases, Pods and workloads, at most 50 each.
	Bases     []string `json:"bases,omitempty"`
	Pods      []string `json:"pods,omitempty"`
	Workloads []string `json:"workloads,omitempty"`
}

// NoticeRow describes data that the board currently cannot read.
type NoticeRow struct {
	// Text describes the missing data and the error, in English.
	Text  string `json:"text"`
	Since int64  `json:"since"`
}

// LogKind is the kind of a LogEntry.
type LogKind string

// The values of LogKind.
const (
	// LogCommand is a command to which a base has responded.
	LogCommand LogKind = "command"
	LogEvent   LogKind = "event"
	LogRequest LogKind = "request"
	LogFault   LogKind = "fault"
	// LogAction is an action that a user requested in the board.
	LogAction LogKind = "action"
	LogStep   LogKind = "step"
	// LogBase is a state change of a base process or its connection.
	LogBase   LogKind = "base"
	LogModule LogKind = "module"
	// LogNode is a change of a Node or of its readiness.
	LogNode LogKind = "node"
	// LogComponent is a change of a component process.
	LogComponent LogKind = "component"
	LogFinding   LogKind = "finding"
)

// LogEntry is an entry in the log that the page shows.
type LogEntry struct {
	// ID is the number of the entry. It is unique within one run of the server.
	ID   int64   `json:"id"`
	Time int64   `json:"time"`
	Kind LogKind `json:"kind"`
	Bad  bool    `json:"bad,omitempty"`
	// Base is the name of the base to which the entry refers; empty if there is none.
	Base string `json:"base,omitempty"`
	// Name is the name of the command, stream, step or component. For a Kubernetes Event, it is the object of the
	// Event in the form kind/name.
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Module    string `json:"module,omitempty"`
	Version   string `json:"version,omitempty"`
	// State is the new state, the result of a lost request, or the reason of a Kubernetes Event.
	State string `json:"state,omitempty"`
	// Code is the error code of a response, or the code of a finding; empty if the command succeeded.
	Code string `json:"code,omitempty"`
	Text string `json:"text,omitempty"`
	// Took is how long a command took, or the time from the start of a request to its result.
	Took float64 `json:"took,omitempty"`
	User string  `json:"user,omitempty"`
}

// Why explains the state of an object. It is the response to GET /api/why.
type Why struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Ready reports whether the object is in the desired state.
	Ready bool `json:"ready"`
	// Reason is the code of the state. Cause describes the cause, and Advice describes the fix.
	Reason string `json:"reason"`
	Cause  string `json:"cause"`
	Advice string `json:"advice,omitempty"`
	// Evidence lists the statements that support the explanation, most important first.
	Evidence []WhyEvidence `json:"evidence"`
	// Commands lists the commands that show the same information on the command line.
	Commands []string `json:"commands"`
}

// WhyEvidence is one statement that supports an explanation.
type WhyEvidence struct {
	// About is the subject of the statement, such as base, conditions or events.
	About string `json:"about"`
	Text  string `json:"text"`
	// At is the time at which the statement was true; 0 for the current time.
	At int64 `json:"at,omitempty"`
}

// History lists the history chunks, oldest first. Only the last chunk grows.
type History struct {
	Epoch  string       `json:"epoch"`
	Chunks []feed.Chunk `json:"chunks"`
}

// Problem is the response to a failed request.
type Problem struct {
	Error string `json:"error"`
	// Code is an error code, such as KouplelessBoard.OperationPlanMutualExclusion; empty if the failed request was
	// not an action.
	Code string `json:"code,omitempty"`
}
