// Generated from sandbox/board/wire.go, which describes the types, by `make generate`. Do not edit.

export interface Snapshot {
  seq: number;
  time: number;
  epoch: string;
  tables: Tables;
  log?: LogEntry[];
}

export interface Changes {
  seq: number;
  time: number;
  set?: Tables;
  del?: Record<string, string[]>;
  log?: LogEntry[];
}

export interface Tables {
  board?: Record<string, BoardRow>;
  base?: Record<string, BaseRow>;
  pod?: Record<string, PodRow>;
  workload?: Record<string, WorkloadRow>;
  revision?: Record<string, RevisionRow>;
  service?: Record<string, ServiceRow>;
  component?: Record<string, ComponentRow>;
  fault?: Record<string, FaultRow>;
  stream?: Record<string, StreamRow>;
  step?: Record<string, StepRow>;
  finding?: Record<string, FindingRow>;
  notice?: Record<string, NoticeRow>;
}

export type Source = "sandbox" | "cluster" | "report";

export interface BoardRow {
  source: Source;
  title: string;
  since: number;
  ended?: number;
  version?: string;
  verdict?: string;
  failure?: string;
  user?: string;
  canWhy?: boolean;
  actions?: Action[];
}

export interface Action {
  id: string;
  on: string;
  title: string;
  when?: Record<string, string[]>;
  danger?: boolean;
  params?: ActionParam[];
}

export interface ActionParam {
  name: string;
  from?: string;
  choices?: string[];
  choicesFrom?: string;
  number?: boolean;
  optional?: boolean;
  default?: string;
  hint?: string;
}

export interface ActionResult {
  message: string;
  command?: string;
}

export type Health = "good" | "busy" | "warn" | "bad";

export type BaseProblem = "pressure" | "brokenModule" | "badReason";

export interface BaseRow {
  name: string;
  state: BaseState;
  health: Health;
  problem?: BaseProblem;
  reason?: string;
  identity?: string;
  zone?: string;
  baseName?: string;
  version?: string;
  ip?: string;
  tunnel?: string;
  node?: string;
  nodeState?: NodeState;
  cordoned?: boolean;
  controller?: string;
  metaspaceMax?: number;
  metaspaceUsed?: number;
  pressure?: boolean;
  releasesLeft?: string;
  actuator?: string;
  modules: ModuleOnBase[];
  started?: number;
}

export interface ModuleOnBase {
  name: string;
  version: string;
  state: ModuleState;
  since: number;
  own?: boolean;
}

export interface PodRow {
  namespace: string;
  name: string;
  uid: string;
  workload?: string;
  revision?: string;
  node?: string;
  base?: string;
  modules: ModuleRef[];
  phase: string;
  state: PodStage;
  ready: boolean;
  reason?: string;
  deleting?: boolean;
  created: number;
  readySince?: number;
}

export type WorkloadState = "stuck" | "paused" | "rolling" | "ready" | "waiting";

export interface WorkloadRow {
  kind: string;
  namespace: string;
  name: string;
  modules: ModuleRef[];
  desired: number;
  updated: number;
  ready: number;
  available: number;
  total: number;
  unavailable?: number;
  state: WorkloadState;
  strategy: string;
  partition?: number;
  revision?: number;
  peer?: boolean;
  paused?: boolean;
  stuck?: string;
}

export interface RevisionRow {
  workload: string;
  number: number;
  hash: string;
  modules: ModuleRef[];
  created: number;
}

export interface ServiceRow {
  namespace: string;
  name: string;
  module?: string;
  ready: number;
  total: number;
  bases?: string[];
}

export interface ComponentRow {
  name: string;
  state: ComponentState;
  since: number;
  message?: string;
  pid?: number;
  rss?: number;
  bases?: number;
}

export interface FaultRow {
  id: string;
  target: FaultTarget;
  base?: string;
  text: string;
  since: number;
  fired?: number;
}

export interface StreamRow {
  group: string;
  name: string;
  route?: string;
  sent: number;
  lost: number;
  open?: number;
  rate: number;
  lostRate: number;
  versions?: Record<string, number>;
  results?: Partial<Record<RequestResult, number>>;
  p50?: number;
  p99?: number;
  ended?: number;
}

export interface StepRow {
  number: number;
  name: string;
  state: StepState;
  from: number;
  to?: number;
  message?: string;
}

export interface FindingRow {
  code: string;
  text: string;
  chinese: string;
  advice?: string;
  adviceChinese?: string;
  since: number;
  bases?: string[];
  pods?: string[];
  workloads?: string[];
}

export interface NoticeRow {
  text: string;
  since: number;
}

export type LogKind = "command" | "event" | "request" | "fault" | "action" | "step" | "base" | "module" | "node" | "component" | "finding";

export interface LogEntry {
  id: number;
  time: number;
  kind: LogKind;
  bad?: boolean;
  base?: string;
  name?: string;
  namespace?: string;
  module?: string;
  version?: string;
  state?: string;
  code?: string;
  text?: string;
  took?: number;
  user?: string;
}

export interface Why {
  kind: string;
  namespace?: string;
  name: string;
  ready: boolean;
  reason: string;
  cause: string;
  advice?: string;
  evidence: WhyEvidence[];
  commands: string[];
}

export interface WhyEvidence {
  about: string;
  text: string;
  at?: number;
}

export interface History {
  epoch: string;
  chunks: Chunk[];
}

export interface Problem {
  error: string;
  code?: string;
}

export type FaultTarget = "base" | "api" | "mqtt";

export interface Chunk {
  id: number;
  first: number;
  last: number;
  from: number;
  to: number;
  bytes: number;
  closed: boolean;
}

export interface ModuleRef {
  name: string;
  version: string;
}

export type ModuleState = "UNRESOLVED" | "RESOLVED" | "ACTIVATED" | "DEACTIVATED" | "BROKEN" | "STOPPED";

export type NodeState = "Ready" | "NotReady" | "Unknown";

export type ComponentState = "running" | "paused" | "stopping" | "exited";

export type StepState = "began" | "passed" | "failed" | "skipped" | "errored";

export type RequestResult = "ok" | "noEndpoint" | "refused" | "reset" | "notFound" | "unavailable" | "timeout" | "wrongVersion" | "other";

export type BaseState = "down" | "starting" | "disconnected" | "ready" | "unknown";

export type PodStage = "pending" | "notReady" | "ready" | "terminating";
