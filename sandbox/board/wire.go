package board

import (
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// All times on the wire are milliseconds since 1970, in UTC; all durations are milliseconds.
// web/src/wire.ts has the same types and is written from this file; a test holds the two together.

// Snapshot is everything that there is at a moment. It is the first message of every stream, also of
// one that was connected again, and the first line of every chunk of history: the page throws its
// tables away and takes these.
type Snapshot struct {
	// Seq numbers the messages of one server: the Changes that follow have Seq+1 and so on.
	Seq int64 `json:"seq"`
	// Time at which it was so.
	Time int64 `json:"time"`
	// Epoch names this run of the server. With another one than before, everything that the page knows
	// is of the past of another server, and is thrown away.
	Epoch  string `json:"epoch"`
	Tables Tables `json:"tables"`
	// Log has the newest entries, the oldest first, in a stream; nothing in a chunk of history.
	Log []LogEntry `json:"log,omitempty"`
}

// Changes are what has changed since the message before: at most ten a second.
type Changes struct {
	Seq  int64 `json:"seq"`
	Time int64 `json:"time"`
	// Set has new rows and such that take the place of the row of the same key, whole.
	Set Tables `json:"set,omitzero"`
	// Del has the keys of rows that are gone, by kind.
	Del map[string][]string `json:"del,omitempty"`
	// Log has new entries, the oldest first.
	Log []LogEntry `json:"log,omitempty"`
}

// Tables are rows by kind and key.
type Tables struct {
	// Board has one row, with the key "board": what is looked at, and what the page may do.
	Board map[string]BoardRow `json:"board,omitempty"`
	// Base by host name. A base that was removed has no row.
	Base map[string]BaseRow `json:"base,omitempty"`
	// Pod by UID: the Pods of modules.
	Pod map[string]PodRow `json:"pod,omitempty"`
	// Workload by kind/namespace/name, the kind in lower case: those whose Pods have modules.
	Workload map[string]WorkloadRow `json:"workload,omitempty"`
	// Revision by the key of its workload and its name: the templates that workloads have had.
	Revision map[string]RevisionRow `json:"revision,omitempty"`
	// Service by namespace/name: those that select modules.
	Service map[string]ServiceRow `json:"service,omitempty"`
	// Component by name: the processes of a sandbox; the controllers of a cluster, by their Leases.
	Component map[string]ComponentRow `json:"component,omitempty"`
	// Fault by base/id; a rule that disturbs the view of the Kubernetes API is api/id.
	Fault map[string]FaultRow `json:"fault,omitempty"`
	// Stream by group/name: streams of requests.
	Stream map[string]StreamRow `json:"stream,omitempty"`
	// Step by its number in the run: the steps of a scenario.
	Step map[string]StepRow `json:"step,omitempty"`
	// Finding by code and what it is about: what the board itself finds wrong.
	Finding map[string]FindingRow `json:"finding,omitempty"`
	// Notice by what it is about: what the board cannot see, and why.
	Notice map[string]NoticeRow `json:"notice,omitempty"`
}

// Source is what a board looks at.
type Source string

// The sources.
const (
	SourceSandbox Source = "sandbox"
	SourceCluster Source = "cluster"
	SourceReport  Source = "report"
)

// BoardRow says what is looked at.
type BoardRow struct {
	Source Source `json:"source"`
	// Title is the name of the sandbox, the context or the scenario.
	Title string `json:"title"`
	// Since is when the board began to look, or the run began. Nothing before can be shown.
	Since int64 `json:"since"`
	// Ended is when the run or the sandbox ended; 0 = it goes on.
	Ended int64 `json:"ended,omitempty"`
	// Version of Kubernetes; empty = not known.
	Version string `json:"version,omitempty"`
	// Verdict of a run, with why it failed.
	Verdict string `json:"verdict,omitempty"`
	Failure string `json:"failure,omitempty"`
	// User that the page acts as; empty where there is only one.
	User string `json:"user,omitempty"`
	// CanWhy tells whether /api/why answers.
	CanWhy bool `json:"canWhy,omitempty"`
	// Actions that work here; none = the board only looks.
	Actions []Action `json:"actions,omitempty"`
}

// Action is something that the page may do: POST /api/actions/ID.
type Action struct {
	// ID such as fault.set, fault.clear, component.kill, traffic.start, scale. The page has words for
	// those that it knows, and shows Title for others.
	ID string `json:"id"`
	// On is the kind of row that it acts on, in whose details it is offered: base, component, ...;
	// board = none.
	On string `json:"on"`
	// Title in English, a few words.
	Title string `json:"title"`
	// When has fields of the row with the values for which it is offered; false is also what a row lacks.
	When map[string][]string `json:"when,omitempty"`
	// Danger tells that it ends or disturbs something.
	Danger bool `json:"danger,omitempty"`
	// Params in the order in which they are asked for. Those with From are taken from the row.
	Params []ActionParam `json:"params,omitempty"`
}

// ActionParam is a parameter of an Action. All values are strings.
type ActionParam struct {
	Name string `json:"name"`
	// From is the field of the row that has the value, such as name; empty = it is asked for.
	From string `json:"from,omitempty"`
	// Choices; none = any text. Number tells that it is a whole number.
	Choices []string `json:"choices,omitempty"`
	Number  bool     `json:"number,omitempty"`
	// Optional tells that it may be left empty; Default is what is offered.
	Optional bool   `json:"optional,omitempty"`
	Default  string `json:"default,omitempty"`
	// Hint in English: an example or what it means.
	Hint string `json:"hint,omitempty"`
}

// ActionResult is the answer to an action that was done; what was not done is an error.
type ActionResult struct {
	// Message says in a sentence what was done.
	Message string `json:"message"`
	// Command is the koupsandbox or kubectl command that does the same.
	Command string `json:"command,omitempty"`
}

// Health is the health of a base, a workload or a component.
type Health string

// The healths.
const (
	HealthGood Health = "good"
	// HealthBusy: it is changing.
	HealthBusy Health = "busy"
	HealthWarn Health = "warn"
	HealthBad  Health = "bad"
)

// BaseProblem is the main problem of a base that runs.
type BaseProblem string

// The problems.
const (
	ProblemPressure BaseProblem = "pressure"
	// ProblemModule: a module is broken.
	ProblemModule BaseProblem = "brokenModule"
	// ProblemOther: BaseRow.Reason describes it.
	ProblemOther BaseProblem = "badReason"
)

// BaseRow is a base with its Node.
type BaseRow struct {
	// Name is its host name.
	Name   string           `json:"name"`
	State  events.BaseState `json:"state"`
	Health Health           `json:"health"`
	// Problem is empty if there is none, or if the base does not run.
	Problem BaseProblem `json:"problem,omitempty"`
	// Reason describes all problems, the worst first.
	Reason string `json:"reason,omitempty"`
	// Identity of its process.
	Identity string `json:"identity,omitempty"`
	// Zone in which it is drawn: its topology zone, or the group of bases that it belongs to.
	Zone string `json:"zone,omitempty"`
	// BaseName and Version of the application that it is; bases with the same are to be equal.
	BaseName string `json:"baseName,omitempty"`
	Version  string `json:"version,omitempty"`
	IP       string `json:"ip,omitempty"`
	// Tunnel is mqtt or http.
	Tunnel string `json:"tunnel,omitempty"`
	// Node is the name of its Node; empty = there is none. NodeState is Ready, NotReady or Unknown.
	Node      string           `json:"node,omitempty"`
	NodeState events.NodeState `json:"nodeState,omitempty"`
	// Cordoned tells that no Pod is to come.
	Cordoned bool `json:"cordoned,omitempty"`
	// Controller that serves it; empty = none, or not known.
	Controller string `json:"controller,omitempty"`
	// Metaspace in bytes: its limit (0 = none, or not known), and what is in use or requested by the
	// Pods on the base, whichever is more. Pressure tells that more than nine tenths are in use.
	MetaspaceMax  int64 `json:"metaspaceMax,omitempty"`
	MetaspaceUsed int64 `json:"metaspaceUsed,omitempty"`
	Pressure      bool  `json:"pressure,omitempty"`
	// Leak is how many bytes more are in use than when the same modules were on it before, since its
	// process started: what releases have left behind.
	Leak int64 `json:"leak,omitempty"`
	// Modules that are on it, by name and version.
	Modules []ModuleOnBase `json:"modules"`
	// Started is when its process started, or was first seen.
	Started int64 `json:"started,omitempty"`
}

// ModuleOnBase is a version of a module that is on a base.
type ModuleOnBase struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// State as arklet spells it: RESOLVED (is being installed), ACTIVATED (serves), DEACTIVATED,
	// BROKEN.
	State events.ModuleState `json:"state"`
	// Since is when the version came to the base.
	Since int64 `json:"since"`
	// Own tells that no command brought it.
	Own bool `json:"own,omitempty"`
}

