// Written from sandbox/board/wire.go by `make generate`. Do not edit.

// Snapshot is everything that there is at a moment. It is the first message of every stream, also of
// one that was connected again, and the first line of every chunk of history: the page throws its
// tables away and takes these.
export interface Snapshot {
  // Seq numbers the messages of one server: the Changes that follow have Seq+1 and so on.
  seq: number;
  // Time at which it was so.
  time: number;
  // Epoch names this run of the server. With another one than before, everything that the page knows
  // is of the past of another server, and is thrown away.
  epoch: string;
  tables: Tables;
  // Log has the newest entries, the oldest first, in a stream; nothing in a chunk of history.
  log?: LogEntry[];
}

// Changes are what has changed since the message before: at most ten a second.
export interface Changes {
  seq: number;
  time: number;
  // Set has new rows and such that take the place of the row of the same key, whole.
  set?: Tables;
  // Del has the keys of rows that are gone, by kind.
  del?: Record<string, string[]>;
  // Log has new entries, the oldest first.
  log?: LogEntry[];
}

// Tables are rows by kind and key.
export interface Tables {
  // Board has one row, with the key "board": what is looked at, and what the page may do.
  board?: Record<string, BoardRow>;
  // Base by host name. A base that was removed has no row.
  base?: Record<string, BaseRow>;
  // Pod by UID: the Pods of modules.
  pod?: Record<string, PodRow>;
  // Workload by kind/namespace/name, the kind in lower case: those whose Pods have modules.
  workload?: Record<string, WorkloadRow>;
  // Revision by the key of its workload and its name: the templates that workloads have had.
  revision?: Record<string, RevisionRow>;
  // Service by namespace/name: those that select modules.
  service?: Record<string, ServiceRow>;
  // Component by name: the processes of a sandbox; the controllers of a cluster, by their Leases.
  component?: Record<string, ComponentRow>;
  // Fault by base/id; a rule that disturbs the view of the Kubernetes API is api/id.
  fault?: Record<string, FaultRow>;
  // Stream by group/name: streams of requests.
  stream?: Record<string, StreamRow>;
  // Step by its number in the run: the steps of a scenario.
  step?: Record<string, StepRow>;
  // Finding by code and what it is about: what the board itself finds wrong.
  finding?: Record<string, FindingRow>;
  // Notice by what it is about: what the board cannot see, and why.
  notice?: Record<string, NoticeRow>;
}

// Source is what a board looks at.
export type Source = "sandbox" | "cluster" | "report";

// BoardRow says what is looked at.
export interface BoardRow {
  source: Source;
  // Title is the name of the sandbox, the context or the scenario.
  title: string;
  // Since is when the board began to look, or the run began. Nothing before can be shown.
  since: number;
  // Ended is when the run or the sandbox ended; 0 = it goes on.
  ended?: number;
  // Version of Kubernetes; empty = not known.
  version?: string;
  // Verdict of a run, with why it failed.
  verdict?: string;
  failure?: string;
  // User that the page acts as; empty where there is only one.
  user?: string;
  // CanWhy tells whether /api/why answers.
  canWhy?: boolean;
  // Actions that work here; none = the board only looks.
  actions?: Action[];
}

// Action is something that the page may do: POST /api/actions/ID.
export interface Action {
  // ID such as fault.set, fault.clear, component.kill, traffic.start, scale. The page has words for
  // those that it knows, and shows Title for others.
  id: string;
  // On is the kind of row that it acts on, in whose details it is offered: base, component, ...;
  // board = none.
  on: string;
  // Title in English, a few words.
  title: string;
  // When has fields of the row with the values for which it is offered; false is also what a row lacks.
  when?: Record<string, string[]>;
  // Danger tells that it ends or disturbs something.
  danger?: boolean;
  // Params in the order in which they are asked for. Those with From are taken from the row.
  params?: ActionParam[];
}

// ActionParam is a parameter of an Action. All values are strings.
export interface ActionParam {
  name: string;
  // From is the field of the row that has the value, such as name; empty = it is asked for.
  from?: string;
  // Choices; none = any text. Number tells that it is a whole number.
  choices?: string[];
  number?: boolean;
  // Optional tells that it may be left empty; Default is what is offered.
  optional?: boolean;
  default?: string;
  // Hint in English: an example or what it means.
  hint?: string;
}

// ActionResult is the answer to an action that was done; what was not done is an error.
export interface ActionResult {
  // Message says in a sentence what was done.
  message: string;
  // Command is the koupsandbox or kubectl command that does the same.
  command?: string;
}

// BaseState is how a base is, in a word.
export type BaseState = "running" | "starting" | "disconnected" | "crashed" | "unknown";

