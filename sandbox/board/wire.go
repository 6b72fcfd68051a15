package board

import (
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/board/internal/feed"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// All times in messages are milliseconds since 1970 in UTC, and all durations are milliseconds. web/src/wire.ts
// has the same types and is generated from this file; a test compares both.

// Snapshot is the complete state at a time. It is the first message of every stream and the first line of every
// chunk of history. It replaces the tables of the page.
type Snapshot struct {
	// Seq is the number of the message. It increases by one for each message of a server.
	Seq  int64 `json:"seq"`
	Time int64 `json:"time"`
	// Epoch identifies this run of the server. If it changes, the page discards everything that it knows.
	Epoch  string `json:"epoch"`
	Tables Tables `json:"tables"`
	// Log has the newest entries, oldest first. It is empty in a chunk of history.
	Log []LogEntry `json:"log,omitempty"`
}

// Changes are the changes since the previous message. There are at most ten messages a second.
type Changes struct {
	Seq  int64 `json:"seq"`
	Time int64 `json:"time"`
	// Set has new rows, and rows that replace a row with the same key.
	Set Tables `json:"set,omitzero"`
	// Del has the keys of deleted rows, by kind.
	Del map[string][]string `json:"del,omitempty"`
	// Log has new entries, oldest first.
	Log []LogEntry `json:"log,omitempty"`
}

// Tables are rows by kind and key.
type Tables struct {
	// Board has one row, with the key "board".
	Board map[string]BoardRow `json:"board,omitempty"`
	// Base by host name.
	Base map[string]BaseRow `json:"base,omitempty"`
	// Pod of modules by UID.
	Pod map[string]PodRow `json:"pod,omitempty"`
	// Workload with modules by kind/namespace/name, the kind in lower case.
	Workload map[string]WorkloadRow `json:"workload,omitempty"`
	// Revision by the key of its workload and its name.
	Revision map[string]RevisionRow `json:"revision,omitempty"`
	// Service that selects modules by namespace/name.
	Service map[string]ServiceRow `json:"service,omitempty"`
	// Component by name: the processes of a sandbox, or the controllers of a cluster.
	Component map[string]ComponentRow `json:"component,omitempty"`
	// Fault by base/id or target/id.
	Fault map[string]FaultRow `json:"fault,omitempty"`
	// Stream of requests by group/name.
	Stream map[string]StreamRow `json:"stream,omitempty"`
	// Step of a scenario by its number.
	Step map[string]StepRow `json:"step,omitempty"`
	// Finding by code and subject.
	Finding map[string]FindingRow `json:"finding,omitempty"`
	// Notice by subject.
	Notice map[string]NoticeRow `json:"notice,omitempty"`
}

// Source is the kind of object that a board shows.
type Source string

// The sources.
const (
	SourceSandbox Source = "sandbox"
	SourceCluster Source = "cluster"
	SourceReport  Source = "report"
)

// BoardRow describes what the board shows.
type BoardRow struct {
	Source Source `json:"source"`
	// Title is the name of the sandbox, the context or the scenario.
	Title string `json:"title"`
	// Since is the start of the history.
	Since int64 `json:"since"`
	// Ended is the end of the run or the sandbox; 0 while it runs.
	Ended int64 `json:"ended,omitempty"`
	// Version of Kubernetes; empty = unknown.
	Version string `json:"version,omitempty"`
	// Verdict is the result of a run, and Reason its failure.
	Verdict string `json:"verdict,omitempty"`
	Failure string `json:"failure,omitempty"`
	// User of the session; empty = there is only one user.
	User string `json:"user,omitempty"`
	// CanWhy reports whether /api/why is available.
	CanWhy bool `json:"canWhy,omitempty"`
	// Actions that are available; none = the board is read-only.
	Actions []Action `json:"actions,omitempty"`
}

// Action is an action of the page: POST /api/actions/ID.
type Action struct {
	// ID such as fault.set. The page has texts for known IDs, and shows Title for others.
	ID string `json:"id"`
	// On is the kind of row that the action acts on; board = none.
	On    string `json:"on"`
	Title string `json:"title"`
	// When has the values of fields for which a row has the action. A missing field is false.
	When   map[string][]string `json:"when,omitempty"`
	Danger bool                `json:"danger,omitempty"`
	// Params in the order of the form. Those with From are taken from the row.
	Params []ActionParam `json:"params,omitempty"`
}

// ActionParam is a parameter of an Action. All values are strings.
type ActionParam struct {
	Name string `json:"name"`
	// From is the field of the row with the value; empty = the user enters it.
	From string `json:"from,omitempty"`
	// Choices; none = any text. Number requires a whole number.
	Choices []string `json:"choices,omitempty"`
	Number  bool     `json:"number,omitempty"`
	// Default is the value that the form offers.
	Optional bool   `json:"optional,omitempty"`
	Default  string `json:"default,omitempty"`
	// Hint is an example or an explanation, in English.
	Hint string `json:"hint,omitempty"`
}

// ActionResult is the response to a successful action. The response to a failed one is a Problem.
type ActionResult struct {
	// Message describes what was done.
	Message string `json:"message"`
	// Command is the koupsandbox or kubectl command that does the same.
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

// BaseProblem is the main problem of a running base.
type BaseProblem string

// The problems.
const (
	ProblemPressure BaseProblem = "pressure"
	ProblemModule   BaseProblem = "brokenModule"
	ProblemOther    BaseProblem = "badReason"
)

// BaseRow is a base with its Node.
type BaseRow struct {
	Name   string           `json:"name"`
	State  events.BaseState `json:"state"`
	Health Health           `json:"health"`
	// Problem is empty if there is none, or if the base is not running.
	Problem BaseProblem `json:"problem,omitempty"`
	// Reason describes all problems, the worst first.
	Reason   string `json:"reason,omitempty"`
	Identity string `json:"identity,omitempty"`
	// Zone is the topology zone of the base, or its group.
	Zone string `json:"zone,omitempty"`
	// BaseName and Version of the application. Bases with equal values should have equal modules.
	BaseName string `json:"baseName,omitempty"`
	Version  string `json:"version,omitempty"`
	IP       string `json:"ip,omitempty"`
	// Tunnel is mqtt or http.
	Tunnel string `json:"tunnel,omitempty"`
	// Node is the name of its Node; empty if it does not exist.
	Node      string           `json:"node,omitempty"`
	NodeState events.NodeState `json:"nodeState,omitempty"`
	// Cordoned reports whether the Node is unschedulable.
	Cordoned bool `json:"cordoned,omitempty"`
	// Controller that serves the base; empty if none or unknown.
	Controller string `json:"controller,omitempty"`
	// Metaspace in bytes: the limit (0 if none or unknown), and the larger of its use and the requests of Pods.
	// Pressure reports whether more than 90 % is in use.
	MetaspaceMax  int64 `json:"metaspaceMax,omitempty"`
	MetaspaceUsed int64 `json:"metaspaceUsed,omitempty"`
	Pressure      bool  `json:"pressure,omitempty"`
	// Leak is the increase of used metaspace in bytes, compared with earlier times with the same modules in the
	// same process.
	Leak    int64          `json:"leak,omitempty"`
	Modules []ModuleOnBase `json:"modules"`
	// Started is the start time of its process; 0 if unknown.
	Started int64 `json:"started,omitempty"`
}

// ModuleOnBase is a version of a module on a base.
type ModuleOnBase struct {
	Name    string             `json:"name"`
	Version string             `json:"version"`
	State   events.ModuleState `json:"state"`
	// Since is the time when the version was first reported.
	Since int64 `json:"since"`
	// Own reports whether the module was installed without a command.
	Own bool `json:"own,omitempty"`
}

// PodRow is a module Pod.
type PodRow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Workload is its key in Tables.Workload; empty = none. For a Pod of a ReplicaSet it is the Deployment.
	Workload string `json:"workload,omitempty"`
	// Revision is the Hash of its revision; empty = none.
	Revision string `json:"revision,omitempty"`
	Node     string `json:"node,omitempty"`
	// Base of the Pod; empty if it is not scheduled.
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

// The states of a rollout.
const (
	// WorkloadStuck means that Kubernetes has stopped the rollout; see WorkloadRow.Stuck.
	WorkloadStuck   WorkloadState = "stuck"
	WorkloadPaused  WorkloadState = "paused"
	WorkloadRolling WorkloadState = "rolling"
	WorkloadReady   WorkloadState = "ready"
	// WorkloadWaiting means that no rollout is in progress, but not all Pods are Ready.
	WorkloadWaiting WorkloadState = "waiting"
)

// WorkloadRow is a Deployment, DaemonSet or StatefulSet of modules.
type WorkloadRow struct {
	// Kind is deployment, daemonset or statefulset.
	Kind      string             `json:"kind"`
	Namespace string             `json:"namespace"`
	Name      string             `json:"name"`
	Modules   []events.ModuleRef `json:"modules"`
	// Desired, Updated, Ready and Available are numbers of Pods.
	Desired   int `json:"desired"`
	Updated   int `json:"updated"`
	Ready     int `json:"ready"`
	Available int `json:"available"`
	// Total is the number of Pods of all revisions, and Unavailable the number of Pods that are missing or not
	// available.
	Total       int           `json:"total"`
	Unavailable int           `json:"unavailable,omitempty"`
	State       WorkloadState `json:"state"`
	// Strategy with its limits, such as "RollingUpdate, +25% −0".
	Strategy string `json:"strategy"`
	// Partition of a StatefulSet: Pods with a lower number keep their revision.
	Partition int `json:"partition,omitempty"`
	// Revision is the number of the current template; 0 if unknown.
	Revision int `json:"revision,omitempty"`
	// Peer reports whether it requests a module on each base, and Paused whether the rollout waits for a user.
	Peer   bool `json:"peer,omitempty"`
	Paused bool `json:"paused,omitempty"`
	// Stuck is the reason why Kubernetes has stopped the rollout; otherwise empty.
	Stuck string `json:"stuck,omitempty"`
}

// RevisionRow is a current or earlier template of a workload: a ReplicaSet or a ControllerRevision.
type RevisionRow struct {
	Workload string `json:"workload"`
	// Number increases with each revision.
	Number int `json:"number"`
	// Hash is PodRow.Revision of its Pods.
	Hash    string             `json:"hash"`
	Modules []events.ModuleRef `json:"modules"`
	Created int64              `json:"created"`
}

// ServiceRow is a Service with its endpoints.
type ServiceRow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Module of its Pods; empty if unknown.
	Module string `json:"module,omitempty"`
	Ready  int    `json:"ready"`
	Total  int    `json:"total"`
	// Bases of its ready endpoints, sorted.
	Bases []string `json:"bases,omitempty"`
}

// ComponentRow is a component of a sandbox, or a module controller of a cluster.
type ComponentRow struct {
	Name  string                `json:"name"`
	State events.ComponentState `json:"state"`
	// Since is the time of its last state change.
	Since   int64  `json:"since"`
	Message string `json:"message,omitempty"`
	// PID of its process, and resident memory in bytes; 0 if unknown.
	PID int   `json:"pid,omitempty"`
	RSS int64 `json:"rss,omitempty"`
	// Bases that a module controller serves.
	Bases int `json:"bases,omitempty"`
}

// FaultRow is a fault in effect.
type FaultRow struct {
	ID     string               `json:"id"`
	Target v1alpha1.FaultTarget `json:"target"`
	// Base that the fault affects; empty if none or several.
	Base string `json:"base,omitempty"`
	// Text is the kind with its details.
	Text  string `json:"text"`
	Since int64  `json:"since"`
	// Fired is the number of times that the fault was triggered.
	Fired int `json:"fired,omitempty"`
}

// StreamRow is a stream of requests to modules. It is updated each second while it runs.
type StreamRow struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	// Route is gateway, kube-proxy or bases.
	Route string `json:"route,omitempty"`
	// Sent and Lost since the start, and Open requests without a response.
	Sent int `json:"sent"`
	Lost int `json:"lost"`
	Open int `json:"open,omitempty"`
	// Rates per second: requests, lost requests, and responses of each version.
	Rate     float64            `json:"rate"`
	LostRate float64            `json:"lostRate"`
	Versions map[string]float64 `json:"versions,omitempty"`
	// Results is the number of requests by result.
	Results map[events.RequestResult]int `json:"results,omitempty"`
	P50     float64                      `json:"p50,omitempty"`
	P99     float64                      `json:"p99,omitempty"`
	// Ended is the end of the stream; 0 while it runs.
	Ended int64 `json:"ended,omitempty"`
}