// PodRow is a Pod of modules.
type PodRow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Workload is its key in the table of workloads; empty for a bare Pod. A Pod of a ReplicaSet names
	// the Deployment.
	Workload string `json:"workload,omitempty"`
	// Revision is the Hash of the revision that it was made of; empty for a bare Pod.
	Revision string `json:"revision,omitempty"`
	Node     string `json:"node,omitempty"`
	// Base that it is on; empty = none so far.
	Base string `json:"base,omitempty"`
	// Modules that it wants.
	Modules []events.ModuleRef `json:"modules"`
	Phase   string             `json:"phase"`
	State   events.PodStage    `json:"state"`
	Ready   bool               `json:"ready"`
	// Reason why it is not Ready.
	Reason   string `json:"reason,omitempty"`
	Deleting bool   `json:"deleting,omitempty"`
	Created  int64  `json:"created"`
	// ReadySince is since when it serves; 0 = it does not.
	ReadySince int64 `json:"readySince,omitempty"`
}

// WorkloadState is the state of the rollout of a workload.
type WorkloadState string

// The states of a rollout.
const (
	// WorkloadStuck: Kubernetes has given up; see WorkloadRow.Stuck.
	WorkloadStuck   WorkloadState = "stuck"
	WorkloadPaused  WorkloadState = "paused"
	WorkloadRolling WorkloadState = "rolling"
	WorkloadReady   WorkloadState = "ready"
	// WorkloadWaiting: there is no rollout, and not all Pods are Ready.
	WorkloadWaiting WorkloadState = "waiting"
)