// BaseRow is a base with its Node.
export interface BaseRow {
  // Name is its host name.
  name: string;
  state: BaseState;
  // Bad tells that it is not as it should be, Reason says why, for people.
  bad?: boolean;
  reason?: string;
  // Identity of its process.
  identity?: string;
  // Zone in which it is drawn: its topology zone, or the group of bases that it belongs to.
  zone?: string;
  // BaseName and Version of the application that it is; bases with the same are to be equal.
  baseName?: string;
  version?: string;
  ip?: string;
  // Tunnel is mqtt or http.
  tunnel?: string;
  // Node is the name of its Node; empty = there is none. NodeState is Ready, NotReady or Unknown.
  node?: string;
  nodeState?: NodeState;
  // Cordoned tells that no Pod is to come.
  cordoned?: boolean;
  // Controller that serves it; empty = none, or not known.
  controller?: string;
  // Metaspace in bytes: its limit (0 = none, or not known), and what is in use or requested by the
  // Pods on the base, whichever is more. Pressure tells that more than nine tenths are in use.
  metaspaceMax?: number;
  metaspaceUsed?: number;
  pressure?: boolean;
  // Leak is how many bytes more are in use than when the same modules were on it before, since its
  // process started: what releases have left behind.
  leak?: number;
  // Modules that are on it, by name and version.
  modules: ModuleOnBase[];
  // Started is when its process started, or was first seen.
  started?: number;
}

// ModuleOnBase is a version of a module that is on a base.
export interface ModuleOnBase {
  name: string;
  version: string;
  // State as arklet spells it: RESOLVED (is being installed), ACTIVATED (serves), DEACTIVATED,
  // BROKEN.
  state: ModuleState;
  // Since is when the version came to the base.
  since: number;
  // Own tells that no command brought it.
  own?: boolean;
}

// PodRow is a Pod of modules.
export interface PodRow {
  namespace: string;
  name: string;
  uid: string;
  // Workload is its key in the table of workloads; empty for a bare Pod. A Pod of a ReplicaSet names
  // the Deployment.
  workload?: string;
  // Revision is the Hash of the revision that it was made of; empty for a bare Pod.
  revision?: string;
  node?: string;
  // Base that it is on; empty = none so far.
  base?: string;
  // Modules that it wants.
  modules: ModuleRef[];
  phase: string;
  ready: boolean;
  // Reason why it is not Ready.
  reason?: string;
  deleting?: boolean;
  created: number;
  // ReadySince is since when it serves; 0 = it does not.
  readySince?: number;
}

// WorkloadRow is a Deployment, DaemonSet or StatefulSet of modules.
export interface WorkloadRow {
  // Kind is deployment, daemonset or statefulset.
  kind: string;
  namespace: string;
  name: string;
  // Modules of its template.
  modules: ModuleRef[];
  // Desired, Updated, Ready and Available count Pods.
  desired: number;
  updated: number;
  ready: number;
  available: number;
  // Total counts its Pods of all revisions; Unavailable, those that are missing or do not serve.
  total: number;
  unavailable?: number;
  // Strategy is RollingUpdate, Recreate or OnDelete. MaxSurge and MaxUnavailable are how many Pods a
  // RollingUpdate may have too many and too few: a number or a share; empty = it has no such limit.
  strategy: string;
  maxSurge?: string;
  maxUnavailable?: string;
  // Partition of a StatefulSet: Pods with a smaller number keep their revision, so that it is lowered
  // for each batch of a release.
  partition?: number;
  // Revision is the number of the present template; 0 = not known.
  revision?: number;
  // Peer tells that it wants one module on each base; Paused, that its rollout stands still until
  // somebody lets it go on: it is paused, or its partition holds the rest back.
  peer?: boolean;
  paused?: boolean;
  // Rolling tells that a rollout goes on; Stuck, that Kubernetes has given up on it.
  rolling?: boolean;
  stuck?: string;
}

// RevisionRow is a template that a workload has, or had and can be taken back to: a ReplicaSet or a
// ControllerRevision.
export interface RevisionRow {
  // Workload is its key in the table of workloads.
  workload: string;
  // Number counts up; one that is gone back to gets a new one.
  number: number;
  // Hash is what Pods made of it have as PodRow.Revision.
  hash: string;
  modules: ModuleRef[];
  created: number;
}

// ServiceRow is a Service by its endpoints.
export interface ServiceRow {
  namespace: string;
  name: string;
  // Module of its Pods; empty = not known.
  module?: string;
  ready: number;
  total: number;
  // Bases behind its Ready endpoints, sorted.
  bases?: string[];
}

// ComponentRow is a component of a sandbox, or a module controller of a cluster.
export interface ComponentRow {
  name: string;
  state: ComponentState;
  // Since is when it came into its state.
  since: number;
  message?: string;
  // PID of its process, RSS in bytes; 0 = not known.
  pid?: number;
  rss?: number;
  // Bases that it serves, of a module controller.
  bases?: number;
}

// FaultRow is a fault that is in effect.
export interface FaultRow {
  id: string;
  target: FaultTarget;
  // Base that it acts on; empty = controllers.
  base?: string;
  // Text is its kind, and what else is known of it.
  text: string;
  since: number;
  // Fired counts how often it has struck since the board looks.
  fired?: number;
}