// StepRow is a step of a scenario.
type StepRow struct {
	Number  int              `json:"number"`
	Name    string           `json:"name"`
	State   events.StepState `json:"state"`
	From    int64            `json:"from"`
	To      int64            `json:"to,omitempty"`
	Message string           `json:"message,omitempty"`
}

// FindingRow is a problem that the board has detected.
type FindingRow struct {
	// Code such as KouplelessBoard.BaselineInconsistency.
	Code string `json:"code"`
	// Text describes the problem in English, and Chinese in Chinese.
	Text    string `json:"text"`
	Chinese string `json:"chinese"`
	// Advice of the Koupleless documentation.
	Advice        string `json:"advice,omitempty"`
	AdviceChinese string `json:"adviceChinese,omitempty"`
	Since         int64  `json:"since"`
	// Bases, Pods and Workloads that are affected, as keys of their tables; at most 50 each.
	Bases     []string `json:"bases,omitempty"`
	Pods      []string `json:"pods,omitempty"`
	Workloads []string `json:"workloads,omitempty"`
}

// NoticeRow reports data that the board cannot read.
type NoticeRow struct {
	// Text describes the data and the error, in English.
	Text  string `json:"text"`
	Since int64  `json:"since"`
}

// LogKind is the kind of a LogEntry.
type LogKind string