// WorkloadRow is a Deployment, DaemonSet or StatefulSet of modules.
type WorkloadRow struct {
	// Kind is deployment, daemonset or statefulset.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Modules of its template.
	Modules []events.ModuleRef `json:"modules"`
	// Desired, Updated, Ready and Available count Pods.
	Desired   int `json:"desired"`
	Updated   int `json:"updated"`
	Ready     int `json:"ready"`
	Available int `json:"available"`
	// Total counts its Pods of all revisions; Unavailable, those that are missing or do not serve.
	Total       int           `json:"total"`
	Unavailable int           `json:"unavailable,omitempty"`
	State       WorkloadState `json:"state"`
	// Strategy with its limits, such as "RollingUpdate, +25% −0".
	Strategy string `json:"strategy"`
	// Partition of a StatefulSet: Pods with a smaller number keep their revision, so that it is lowered
	// for each batch of a release.
	Partition int `json:"partition,omitempty"`
	// Revision is the number of the present template; 0 = not known.
	Revision int `json:"revision,omitempty"`
	// Peer tells that it wants one module on each base; Paused, that its rollout stands still until
	// somebody lets it go on: it is paused, or its partition holds the rest back.
	Peer   bool `json:"peer,omitempty"`
	Paused bool `json:"paused,omitempty"`
	// Stuck is why Kubernetes has given up the rollout; empty = it has not.
	Stuck string `json:"stuck,omitempty"`
}