// StreamRow is a stream of requests to modules. A row comes each second while it runs.
export interface StreamRow {
  group: string;
  name: string;
  // Route is gateway, kube-proxy or bases.
  route?: string;
  // Sent and Lost since it began, Open without an answer yet.
  sent: number;
  lost: number;
  open?: number;
  // Rate and LostRate are requests a second of the last second, Versions the answers a second of each
  // version.
  rate: number;
  lostRate: number;
  versions?: Record<string, number>;
  // Results counts by result, such as ok, timeout, refused.
  results?: Partial<Record<RequestResult, number>>;
  // P50 and P99 of the whole stream.
  p50?: number;
  p99?: number;
  // Ended is when it ended; 0 = it runs.
  ended?: number;
}

// StepRow is a step of a scenario.
export interface StepRow {
  // Number from 1, in the order of beginning.
  number: number;
  name: string;
  state: StepState;
  from: number;
  to?: number;
  message?: string;
}

// FindingRow is what the board finds wrong, with a code of the documents.
export interface FindingRow {
  // Code in its full form, such as KouplelessBoard.BaselineInconsistency.
  code: string;
  // Text in English, Chinese in Chinese: what is wrong, in a sentence.
  text: string;
  chinese: string;
  // Advice of the documents in both languages, such as "check the bases".
  advice?: string;
  adviceChinese?: string;
  since: number;
  // Bases, Pods and Workloads that it is about, as keys of their tables; at most 50 of each.
  bases?: string[];
  pods?: string[];
  workloads?: string[];
}

// NoticeRow is what the board cannot see.
export interface NoticeRow {
  // Text in a sentence, in English: what cannot be read, and why.
  text: string;
  since: number;
}

// LogKind is what a LogEntry tells of.
export type LogKind = "command" | "event" | "request" | "fault" | "action" | "step" | "base" | "module" | "node" | "component" | "finding";

// LogEntry is something that happened.
export interface LogEntry {
  // ID numbers the entries of one server.
  id: number;
  time: number;
  kind: LogKind;
  // Bad tells that it is a failure or a loss.
  bad?: boolean;
  // Base that it is about, if any.
  base?: string;
  // Name of the command, the stream, the step, the component, the object of an Event as kind/name.
  name?: string;
  // Namespace of that object.
  namespace?: string;
  module?: string;
  version?: string;
  // State that it is in now, the result of a lost request, the reason of an Event.
  state?: string;
  // Code of a command's answer or of a finding; empty = success.
  code?: string;
  // Text for people.
  text?: string;
  // Took is how long a command took, or a request until its fate was known.
  took?: number;
  // User that did it, with the kind action.
  user?: string;
}

// Why says why something is as it is: GET /api/why.
export interface Why {
  kind: string;
  namespace?: string;
  name: string;
  // Ready says whether there is nothing to wait for.
  ready: boolean;
  // Reason names the situation, Cause says in a sentence what is so, Advice what to do.
  reason: string;
  cause: string;
  advice?: string;
  // Evidence is what was compared and read, what matters most first.
  evidence: WhyEvidence[];
  // Commands show or do the same on a command line.
  commands: string[];
}

// WhyEvidence is one thing that was looked at.
export interface WhyEvidence {
  // About groups it: bases, base, controllers, conditions, containers, events, log, ...
  about: string;
  text: string;
  // At is when it was said; 0 = it is so now.
  at?: number;
}

// History says which chunks of the past there are, the oldest first. The last one still grows.
export interface History {
  epoch: string;
  chunks: Chunk[];
}

// Chunk is a part of the past, for GET /api/history/ID: JSON lines, a Snapshot and then Changes.
export interface Chunk {
  id: number;
  // First and Last are the Seq of its Snapshot and of its last Changes, From and To their times.
  first: number;
  last: number;
  from: number;
  to: number;
  // Bytes it has when compressed, about.
  bytes: number;
  // Closed tells that it does not grow any more.
  closed: boolean;
}

// Problem is the answer to what was not done.
export interface Problem {
  // Error in one sentence.
  error: string;
  // Code of the documents (5.6), such as KouplelessBoard.OperationPlanMutualExclusion; empty where
  // nothing was to be done.
  code?: string;
}

// FaultTarget is the part of the system that a fault acts on.
export type FaultTarget = "base" | "api" | "mqtt";

// ModuleRef names a version of a module. The version is empty for a Pod that sets none.
export interface ModuleRef {
  name: string;
  version: string;
}

// ModuleState is the state of a module on a base, as arklet spells it. Empty = the module is not installed.
export type ModuleState = "UNRESOLVED" | "RESOLVED" | "ACTIVATED" | "DEACTIVATED" | "BROKEN" | "STOPPED";

// NodeState is the condition Ready of a Node. Empty = the Node does not exist.
export type NodeState = "Ready" | "NotReady" | "Unknown";

// ComponentState is the state of the process of a component.
export type ComponentState = "running" | "paused" | "exited";

// StepState is the state of a step of a scenario.
export type StepState = "began" | "passed" | "failed" | "skipped" | "errored";

// RequestResult is the result of a request. Every result except RequestOK is a lost request.
export type RequestResult = "ok" | "noEndpoint" | "refused" | "reset" | "notFound" | "unavailable" | "timeout" | "wrongVersion" | "other";