// The kinds of entries.
const (
	// LogCommand is a command that a base has answered.
	LogCommand LogKind = "command"
	LogEvent   LogKind = "event"
	LogRequest LogKind = "request"
	LogFault   LogKind = "fault"
	// LogAction is an action of a user of the board.
	LogAction LogKind = "action"
	LogStep   LogKind = "step"
	// LogBase is a change of the process or the connection of a base.
	LogBase   LogKind = "base"
	LogModule LogKind = "module"
	// LogNode is a change of a Node or its readiness.
	LogNode LogKind = "node"
	// LogComponent is a change of the process of a component.
	LogComponent LogKind = "component"
	LogFinding   LogKind = "finding"
)

// LogEntry is an event for the log of the page.
type LogEntry struct {
	// ID numbers the entries of one server.
	ID   int64   `json:"id"`
	Time int64   `json:"time"`
	Kind LogKind `json:"kind"`
	Bad  bool    `json:"bad,omitempty"`
	// Base that the entry is about, if any.
	Base string `json:"base,omitempty"`
	// Name of the command, stream, step or component; for an Event, its object as kind/name.
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Module    string `json:"module,omitempty"`
	Version   string `json:"version,omitempty"`
	// State is the new state, the result of a lost request, or the reason of an Event.
	State string `json:"state,omitempty"`
	// Code of a response or a finding; empty = success.
	Code string `json:"code,omitempty"`
	Text string `json:"text,omitempty"`
	// Took is the duration of a command, or of a request until its result.
	Took float64 `json:"took,omitempty"`
	User string  `json:"user,omitempty"`
}

// Why explains the state of an object: GET /api/why.
type Why struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Ready reports whether everything is in the desired state.
	Ready bool `json:"ready"`
	// Reason is the code of the situation, Cause its description, and Advice the fix.
	Reason string `json:"reason"`
	Cause  string `json:"cause"`
	Advice string `json:"advice,omitempty"`
	// Evidence, most important first.
	Evidence []WhyEvidence `json:"evidence"`
	// Commands show the same information on the command line.
	Commands []string `json:"commands"`
}

// WhyEvidence is a statement that supports the explanation.
type WhyEvidence struct {
	// About is the subject, such as base, conditions or events.
	About string `json:"about"`
	Text  string `json:"text"`
	// At is the time of the statement; 0 for the current state.
	At int64 `json:"at,omitempty"`
}

// History lists the chunks of history, oldest first. Only the last chunk grows.
type History struct {
	Epoch  string       `json:"epoch"`
	Chunks []feed.Chunk `json:"chunks"`
}

// Problem is the response to a failed request.
type Problem struct {
	Error string `json:"error"`
	// Code such as KouplelessBoard.OperationPlanMutualExclusion; empty = no action was requested.
	Code string `json:"code,omitempty"`
}