// RevisionRow is a template that a workload has, or had and can be taken back to: a ReplicaSet or a
// ControllerRevision.
type RevisionRow struct {
	// Workload is its key in the table of workloads.
	Workload string `json:"workload"`
	// Number counts up; one that is gone back to gets a new one.
	Number int `json:"number"`
	// Hash is what Pods made of it have as PodRow.Revision.
	Hash    string             `json:"hash"`
	Modules []events.ModuleRef `json:"modules"`
	Created int64              `json:"created"`
}

// ServiceRow is a Service by its endpoints.
type ServiceRow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Module of its Pods; empty = not known.
	Module string `json:"module,omitempty"`
	Ready  int    `json:"ready"`
	Total  int    `json:"total"`
	// Bases behind its Ready endpoints, sorted.
	Bases []string `json:"bases,omitempty"`
}

// ComponentRow is a component of a sandbox, or a module controller of a cluster.
type ComponentRow struct {
	Name  string                `json:"name"`
	State events.ComponentState `json:"state"`
	// Since is when it came into its state.
	Since   int64  `json:"since"`
	Message string `json:"message,omitempty"`
	// PID of its process, RSS in bytes; 0 = not known.
	PID int   `json:"pid,omitempty"`
	RSS int64 `json:"rss,omitempty"`
	// Bases that it serves, of a module controller.
	Bases int `json:"bases,omitempty"`
}

// FaultRow is a fault that is in effect.
type FaultRow struct {
	ID     string               `json:"id"`
	Target v1alpha1.FaultTarget `json:"target"`
	// Base that it acts on; empty = controllers.
	Base string `json:"base,omitempty"`
	// Text is its kind, and what else is known of it.
	Text  string `json:"text"`
	Since int64  `json:"since"`
	// Fired counts how often it has struck since the board looks.
	Fired int `json:"fired,omitempty"`
}

// StreamRow is a stream of requests to modules. A row comes each second while it runs.
type StreamRow struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	// Route is gateway, kube-proxy or bases.
	Route string `json:"route,omitempty"`
	// Sent and Lost since it began, Open without an answer yet.
	Sent int `json:"sent"`
	Lost int `json:"lost"`
	Open int `json:"open,omitempty"`
	// Rate and LostRate are requests a second of the last second, Versions the answers a second of each
	// version.
	Rate     float64            `json:"rate"`
	LostRate float64            `json:"lostRate"`
	Versions map[string]float64 `json:"versions,omitempty"`
	// Results counts by result, such as ok, timeout, refused.
	Results map[events.RequestResult]int `json:"results,omitempty"`
	// P50 and P99 of the whole stream.
	P50 float64 `json:"p50,omitempty"`
	P99 float64 `json:"p99,omitempty"`
	// Ended is when it ended; 0 = it runs.
	Ended int64 `json:"ended,omitempty"`
}

// StepRow is a step of a scenario.
type StepRow struct {
	// Number from 1, in the order of beginning.
	Number  int              `json:"number"`
	Name    string           `json:"name"`
	State   events.StepState `json:"state"`
	From    int64            `json:"from"`
	To      int64            `json:"to,omitempty"`
	Message string           `json:"message,omitempty"`
}

// FindingRow is what the board finds wrong, with a code of the documents.
type FindingRow struct {
	// Code in its full form, such as KouplelessBoard.BaselineInconsistency.
	Code string `json:"code"`
	// Text in English, Chinese in Chinese: what is wrong, in a sentence.
	Text    string `json:"text"`
	Chinese string `json:"chinese"`
	// Advice of the documents in both languages, such as "check the bases".
	Advice        string `json:"advice,omitempty"`
	AdviceChinese string `json:"adviceChinese,omitempty"`
	Since         int64  `json:"since"`
	// Bases, Pods and Workloads that it is about, as keys of their tables; at most 50 of each.
	Bases     []string `json:"bases,omitempty"`
	Pods      []string `json:"pods,omitempty"`
	Workloads []string `json:"workloads,omitempty"`
}

// NoticeRow is what the board cannot see.
type NoticeRow struct {
	// Text in a sentence, in English: what cannot be read, and why.
	Text  string `json:"text"`
	Since int64  `json:"since"`
}

// LogKind is what a LogEntry tells of.
type LogKind string

// The kinds of entries.
const (
	// LogCommand: a base answered a command.
	LogCommand LogKind = "command"
	// LogEvent: an Event of Kubernetes.
	LogEvent LogKind = "event"
	// LogRequest: a request was lost.
	LogRequest LogKind = "request"
	// LogFault: a fault was set, fired or cleared.
	LogFault LogKind = "fault"
	// LogAction: somebody did something by a board.
	LogAction LogKind = "action"
	// LogStep: a step of a scenario began or ended.
	LogStep LogKind = "step"
	// LogBase: a base came, went, connected, disconnected.
	LogBase LogKind = "base"
	// LogModule: a module on a base changed its state.
	LogModule LogKind = "module"
	// LogNode: a Node came, went or changed its readiness.
	LogNode LogKind = "node"
	// LogComponent: a component started, ended, was paused or resumed.
	LogComponent LogKind = "component"
	// LogFinding: the board found something wrong, or that it is right again.
	LogFinding LogKind = "finding"
)

// LogEntry is something that happened.
type LogEntry struct {
	// ID numbers the entries of one server.
	ID   int64   `json:"id"`
	Time int64   `json:"time"`
	Kind LogKind `json:"kind"`
	// Bad tells that it is a failure or a loss.
	Bad bool `json:"bad,omitempty"`
	// Base that it is about, if any.
	Base string `json:"base,omitempty"`
	// Name of the command, the stream, the step, the component, the object of an Event as kind/name.
	Name string `json:"name,omitempty"`
	// Namespace of that object.
	Namespace string `json:"namespace,omitempty"`
	Module    string `json:"module,omitempty"`
	Version   string `json:"version,omitempty"`
	// State that it is in now, the result of a lost request, the reason of an Event.
	State string `json:"state,omitempty"`
	// Code of a command's answer or of a finding; empty = success.
	Code string `json:"code,omitempty"`
	// Text for people.
	Text string `json:"text,omitempty"`
	// Took is how long a command took, or a request until its fate was known.
	Took float64 `json:"took,omitempty"`
	// User that did it, with the kind action.
	User string `json:"user,omitempty"`
}

// Why says why something is as it is: GET /api/why.
type Why struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Ready says whether there is nothing to wait for.
	Ready bool `json:"ready"`
	// Reason names the situation, Cause says in a sentence what is so, Advice what to do.
	Reason string `json:"reason"`
	Cause  string `json:"cause"`
	Advice string `json:"advice,omitempty"`
	// Evidence is what was compared and read, what matters most first.
	Evidence []WhyEvidence `json:"evidence"`
	// Commands show or do the same on a command line.
	Commands []string `json:"commands"`
}

// WhyEvidence is one thing that was looked at.
type WhyEvidence struct {
	// About groups it: bases, base, controllers, conditions, containers, events, log, ...
	About string `json:"about"`
	Text  string `json:"text"`
	// At is when it was said; 0 = it is so now.
	At int64 `json:"at,omitempty"`
}

// History says which chunks of the past there are, the oldest first. The last one still grows.
type History struct {
	Epoch  string  `json:"epoch"`
	Chunks []Chunk `json:"chunks"`
}

// Chunk is a part of the past, for GET /api/history/ID: JSON lines, a Snapshot and then Changes.
type Chunk struct {
	ID int64 `json:"id"`
	// First and Last are the Seq of its Snapshot and of its last Changes, From and To their times.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	// Bytes it has when compressed, about.
	Bytes int64 `json:"bytes"`
	// Closed tells that it does not grow any more.
	Closed bool `json:"closed"`
}

// Problem is the answer to what was not done.
type Problem struct {
	// Error in one sentence.
	Error string `json:"error"`
	// Code of the documents (5.6), such as KouplelessBoard.OperationPlanMutualExclusion; empty where
	// nothing was to be done.
	Code string `json:"code,omitempty"`
}
