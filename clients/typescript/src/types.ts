// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0
//
// Made by tools/clienttypes from api/openapi.json: `make docs` writes it again.

export interface Account {
  admin: boolean;
  createdAt: string;
  id: string;
  name: string;
}

export interface AccountList {
  accounts: Array<Account>;
}

export interface AccountStorage {
  account: string;
  limitBytes: number;
  memoryImageBytes: number;
  name: string;
  sharedBytes: number;
  uniqueBytes: number;
}

export interface Actor {
  account: string;
  admin?: boolean;
  ask?: string;
  identity?: string;
  key?: string;
  sshKey?: string;
  system?: string;
  token?: string;
  vm?: string;
}

export interface AddPath {
  action?: string;
  mount?: string;
  path?: string;
}

export interface AddedService {
  message: string;
  serviceName: string;
  success: boolean;
}

export interface AgentHello {
  bootId: string;
  booted: boolean;
  digest: string;
  features: Array<string> | null;
  kernel: string;
  protocol: number;
  systemd: boolean;
  version: string;
}

export interface Alert {
  kind: string;
  paths?: Array<string | {
    bytes: string;
    quoted: string;
  }>;
  text: string;
}

export interface ApproveAsk {
  forSeconds?: number;
  note?: string;
}

export interface Artifact {
  at: string;
  bucket: string;
  key: string;
  path?: string;
  receipt: string;
  sha256?: string;
  size: number;
  version?: string;
}

export interface Ask {
  account: string;
  createdAt: string;
  deadline: string;
  decidedAt?: string;
  decidedBy?: string;
  details?: Record<string, string>;
  digest?: string;
  host?: string;
  id: string;
  identity?: string;
  kind: string;
  note?: string;
  rule?: NetRule;
  size?: number;
  state: string;
  verb?: string;
  vm?: string;
  what: string;
  why?: string;
  widens?: Array<string>;
}

export interface AskList {
  asks: Array<Ask>;
}

export interface AuditKey {
  fingerprint: string;
  key: string;
}

export interface AuditList {
  records: Array<AuditRecord>;
}

export interface AuditPruned {
  bytes: number;
  receipt?: string;
  records: number;
  segments: number;
  through: number;
}

export interface AuditRecord {
  actor: Actor;
  detail?: Record<string, unknown>;
  endedAt?: string;
  error?: string;
  generation?: string;
  id: string;
  network?: string;
  op: string;
  outcome: string;
  requestId?: string;
  right?: string;
  seq: number;
  subject?: string;
  time: string;
  vm?: string;
}

export interface AuditReport {
  anchors?: number;
  code?: string;
  fix?: string;
  key?: string;
  log?: string;
  notes?: Array<string>;
  ok: boolean;
  problem?: string;
  pruned?: number;
  records: number;
  root?: string;
  signed: number;
}

export interface AwaitedVM {
  exitStatus: string;
  id: string;
}

export interface BaseImage {
  dockerfileContent?: string;
}

export interface Blocked {
  command: string;
  pid: number;
  state: string;
  waits: string;
}

export interface Branch {
  commit: string | null;
  name: string;
  protected: boolean;
}

export interface BranchList {
  branches: Array<Branch>;
}

export interface Bucket {
  createdAt: string;
  name: string;
  retain?: RetainDefault;
  rules: Array<LifecycleRule>;
  tags?: Record<string, string>;
}

export interface BucketGrant {
  access?: string;
  grantedAt?: string | null;
  identity?: string;
  prefix?: string;
  vm?: string;
}

export interface BucketGrantList {
  grants: Array<BucketGrant>;
}

export interface BucketList {
  buckets: Array<Bucket>;
}

export interface BucketUse {
  bucket: string;
  bytes: number;
  objects: number;
  pending: number;
  small: number;
  uploads: number;
  versions: number;
}

export interface BucketUseList {
  buckets: Array<BucketUse>;
}

export interface Build {
  accountId: string;
  buildId: string;
  failureReason?: string;
  finishedAt?: string;
  plannedPhases: Array<string>;
  requestId?: string;
  snapshotId?: string;
  startedAt: string;
  state: string;
  templateHash?: string;
  updatedAt: string;
  vmId?: string;
}

export interface BuildPhase {
  buildId: string;
  cached?: boolean;
  name: string;
  phaseId: string;
  snapshotId?: string;
  startedAt: string;
}

export interface BuildPhases {
  phases: Array<BuildPhase>;
}

export interface BuildSnapshot {
  additionalFiles?: Record<string, File>;
  aptDeps?: Array<string>;
  baseImage?: BaseImage | null;
  discriminator?: unknown;
  dockerCredentials?: unknown;
  git?: Git | null;
  gitRepos?: Array<Repo>;
  groups?: Array<Group>;
  idleTimeoutSeconds?: number | null;
  image?: string;
  memSizeGb?: number;
  memSizeMib?: number;
  name?: string;
  network?: string | NetworkRequest;
  nics?: unknown;
  persistence?: Persistence | null;
  ports?: unknown;
  readySignalTimeoutSeconds?: number | null;
  rootfsSizeGb?: number;
  skipCache?: boolean;
  snapshot?: Layer | null;
  snapshotId?: string;
  spec?: Layer | null;
  systemd?: Systemd | null;
  template?: Layer | null;
  udpHolePunchPorts?: unknown;
  users?: Array<User>;
  vcpuCount?: number;
  waitForReadySignal?: boolean | null;
  workdir?: string;
}

export interface BuiltSnapshot {
  snapshotId: string;
}

export interface Candidate {
  alerts?: Array<Alert>;
  error?: string;
  from: DiffSide;
  name?: string;
  outside: number;
  outsidePaths?: Array<string | {
    bytes: string;
    quoted: string;
  }>;
  run?: CandidateRun;
  stat: DiffStat;
  vm: string;
  workdir?: string;
}

export interface CandidateRun {
  error?: string;
  exitCode: number;
  seconds: number;
  tail: string;
  timedOut?: boolean;
}

export interface ChangeBucket {
  noRetain?: boolean;
  retain?: RetainDefault | null;
  rules?: Array<LifecycleRule> | null;
  tags?: Record<string, string> | null;
}

export interface ChangeNetwork {
  allow?: Array<NetRule>;
  deny?: Array<NetRule>;
  dryRun?: boolean;
  first?: boolean;
  forSeconds?: number;
  force?: boolean;
  mode?: string;
  remove?: Array<string>;
}

export interface ChangedFile {
  binary?: string;
  changed?: Array<string>;
  concerns?: Array<string>;
  cut?: string;
  from?: string | {
    bytes: string;
    quoted: string;
  };
  git?: string;
  group: string;
  hunks?: string;
  linesAdded?: number;
  linesRemoved?: number;
  now?: FileState;
  patch?: string;
  path: string | {
    bytes: string;
    quoted: string;
  };
  secrets?: Array<FoundSecret>;
  type: string;
  verb: string;
  was?: FileState;
}

export interface ChangedNetwork {
  accel?: string;
  activityThresholdBytes?: number;
  buildId?: string;
  captureEverySeconds?: number;
  connections: Array<Connection>;
  cpuTimeSeconds?: number;
  createdAt: string;
  cut: number;
  dryRun?: boolean;
  expiresAt?: string;
  generationId?: string;
  headId?: string;
  id: string;
  idleStops?: boolean;
  idleTimeoutSeconds: number | null;
  image: string;
  imageId: string;
  labels?: Record<string, string>;
  lastNetworkActivity?: string;
  losses?: Array<string>;
  metrics?: Metrics;
  name?: string;
  network: string;
  networkPolicies?: Array<string>;
  networkRules?: number;
  onBoot?: string;
  oneShot?: boolean;
  operation?: string;
  parentVmId?: string;
  persistence: Persistence;
  policy: Network;
  profile?: string;
  reason?: string;
  recreate: boolean;
  restored?: Array<string>;
  sizing: Sizing;
  snapshotId?: string;
  startedAt?: string;
  state: State;
  ttlSeconds?: number;
  vmInstanceId?: string;
  warning?: string;
  widens: Array<string>;
  workdir?: string;
}

export interface ChangedPolicy {
  about?: string;
  createdAt?: string;
  cut: number;
  mode?: string;
  name: string;
  rules: Array<NetRule>;
  shipped: boolean;
  updatedAt?: string;
  vms: Array<PolicyVM>;
}

export interface ChangedSnapshot {
  name?: string;
  snapshot_id: string;
}

export interface Checkpoint {
  hash?: string;
  key?: string;
  log?: string;
  next?: string;
  root?: string;
  seq?: number;
  signature?: string;
  time?: string;
  v?: number;
}

export interface ClickScreen {
  button?: number;
  count?: number;
  x?: number;
  y?: number;
}

export interface Clone {
  bare?: boolean;
  branch?: string;
  head?: string;
  hosted: boolean;
  remotes?: Array<CloneClaim>;
}

export interface CloneClaim {
  name: string;
  url: string;
}

export interface ClonedCommit {
  id: string;
  subject: string;
  time: string;
}

export interface ClosedPty {
  exitCode: number | null;
  sessionId: string;
}

export interface Commit {
  author: Person;
  committer: Person;
  message: string;
  parents: Array<string> | null;
  sha: string;
  tree: string;
}

export interface CommitList {
  commits: Array<GitCommit>;
  count: number;
  limit: number;
  next_commit?: string;
  offset?: number;
  order: string;
  selector?: unknown;
  total?: number;
}

export interface CommitMemory {
  message?: string;
}

export interface CommitPlan {
  base?: string;
  baseBranch?: string;
  branch: string;
  commit?: string;
  files: Array<PlannedFile> | null;
  flags?: Array<string>;
  generation: string;
  leftOut?: Array<LeftOut>;
  madeAt?: string;
  manifest: string;
  message?: string;
  more?: number;
  newBranch?: boolean;
  path: string | {
    bytes: string;
    quoted: string;
  };
  prefix?: string;
  repo: string;
  repoName?: string;
  secrets?: Array<FoundSecret>;
  stat: DiffStat;
  total: number;
  tree: string;
  vm: string;
  vmName?: string;
}

export interface CommitRequest {
  allowSecrets?: Array<string | {
    bytes: string;
    quoted: string;
  }> | null;
  author?: string;
  base?: string;
  baseBranch?: string;
  branch?: string;
  dryRun?: boolean;
  from?: string;
  generation?: string;
  manifest?: string;
  message?: string;
  path?: string | {
    bytes: string;
    quoted: string;
  };
  prefix?: string;
  repo?: string;
}

export interface CompareRequest {
  cwd?: string;
  run?: string;
  timeoutMs?: number;
  user?: string;
  vms?: Array<string> | null;
}

export interface ComparedFile {
  additions: number;
  changes: number;
  deletions: number;
  filename: string;
  previous_filename?: string;
  sha?: string;
  status: string;
}

export interface Connection {
  allowed: boolean;
  dest: string;
  down: number;
  duration?: number;
  how?: string;
  method?: string;
  name?: string;
  path?: string;
  policy?: string;
  proto: string;
  reason: string;
  rule?: string;
  secrets?: Array<string>;
  time: string;
  up: number;
}

export interface Connections {
  connections: Array<Connection>;
}

export interface ContainerImage {
  digest: string;
  service?: string;
  source: string;
  systemd: boolean;
  user?: string;
}

export interface ContentOf {
  paths?: Array<string | {
    bytes: string;
    quoted: string;
  }>;
  state?: string;
}

export interface Copy {
  path: string;
  receipt: string;
  sha256?: string;
  time: string;
  to?: string;
}

export interface CreateVM {
  activityThresholdBytes?: number | null;
  additionalFiles?: Record<string, File>;
  aptDeps?: Array<string>;
  baseImage?: BaseImage | null;
  captureEverySeconds?: number;
  discriminator?: unknown;
  dockerCredentials?: unknown;
  domains?: Array<VMDomain>;
  filesystemMd?: boolean;
  git?: Git | null;
  gitRepos?: Array<Repo>;
  groups?: Array<Group>;
  idleTimeoutSeconds?: number | null;
  image?: string;
  labels?: Record<string, string>;
  memSizeGb?: number;
  memSizeMib?: number;
  name?: string;
  network?: string | NetworkRequest;
  nics?: unknown;
  onBoot?: string;
  oneShot?: boolean;
  paths?: Array<AddPath>;
  persistence?: Persistence | null;
  ports?: unknown;
  profile?: string;
  readySignalTimeoutSeconds?: number | null;
  recreate?: boolean | null;
  rootfsSizeGb?: number;
  secrets?: Array<string>;
  skipCache?: boolean;
  snapshot?: Layer | null;
  snapshotId?: string;
  spec?: Layer | null;
  stopOnIdle?: boolean;
  systemd?: Systemd | null;
  template?: Layer | null;
  ttlSeconds?: number | null;
  udpHolePunchPorts?: unknown;
  uniqueName?: boolean;
  users?: Array<User>;
  vcpuCount?: number;
  waitForReadySignal?: boolean | null;
  workdir?: string;
}

export interface CreatedAccount {
  account: Account;
  key: Key;
  secret: string;
}

export interface CreatedCommit {
  commit: GitCommit;
}

export interface CreatedKey {
  key: Key;
  secret: string;
}

export interface CreatedRepo {
  repoId: string;
}

export interface CreatedS3Key {
  accessKeyId: string;
  createdAt: string;
  endpoint?: string;
  identityId?: string;
  lastUsed?: string;
  links?: boolean;
  name?: string;
  region: string;
  secretAccessKey: string;
}

export interface CreatedToken {
  expiresAt?: string;
  id: string;
  token: string;
}

export interface CreatedTrigger {
  secret: string;
  triggerId: string;
}

export interface CreatedVM {
  domains: Array<string>;
  id: string;
  persistence: Persistence;
  snapshotId: string;
  vm: VM;
}

export interface Credential {
  granted: boolean;
  host?: string;
  id?: string;
  lastUse?: string;
  name: string;
  notRotated?: string;
  otherVMs?: number;
  removed?: boolean;
  rotatedAt?: string;
  rotatesBy?: string;
  uses: number;
}

export interface DNSRecord {
  kind?: string;
  managed?: boolean;
  name?: string;
  priority?: number | null;
  ttl?: string;
  value?: string;
}

export interface DNSRecords {
  records: Array<DNSRecord>;
}

export interface DataCopy {
  branch?: string;
  bucket?: string;
  commit?: string;
  generation?: string;
  host?: string;
  key?: string;
  name?: string;
  note?: string;
  place: string;
  repo?: string;
  repoName?: string;
  snapshot?: string;
  version?: string;
  vm?: string;
  vmName?: string;
  volume?: string;
}

export interface DefaultBranch {
  defaultBranch?: string;
}

export interface DeletedVM {
  id: string;
  recreate: boolean;
  shredded?: Shredded;
}

export interface Delivery {
  change: RefChange;
  createdAt: string;
  host?: string;
  id: string;
  lastAt?: string;
  nextAt?: string;
  problem?: string;
  pusher: string;
  repo: string;
  state: string;
  status?: number;
  tries: number;
  trigger: string;
}

export interface DeliveryList {
  deliveries: Array<Delivery>;
}

export interface DenyAsk {
  note?: string;
}

export interface Diagnosis {
  findings: Array<Finding> | null;
  id: string;
  live: boolean;
  name: string;
  problems: Array<string> | null;
  seconds: number;
  state: State;
  time: string;
}

export interface Diff {
  alerts?: Array<Alert>;
  changes: Array<ChangedFile> | null;
  from: DiffSide;
  groups: Array<DiffGroup> | null;
  hidden?: Array<HiddenDir>;
  manifest: string;
  notCompared?: Array<string>;
  patchBase?: string | {
    bytes: string;
    quoted: string;
  };
  repos?: Array<NestedRepo>;
  stat: DiffStat;
  system?: Array<SystemChange>;
  to: DiffSide;
  workdir?: string;
}

export interface DiffGroup {
  group: string;
  stat: DiffStat;
}

export interface DiffLine {
  endColumn: number;
  isAddition: boolean;
  line: string;
  lineNumber: number;
  startColumn: number;
}

export interface DiffRequest {
  all?: boolean;
  from?: string;
  hunks?: boolean;
  patch?: boolean;
  paths?: Array<string | {
    bytes: string;
    quoted: string;
  }> | null;
  to?: string;
}

export interface DiffSide {
  at?: string;
  generation?: string;
  image: string;
  note?: string;
  vm?: string;
  vmName?: string;
  why?: string;
}

export interface DiffStat {
  added: number;
  bytesAdded: number;
  bytesRemoved: number;
  deleted: number;
  linesAdded: number;
  linesRemoved: number;
  modified: number;
  renamed: number;
}

export interface Domain {
  domain?: string;
  id?: string;
  verificationCode?: string;
}

export interface Done {}

export interface DrainedVM {
  error?: string;
  id: string;
  name?: string;
  resumesOnBoot: boolean;
  state: string;
}

export interface DrainedVMs {
  vms: Array<DrainedVM>;
}

export interface EnableMemory {
  repo?: string;
}

export interface ErrorBody {
  code: string;
  error: string;
  hint?: string;
  kind: Kind;
  message: string;
  op?: string;
  requestId?: string;
  subject?: string;
}

export interface ExecAwait {
  command?: string;
  summary?: boolean;
  terminal?: string | null;
  timeoutMs?: number | null;
  turn?: string;
}

export interface ExecChunked {
  argv?: Array<string> | null;
  background?: boolean;
  command?: string;
  cwd?: string;
  env?: Record<string, string> | null;
  input?: string;
  owned?: boolean;
  stdin?: boolean;
  summary?: boolean;
  timeoutMs?: number;
  turn?: string;
  user?: string;
}

export interface ExecMessage {
  data?: string;
  error?: ErrorBody;
  process?: Process;
  signal?: string;
  status?: ExitStatus;
  summary?: ExecSummary;
  turn?: Turn;
  type: string;
}

export interface ExecResult {
  statusCode: number;
  stderr: string;
  stdout: string;
  summary?: ExecSummary;
  truncated?: boolean;
  turn?: Turn;
}

export interface ExecSpec {
  argv?: Array<string> | null;
  background?: boolean;
  command?: string;
  cwd?: string;
  env?: Record<string, string> | null;
  stdin?: boolean;
  summary?: boolean;
  timeoutMs?: number;
  turn?: string;
  user?: string;
}

export interface ExecSummary {
  alerts?: Array<Alert>;
  costMs: number;
  error?: string;
  noise?: number;
  outside: Array<string | {
    bytes: string;
    quoted: string;
  }> | null;
  outsideMore?: number;
  stat: DiffStat;
  workdir: string | {
    bytes: string;
    quoted: string;
  };
}

export interface ExitStatus {
  code: number;
  signal?: string;
  timedOut?: boolean;
}

export interface FetchRequest {
  bucket?: string;
  key?: string;
  maxBytes?: number;
  path?: string | {
    bytes: string;
    quoted: string;
  };
  replace?: boolean;
  unpack?: boolean | null;
  version?: string;
}

export interface Fetched {
  bytes: number;
  files: number;
  leftOut?: Array<string | {
    bytes: string;
    quoted: string;
  }>;
  leftOutCount?: number;
  object: Object;
  path: string | {
    bytes: string;
    quoted: string;
  };
  sha256: string;
  tree: boolean;
  vmId: string;
}

export interface File {
  content?: string;
  encoding?: string;
  executable?: boolean;
}

export interface FileChange {
  content?: string | null;
  deleted?: boolean;
  encoding?: string;
  mode?: string;
  path?: string;
}

export interface FileContent {
  content?: string;
  encoding?: string;
}

export interface FileEvent {
  eventType: string;
  filename: string;
}

export interface FileInfo {
  attrs?: Record<string, string>;
  gid: number;
  kind: FileKind;
  modTime: string;
  mode: number;
  name: string;
  path: string;
  size: number;
  target?: string;
  uid: number;
}

export type FileKind = "file" | "directory" | "symlink" | "other";

export interface FileList {
  files: Array<FileInfo>;
}

export interface FileOp {
  from?: string;
  mode?: number;
  parents?: boolean;
  path?: string;
  recursive?: boolean;
  target?: string;
  to?: string;
}

export interface FileState {
  attrs?: Record<string, string>;
  digest?: string;
  gid: number;
  inode: number;
  links: number;
  mode: number;
  size: number;
  target?: string | {
    bytes: string;
    quoted: string;
  };
  uid: number;
}

export interface Finding {
  code: string;
  do: string;
  evidence: Array<string> | null;
  says: string;
  severity: string;
  subject: string;
}

export interface FinishVM {
  dropSnapshots?: Array<string>;
  keepSnapshots?: boolean;
  label?: string;
  lockVolumes?: boolean;
  logsReviewed?: boolean;
  retention?: string;
  revokeTokens?: boolean;
  rotate?: boolean;
  rotated?: boolean;
  ship?: ObjectRef | null;
}

export interface Folder {
  host: string;
  is: FolderID;
  name?: string;
  over?: boolean;
  path: string;
  rw?: boolean;
  sealed?: boolean;
  since: string;
}

export interface FolderID {
  dev: number;
  ino: number;
}

export interface Fork {
  consoleUrl: string | null;
  domains: Array<string>;
  expiresAt?: string;
  id: string;
  idleTimeoutSeconds: number | null;
  name?: string;
  persistence: Persistence;
}

export interface ForkComparison {
  candidates: Array<Candidate> | null;
  common?: string;
}

export interface ForkVM {
  count?: number | null;
  folders?: string;
  idleTimeoutSeconds?: number | null;
  labels?: Record<string, string>;
  name?: string;
  network?: string | NetworkRequest;
  persistence?: Persistence | null;
  ttlSeconds?: number | null;
  volumes?: string;
}

export interface ForkedVM {
  caveats: Array<string>;
  durable: boolean;
  first: boolean;
  forks: Array<Fork>;
  generationId: string;
  pauseMs: number;
  vmId: string;
}

export interface FoundCommit {
  authorEmail: string;
  authorName: string;
  fullMessage: string;
  message: string;
  sha: string;
  timestamp: string;
}

export interface FoundCommits {
  commits: Array<FoundCommit> | null;
  hasMore: boolean;
  totalCommits: number;
}

export interface FoundDiff {
  authorEmail: string;
  authorName: string;
  files: Array<FoundDiffFile> | null;
  message: string;
  sha: string;
  timestamp: string;
}

export interface FoundDiffFile {
  matches: Array<DiffLine> | null;
  path: string;
}

export interface FoundDiffs {
  commits: Array<FoundDiff> | null;
  hasMore: boolean;
  totalCommits: number;
}

export interface FoundFile {
  extension: string | null;
  path: string;
  size: number;
}

export interface FoundSecret {
  kind: string;
  line: number;
  path: string | {
    bytes: string;
    quoted: string;
  };
}

export interface FoundText {
  extension: string | null;
  matches: Array<LineMatch> | null;
  path: string;
  size: number;
}

export interface Generation {
  account: string;
  actor?: string;
  bootId?: string;
  build?: string;
  commit?: string;
  commitRepo?: string;
  createdAt: string;
  cut?: boolean;
  dataBytes: number;
  deleted?: boolean;
  diskOn?: string;
  diskOnly?: boolean;
  durable: boolean;
  failure?: string;
  folders?: Array<string>;
  gone?: boolean;
  host?: string;
  id: string;
  image: string;
  key?: string;
  memory: boolean;
  mounts?: Array<VolumeAt>;
  name?: string;
  noMemory?: boolean;
  note?: string;
  parent?: string;
  pauseMs: number;
  persistence?: Persistence;
  published?: Array<PublishedAs>;
  sealKey?: string;
  sealed?: boolean;
  size: Size;
  snapshot?: string;
  stat?: DiffStat;
  statTo?: string;
  state: string;
  synced?: boolean;
  template?: Template;
  turn?: number;
  usedAt?: string;
  vm?: string;
  vmName?: string;
  volumesSeen?: Array<string>;
  why: string;
}

export interface Git {
  config?: Record<string, unknown>;
  repos?: Array<Repo>;
}

export interface GitAuthor {
  date?: string | null;
  email?: string;
  name?: string;
}

export interface GitBlob {
  content: string;
  encoding: string;
  sha: string;
  size: number;
}

export interface GitCommit {
  author: Person;
  committer: Person;
  message: string;
  parents: Array<GitObject>;
  sha: string;
  tree: GitObject;
}

export interface GitComparison {
  ahead_by: number;
  behind_by: number;
  files: Array<ComparedFile>;
  status: string;
  total_commits: number;
}

export interface GitObject {
  sha: string;
}

export interface GitRepo {
  accountId: string;
  bytes: number;
  createdAt: string;
  defaultBranch: string;
  id: string;
  name?: string;
  protectedBranches: Array<string>;
  pushedAt?: string;
  visibility: string;
}

export interface GitTree {
  sha: string;
  tree: Array<GitTreeEntry>;
}

export interface GitTreeEntry {
  mode: string;
  path: string;
  sha: string;
  size?: number;
  type: string;
}

export interface GrantRepo {
  branches?: Array<string>;
  permission?: string;
}

export interface GrantVM {
  allowedUsers?: Array<string> | null;
  ask?: Array<string> | null;
}

export interface GrantVMRepo {
  access?: string;
  branches?: Array<string>;
}

export interface GrantedRepo {
  accountId: string;
  id: string;
  name?: string;
  permissions: string;
  visibility: string;
}

export interface GrantedRepoList {
  repositories: Array<GrantedRepo>;
}

export interface Group {
  gid?: number | null;
  name?: string;
  system?: boolean;
}

export interface GuestMount {
  freeBytes?: number;
  freeFiles?: number;
  path: string;
  readOnly?: boolean;
  source: string;
  totalBytes?: number;
  totalFiles?: number;
  type: string;
}

export interface GuestPort {
  address: string;
  command?: string;
  pid?: number;
  port: number;
  probe: Probe;
  proto: string;
}

export interface GuestProcess {
  command: string;
  cpuSeconds: number;
  cwd?: string;
  exec?: string;
  pid: number;
  ppid: number;
  rss: number;
  startedAt: string;
  state: string;
  system?: boolean;
  terminal?: string;
  unit?: string;
  user: string;
  waits?: string;
}

export interface GuestRole {
  alive: boolean;
  pid: number;
  program: string;
  role: string;
  seen: string;
  why: string;
}

export interface GuestService {
  active: string;
  description?: string;
  name: string;
  sub: string;
}

export interface GuestState {
  from: string;
  generation?: string;
  id: string;
  live: boolean;
  losses: Array<string> | null;
  mounts: Array<GuestMount> | null;
  name: string;
  parent?: string;
  ports: Array<GuestPort> | null;
  problems: Array<string> | null;
  processes: Array<GuestProcess> | null;
  restored: Array<string> | null;
  roles: Array<GuestRole> | null;
  services: Array<GuestService> | null;
  startedAt?: string;
  state: State;
  terminals: Array<GuestTerminal> | null;
  time: string;
  uptimeSeconds?: number;
}

export interface GuestTerminal {
  command?: string;
  cwd?: string;
  foreground?: number;
  leader?: number;
  name: string;
  shell?: string;
  user?: string;
  waits?: string;
}

export interface Health {
  status: string;
  version: string;
}

export interface HiddenDir {
  group: string;
  own?: boolean;
  path: string | {
    bytes: string;
    quoted: string;
  };
  reason: string;
  stat: DiffStat;
}

export interface Hold {
  by: Actor;
  createdAt: string;
  host?: string;
  id: string;
  reason?: string;
  until: string;
  vmId: string;
}

export interface HoldList {
  holds: Array<Hold>;
}

export interface Host {
  accel: string;
  cpu: string;
  cpus: number;
  diskFreeBytes: number;
  diskTotalBytes: number;
  machine: string;
  memAvailableBytes: number;
  memTotalBytes: number;
  pool: Pool;
  qemu: string;
  qemuVersion: string;
  version: string;
  vms: Record<string, number>;
  warnings: Array<string>;
}

export interface Identity {
  createdAt: string;
  id: string;
  managed: boolean;
  name?: string;
}

export interface IdentityList {
  identities: Array<Identity>;
  offset: number;
  total: number;
}

export interface Idle {
  asleepFor?: string;
  asleepSince?: string;
  awake: Array<Keeper> | null;
  holds: Array<Hold> | null;
  idleSince?: string;
  idleTimeoutSeconds: number | null;
  lastActivity?: string;
  lastKind?: string;
  name?: string;
  never?: string;
  onIdle: string;
  sleepsAt?: string;
  state: State;
  vmId: string;
}

export interface Image {
  buildSeconds: number;
  cmdline: string;
  container?: ContainerImage;
  createdAt: string;
  diskBytes: number;
  diskMib: number;
  files: Array<ImageFile> | null;
  format: number;
  hostCas?: Array<string>;
  id: string;
  kernel: string;
  memoryMib?: number;
  name: string;
  packages: number;
  recipe: string;
  registries: Array<Registry> | null;
  snapshot: string;
  workdir?: string;
}

export interface ImageFile {
  crc32c?: Array<number>;
  name: string;
  sha256?: string;
  size: number;
}

export interface ImageList {
  images: Array<Image>;
}

export interface Inspection {
  diskBytes: number;
  image?: Image;
  machine?: MachineStatus;
  machineError?: string;
  usage: Usage;
  vm: VM;
  warnings: Array<string>;
}

export interface Job {
  accountId: string;
  complete: boolean;
  credentialsConfirmed?: boolean;
  ended: string;
  host?: string;
  keptSnapshots?: Array<string>;
  label?: string;
  name?: string;
  remains: Remaining;
  retention: string;
  shipped?: Array<Shipped>;
  started?: string;
  steps: Array<JobStep> | null;
  vmId: string;
}

export interface JobList {
  jobs: Array<Job>;
}

export interface JobStep {
  state: string;
  step: string;
  why: string;
}

export interface KeepVM {
  over?: string;
  remove?: boolean;
  removeOthers?: boolean;
}

export interface Keeper {
  count?: number;
  holdId?: string;
  kind?: string;
  operation?: string;
  until?: string;
  why: string;
}

export interface KeptVM {
  over: VM;
  removed?: Array<string>;
  vm: VM;
}

export interface Key {
  account: string;
  createdAt: string;
  id: string;
  lastUsed?: string;
  name?: string;
}

export interface KeyList {
  keys: Array<Key>;
}

export interface KeyScreen {
  keys?: string;
}

export interface KilledVM {
  id: string;
}

export type Kind = "internal" | "invalid" | "not-found" | "unauthenticated" | "denied" | "exists" | "state" | "busy" | "limit" | "no-space" | "unsupported" | "unavailable" | "timeout" | "guest" | "corrupt" | "cancelled";

export interface LabelVM {
  labels?: Record<string, string | null>;
}

export interface Layer {
  additionalFiles?: Record<string, File>;
  aptDeps?: Array<string>;
  baseImage?: BaseImage | null;
  discriminator?: unknown;
  dockerCredentials?: unknown;
  git?: Git | null;
  gitRepos?: Array<Repo>;
  groups?: Array<Group>;
  idleTimeoutSeconds?: number | null;
  memSizeGb?: number;
  memSizeMib?: number;
  name?: string | null;
  nics?: unknown;
  persistence?: Persistence | null;
  ports?: unknown;
  readySignalTimeoutSeconds?: number | null;
  rootfsSizeGb?: number;
  skipCache?: boolean;
  snapshot?: Layer | null;
  snapshotId?: string;
  systemd?: Systemd | null;
  udpHolePunchPorts?: unknown;
  users?: Array<User>;
  vcpuCount?: number;
  waitForReadySignal?: boolean | null;
  workdir?: string;
}

export interface LeftOut {
  bytes?: number;
  examples?: Array<string | {
    bytes: string;
    quoted: string;
  }>;
  files: number;
  reason: string;
}

export interface LifecycleRule {
  abortDays?: number;
  expireDays?: number;
  id?: string;
  keepVersions?: number;
  oldDays?: number;
  prefix?: string;
}

export interface LineMatch {
  contextAfter: Array<string> | null;
  contextBefore: Array<string> | null;
  endColumn: number;
  line: string;
  lineNumber: number;
  startColumn: number;
}

export interface Lineage {
  generations: Array<Generation>;
  vms: Array<VM>;
}

export interface ListedBranch {
  default: boolean;
  name: string;
  target: string | null;
}

export interface ListedRepo {
  accountId: string;
  branches: Record<string, ListedBranch>;
  bytes: number;
  createdAt: string;
  defaultBranch: string;
  id: string;
  name?: string;
  protectedBranches: Array<string>;
  pushedAt?: string;
  tags: Record<string, ListedTag>;
  visibility: string;
}

export interface ListedTag {
  message: string | null;
  name: string;
  target: string;
}

export interface ListeningPort {
  address: string;
  command?: string;
  pid?: number;
  port: number;
  proto: string;
}

export interface LockVolume {
  force?: boolean;
}

export interface LogLine {
  message: string;
  timestamp: string;
}

export interface Logs {
  logs: Array<LogLine>;
  nextPageToken: string | null;
}

export interface MachineStatus {
  agent: AgentHello;
  confined?: Array<string>;
  cpu: number;
  folders?: Array<string>;
  id: string;
  monRss: number;
  monitorPid: number;
  plugged?: Plugged;
  protocol: number;
  pss: number;
  qemuPid: number;
  ram?: string;
  ready: boolean;
  resets?: Record<string, string>;
  rss: number;
  runState: string;
  rxBytes: number;
  size: Size;
  startedAt: string;
  timings?: Record<string, number>;
  txBytes: number;
}

export interface Mapping {
  certificate?: string;
  createdAt: string;
  domain: string;
  id: string;
  ownershipId: string;
  url?: string;
  vmId: string;
  vmPort: number;
}

export interface MarkTurn {
  diskOnly?: boolean;
  note?: string;
}

export interface Memory {
  account: string;
  at?: string;
  branch: string;
  bytes: number;
  commit?: string;
  enabled: boolean;
  error?: string;
  files: number;
  from?: string;
  host?: string;
  leftOut?: Array<LeftOut>;
  recent?: Array<MemoryCommit>;
  repo: string;
  repoName?: string;
  secrets?: Array<FoundSecret>;
  vm: string;
  vmName?: string;
}

export interface MemoryCommit {
  at: string;
  commit: string;
}

export interface MemoryLog {
  commits: Array<Commit>;
}

export interface MemoryModule {
  id: string;
  mib: number;
}

export interface Metrics {
  billingDay: string;
  isActiveToday: boolean;
  wallTimeSeconds: number;
}

export interface Mount {
  cut?: boolean;
  host?: string;
  path: string;
  project: string;
  rw: boolean;
  share?: boolean;
  since?: string;
  vm?: string;
  vmId: string;
  volume: string;
  volumeId: string;
}

export interface MountList {
  mounts: Array<Mount>;
}

export interface MoveScreen {
  x?: number;
  y?: number;
}

export interface NameSnapshot {
  name?: string;
}

export interface NestedRepo {
  bare?: boolean;
  headNow?: string;
  headWas?: string;
  ignored?: number;
  notes?: Array<string>;
  path: string | {
    bytes: string;
    quoted: string;
  };
  submodule?: boolean;
  untracked?: number;
}

export interface NetAnswer {
  allowed: boolean;
  how: string;
  next?: string;
  policy?: string;
  reason: string;
  rule?: NetRule;
}

export interface NetLimit {
  bytes?: number;
  connections?: number;
  rate?: number;
}

export interface NetQuestion {
  host?: string;
  method?: string;
  path?: string;
  port?: number;
  proto?: string;
}

export interface NetRefusal {
  count: number;
  host: string;
  last: string;
  method?: string;
  now: NetAnswer;
  path?: string;
  port?: number;
  proto: string;
  reason: string;
  rule?: string;
}

export interface NetRefusals {
  refusals: Array<NetRefusal>;
}

export interface NetRule {
  action?: string;
  from?: string;
  id?: string;
  limit?: NetLimit;
  methods?: Array<string> | null;
  paths?: Array<string> | null;
  ports?: Array<PortRange> | null;
  proto?: string;
  to?: string;
  until?: string;
}

export interface Network {
  digest: string;
  mode: string;
  policies: Array<string>;
  registries: Array<Registry>;
  rules: Array<NetRule>;
  secrets: Array<NetworkUse>;
}

export interface NetworkRequest {
  mode?: string;
  policies?: Array<string> | null;
  rules?: Array<NetRule> | null;
}

export interface NetworkUse {
  header: string;
  host: string;
  methods?: Array<string>;
  name: string;
  paths?: Array<string>;
  port: number;
}

export interface NewAccount {
  name?: string;
}

export interface NewBranch {
  sha?: string;
}

export interface NewBucket {
  name?: string;
}

export interface NewCommit {
  author?: GitAuthor | null;
  branch?: string;
  expectedSha?: string;
  files?: Array<FileChange>;
  message?: string;
}

export interface NewDNSRecord {
  domain?: string;
  record?: DNSRecord;
}

export interface NewHold {
  reason?: string;
  seconds?: number | null;
}

export interface NewIdentity {
  name?: string;
}

export interface NewKey {
  account?: string;
  name?: string;
}

export interface NewLink {
  forSeconds?: number;
  watch?: boolean;
}

export interface NewMapping {
  deploymentId?: string;
  domain?: string;
  vmId?: string;
  vmPort?: number;
}

export interface NewMount {
  fixture?: boolean;
  host?: string;
  over?: boolean;
  path?: string;
  project?: string;
  rw?: boolean;
  share?: boolean;
  volume?: string;
}

export interface NewPlainCommit {
  author?: GitAuthor | null;
  committer?: GitAuthor | null;
  message?: string;
  parents?: Array<string>;
  tree?: string;
}

export interface NewRepo {
  defaultBranch?: string;
  import?: RepoImport | null;
  name?: string;
  public?: boolean;
  source?: RepoSource | null;
}

export interface NewS3Key {
  identity?: string;
  name?: string;
}

export interface NewSSHKey {
  forwardAgent?: boolean;
  name?: string;
  publicKey?: string;
}

export interface NewToken {
  expiresAt?: string | null;
  ttlSeconds?: number | null;
}

export interface NewTrigger {
  action?: TriggerDoes;
  secret?: string;
  trigger?: TriggerOn;
}

export interface NewVolume {
  name?: string;
  passphrase?: string;
  project?: string;
  recipient?: string;
  sizeMib?: number;
}

export interface NewVolumeSnapshot {
  name?: string;
}

export interface OAuth {
  clientId?: string;
  clientSecret?: string;
  revokeUrl?: string;
  scope?: string;
  tokenUrl?: string;
}

export interface Object {
  at: string;
  bucket: string;
  by?: string;
  checksumType?: string;
  checksums?: Record<string, string>;
  contentType?: string;
  deleted?: boolean;
  etag?: string;
  headers?: Record<string, string>;
  hold?: boolean;
  key: string;
  latest: boolean;
  meta?: Record<string, string>;
  origin?: ObjectOrigin;
  parts?: number;
  retain?: string;
  retainTo?: string;
  scan?: string;
  scanReason?: string;
  sha256?: string;
  size: number;
  tags?: Record<string, string>;
  version: string;
}

export interface ObjectList {
  next?: string;
  nextVersion?: string;
  objects: Array<Object>;
  prefixes?: Array<string>;
}

export interface ObjectOrigin {
  command?: string;
  generation?: string;
  mode?: number;
  name?: string;
  path?: string;
  receipt?: string;
  tree?: boolean;
  vm?: string;
}

export interface ObjectRef {
  bucket?: string;
  key?: string;
  version?: string;
}

export interface ObjectTags {
  tags?: Record<string, string>;
}

export interface OnlyHere {
  bytes: number;
  claimed?: number;
  claimedBytes?: number;
  commits: number;
  examples?: Array<string | {
    bytes: string;
    quoted: string;
  }>;
  files: number;
  ignored: number;
  ignoredBytes: number;
  moreCommits?: boolean;
  newest?: ClonedCommit;
}

export interface OpenPort {
  port: number;
}

export interface OpenedBundle {
  bucket: string;
  memory: boolean;
  name: string;
  notes: Array<string>;
  objects: number;
  receipts: number;
  repositories: Array<OpenedRepository>;
  server: string;
  signer: string;
  state: State;
  vmId: string;
}

export interface OpenedRepository {
  id: string;
  name: string;
}

export interface OwnedDomain {
  accountId: string;
  createdAt: string;
  deployToDomain: boolean;
  deployToSubdomains: boolean;
  domain: string;
  id: string;
  implicitlyOwned: boolean;
  manageDns: boolean;
  verifiedDns: boolean;
}

export interface PathPlace {
  kind: string;
  path: string;
  void: boolean;
  why?: string;
}

export interface PathRuleShown {
  action: string;
  from?: string;
  id?: string;
  path: string;
  places: Array<PathPlace> | null;
}

export interface PathRules {
  rules: Array<PathRuleShown>;
}

export interface Persistence {
  deleteEvent?: string;
  priority?: number | null;
  type?: string;
}

export interface Person {
  date: string;
  email: string;
  name: string;
}

export interface PlannedFile {
  additions: number;
  binary?: boolean;
  deletions: number;
  path: string | {
    bytes: string;
    quoted: string;
  };
  verb: string;
}

export interface Plugged {
  bootMemoryMib?: number;
  bootVcpu?: number;
  cpus?: number;
  modules?: Array<MemoryModule>;
  volumes?: Array<PluggedVolume>;
}

export interface PluggedVolume {
  cut?: boolean;
  file: string;
  id: string;
  port: number;
  readOnly?: boolean;
  share?: boolean;
  sizeMib?: number;
}

export interface Policy {
  about?: string;
  createdAt?: string;
  mode?: string;
  name: string;
  rules: Array<NetRule>;
  shipped: boolean;
  updatedAt?: string;
  vms: Array<PolicyVM>;
}

export interface PolicyList {
  policies: Array<Policy>;
}

export interface PolicyVM {
  id: string;
  name?: string;
  why?: string;
}

export interface Pool {
  hits: number;
  misses: number;
  ready: number;
  size: number;
}

export interface PortRange {
  first?: number;
  last?: number;
}

export interface Ports {
  ports: Array<ListeningPort>;
}

export interface Preview {
  port: number;
  public: boolean;
  url: string;
  vm: string;
}

export interface PreviewLink {
  expiresAt: string;
  url: string;
}

export interface PreviewList {
  previews: Array<Preview>;
}

export interface Probe {
  answer?: string;
  from?: string;
  kind: string;
  ms?: number;
  ok: boolean;
  server?: string;
  status?: number;
  why?: string;
}

export interface Process {
  argv: Array<string> | null;
  background: boolean;
  cwd: string;
  endedAt?: string;
  exitCode?: number;
  id: string;
  logBytes: number;
  logStart: number;
  pid: number;
  signal?: string;
  startedAt: string;
  timedOut?: boolean;
  user: string;
}

export interface ProcessList {
  processes: Array<Process>;
}

export interface ProtectedBranches {
  branches: Array<string>;
}

export interface Prune {
  dryRun?: boolean;
  freeBytes?: number;
}

export interface PruneAudit {
  before?: string;
}

export interface Pruned {
  dryRun: boolean;
  freesBytes: number;
  gone: Array<StorageItem> | null;
  leftBytes: number;
  overBytes: number;
}

export interface PtyCursor {
  visible: boolean;
  x: number;
  y: number;
}

export interface PtyInput {
  data?: string;
  timeoutMs?: number | null;
  waitQuietMs?: number | null;
}

export interface PtyOutput {
  exitCode?: number;
  offset: number;
  output: string;
  quiet: boolean;
  running: boolean;
  screen: string;
}

export interface PtyRun {
  attributes?: Array<string>;
  bg?: string;
  fg?: string;
  text: string;
  x: number;
}

export interface PtyScreen {
  alternate: boolean;
  bracketedPaste: boolean;
  cols: number;
  cursor: PtyCursor;
  exitCode?: number;
  lines: Array<Array<PtyRun>>;
  offset: number;
  rows: number;
  running: boolean;
  sessionId: string;
  text: string;
  title?: string;
}

export interface PtySession {
  attachedCount: number;
  cols: number;
  createdAtMs: number;
  endOffset: number;
  exec?: string;
  exitCode?: number;
  exitedAtMs?: number;
  lost?: boolean;
  pid: number;
  rows: number;
  running: boolean;
  sessionId: string;
  startOffset: number;
  suspended?: boolean;
  title?: string;
  user: string | null;
}

export interface PtySessionList {
  sessions: Array<PtySession>;
}

export interface PublishRequest {
  allowSecrets?: Array<string | {
    bytes: string;
    quoted: string;
  }> | null;
  bucket?: string;
  command?: string;
  generation?: string;
  key?: string;
  maxBytes?: number;
  new?: boolean;
  path?: string | {
    bytes: string;
    quoted: string;
  };
  tags?: Record<string, string> | null;
}

export interface Published {
  bytes: number;
  files: number;
  generation: string;
  leftOut?: Array<string | {
    bytes: string;
    quoted: string;
  }>;
  leftOutCount?: number;
  object: Object;
  path: string | {
    bytes: string;
    quoted: string;
  };
  tree: boolean;
  vmId: string;
}

export interface PublishedAs {
  bucket: string;
  key: string;
  path: string | {
    bytes: string;
    quoted: string;
  };
  sha256: string;
  version?: string;
}

export interface Quota {
  diskBytes?: number;
  memoryImagesBytes?: number;
  memoryMib?: number;
  running?: number;
  snapshots?: number;
  vcpu?: number;
  vms?: number;
}

export interface QuotaState {
  account: string;
  diskDefaultBytes?: number;
  name: string;
  quota: Quota;
  use: Quota;
}

export interface Receipt {
  checkpoint: Checkpoint;
  key: string;
  kind: string;
  lines: Array<ReceiptLine> | null;
  made: string;
  signature?: string;
  summary: ReceiptSummary;
  version: number;
  vm: string;
  warren: string;
}

export interface ReceiptLine {
  proof: Array<string> | null;
  record: string;
  seq: number;
}

export interface ReceiptOut {
  op: string;
  receipt: string;
  sha256?: string;
  to?: string;
  what: string;
}

export interface ReceiptSummary {
  connected: number;
  from: string;
  locked: Record<string, string> | null;
  name?: string;
  networks: Array<string> | null;
  out: Array<ReceiptOut> | null;
  partial?: boolean;
  policies: Record<string, unknown> | null;
  records: number;
  refused: number;
  secrets: Array<string> | null;
  to: string;
}

export interface Ref {
  name: string;
  sha: string;
}

export interface RefChange {
  after?: string;
  before?: string;
  ref: string;
}

export interface Registry {
  host: string;
  manager: string;
  port: number;
}

export interface Remaining {
  artifacts?: Array<Artifact>;
  copies: Array<Copy> | null;
  credentials?: Array<Credential>;
  diskBytes: number;
  folders: Array<Folder> | null;
  forks: Array<RemainingVM> | null;
  logBytes: number;
  memoryBytes: number;
  name?: string;
  omitted?: Record<string, number>;
  otherBytes: number;
  receipts: Array<string> | null;
  snapshots: Array<RemainingSnapshot> | null;
  state?: State;
  vmId: string;
  volumes: Array<RemainingVolume> | null;
}

export interface RemainingSnapshot {
  bytes: number;
  memory: boolean;
  name?: string;
  snapshotId: string;
}

export interface RemainingVM {
  name?: string;
  state: State;
  vmId: string;
}

export interface RemainingVolume {
  bytes: number;
  id: string;
  name: string;
  path?: string;
  project: string;
  unlocked: boolean;
  usedBy?: Array<string>;
}

export interface Remains {
  diskBytes: number;
  erase: string;
  logBytes: number;
}

export interface RemovedService {
  message: string;
  success: boolean;
}

export interface RenameVM {
  name?: string;
}

export interface Repo {
  path?: string;
  repo?: string;
  rev?: string;
}

export interface RepoContent {
  content?: string;
  entries?: Array<RepoContent>;
  name: string;
  path: string;
  sha: string;
  size?: number;
  type: string;
}

export interface RepoFiles {
  files: Array<FoundFile> | null;
  hasMore: boolean;
  totalFiles: number;
}

export interface RepoImport {
  authorEmail?: string;
  authorName?: string;
  commitMessage?: string;
  dir?: string;
  files?: Record<string, string>;
  rev?: string;
  type?: string;
  url?: string;
}

export interface RepoList {
  offset: number;
  repositories: Array<ListedRepo>;
  total: number;
}

export interface RepoPermission {
  accessLevel: string | null;
  identity: string;
  repo: string;
}

export interface RepoSearch {
  files: Array<FoundText> | null;
  hasMore: boolean;
  totalFiles: number;
  totalMatches: number;
}

export interface RepoSource {
  allBranches?: boolean;
  branch?: string;
  depth?: number;
  rev?: string;
  url?: string;
}

export interface RepoVisibility {
  visibility?: string;
}

export interface ResizeVolume {
  sizeMib?: number;
}

export interface ResizedVM {
  how: Record<string, string>;
  losses?: Array<string>;
  sizing: Sizing;
  why?: Record<string, string>;
}

export interface RestartPolicy {
  policy?: string;
  restartSec?: number | null;
  startLimitBurst?: number | null;
  startLimitIntervalSec?: number | null;
}

export interface RestoreRequest {
  dryRun?: boolean;
  from?: string;
  ifUnchanged?: string;
  noTurn?: boolean;
  path?: string | {
    bytes: string;
    quoted: string;
  };
}

export interface Restored {
  changes: Array<ChangedFile> | null;
  dryRun?: boolean;
  from: DiffSide;
  more?: number;
  notKept?: Array<string>;
  path: string | {
    bytes: string;
    quoted: string;
  };
  stat: DiffStat;
  state: string;
  turn?: Turn;
}

export interface RetainDefault {
  days?: number;
  mode?: string;
}

export interface RetainObject {
  bypass?: boolean;
  hold?: boolean | null;
  mode?: string;
  until?: string;
}

export interface RollbackMemory {
  commit?: string;
}

export interface RollbackVM {
  to?: string;
  volumes?: string;
}

export interface RollbackVolume {
  to?: string;
}

export interface RolledBackVM {
  before: Generation;
  id: string;
  notUndone: Array<string>;
  to: Generation;
  vm: VM;
}

export interface RolledBackVolume {
  before: VolumeSnapshot;
  createdAt: string;
  formatted: boolean;
  id: string;
  keys?: Array<VolumeSlot>;
  locksAt?: string;
  mounts: Array<Mount>;
  name: string;
  project: string;
  sensitive: boolean;
  sizeMib: number;
  snapshots?: Array<VolumeSnapshot>;
  state: string;
  unlockedAt?: string;
  usedBytes: number;
}

export interface RotateAuditKey {
  to?: string;
}

export interface S3Key {
  accessKeyId: string;
  createdAt: string;
  identityId?: string;
  lastUsed?: string;
  links?: boolean;
  name?: string;
}

export interface S3KeyList {
  keys: Array<S3Key>;
}

export interface SSHInfo {
  address: string;
  hostKey: string;
}

export interface SSHKey {
  createdAt: string;
  fingerprint: string;
  forwardAgent: boolean;
  id: string;
  name: string;
  publicKey: string;
}

export interface SSHKeyList {
  keys: Array<SSHKey>;
}

export interface SandboxDefaults {
  env?: Record<string, string>;
  user?: string;
  workdir?: string;
}

export interface Schedule {
  captureEverySeconds?: number;
}

export interface ScreenSize {
  height: number;
  width: number;
}

export interface ScrollScreen {
  steps?: number;
  x?: number;
  y?: number;
}

export interface Secret {
  createdAt: string;
  env: string;
  header: string;
  host: string;
  methods?: Array<string>;
  name: string;
  oauth?: OAuth;
  paths?: Array<string>;
  port: number;
  replaced?: boolean;
  rotateUrl?: string;
  rotatedAt?: string;
  vms?: Array<SecretVM>;
}

export interface SecretList {
  secrets: Array<Secret>;
}

export interface SecretVM {
  id: string;
  name?: string;
  placeholder: string;
  reachable: boolean;
}

export interface ServiceID {
  id?: string;
}

export interface ServiceIDs {
  services?: Array<ServiceID>;
}

export interface ServiceList {
  services: Array<ServiceName>;
}

export interface ServiceLogs {
  logs: Array<UnitLog>;
}

export interface ServiceName {
  activeState?: string;
  description?: string;
  name: string;
  subState?: string;
}

export interface ServiceResults {
  results: Array<UnitResult>;
}

export interface SetNetwork {
  dryRun?: boolean;
  force?: boolean;
  mode?: string;
  network?: string | NetworkRequest;
  policies?: Array<string>;
  rules?: Array<NetRule>;
}

export interface SetOnBoot {
  onBoot?: string;
}

export interface SetPaths {
  rules?: Array<AddPath>;
}

export interface SetPolicy {
  network?: string | NetworkRequest;
}

export interface SetPreview {
  public?: boolean;
}

export interface SetSecret {
  env?: string;
  header?: string;
  host?: string;
  methods?: Array<string>;
  name?: string;
  oauth?: OAuth | null;
  paths?: Array<string>;
  port?: number;
  rotateUrl?: string;
  value?: string;
}

export interface Shipped {
  bucket: string;
  key: string;
  sha256: string;
  size: number;
  version?: string;
  what: string;
}

export interface Shredded {
  readable: Array<string> | null;
  unreadable: Array<string> | null;
}

export interface SignObject {
  filename?: string;
  method?: string;
  seconds?: number;
  version?: string;
}

export interface Signal {
  signal?: string;
}

export interface SignedObject {
  expiresAt: string;
  method: string;
  url: string;
}

export interface Signer {
  fingerprint: string;
}

export interface Size {
  memSizeMib: number;
  rootfsSizeMib: number;
  vcpuCount: number;
}

export interface Sizes {
  memSizeGb?: number;
  memSizeMib?: number;
  rootfsSizeGb?: number;
  vcpuCount?: number;
}

export interface Sizing {
  memSizeMib: number;
  rootfsSizeMb: number;
  vcpuCount: number;
}

export interface Snapshot {
  accountId: string;
  buildId?: string;
  cancelled: boolean;
  createdAt: string;
  dataBytes?: number;
  deleted: boolean;
  failed: boolean;
  failureReason?: string;
  generationId?: string;
  lost: boolean;
  mayContain?: Array<string>;
  memSizeMib: number;
  memory?: boolean;
  name?: string;
  parent?: string;
  pauseMs?: number;
  rootfsSizeMb: number;
  snapshotId: string;
  snapshotPersistence: Persistence;
  sourceVmId?: string;
  sourceVmName?: string;
  state: string;
  vcpuCount: number;
  volumesSeen?: Array<string>;
  why?: string;
}

export interface SnapshotList {
  buildingCount: number;
  cancelledCount: number;
  deletedCount: number;
  failedCount: number;
  lostCount: number;
  readyCount: number;
  snapshots: Array<Snapshot>;
  totalCount: number;
}

export interface StartVM {
  diskOnly?: boolean;
  idleTimeoutSeconds?: number | null;
  readySignalTimeoutSeconds?: number | null;
  waitForReadySignal?: boolean | null;
}

export interface StartedProcess {
  argv: Array<string> | null;
  background: boolean;
  cwd: string;
  endedAt?: string;
  exitCode?: number;
  id: string;
  logBytes: number;
  logStart: number;
  pid: number;
  signal?: string;
  startedAt: string;
  timedOut?: boolean;
  turn?: Turn;
  user: string;
}

export interface StartedVM {
  console_url: string | null;
  domains: Array<string>;
  id: string;
  vm: VM;
}

export type State = "building" | "starting" | "running" | "suspending" | "suspended" | "stopped" | "lost";

export interface Stats {
  cpuSeconds: number;
  diskFreeBytes: number;
  diskTotalBytes: number;
  load1: number;
  memAvailableBytes: number;
  memTotalBytes: number;
  ports: Array<ListeningPort> | null;
  processes: Array<SystemProcess> | null;
  time: string;
  uptimeSeconds: number;
  vcpuCount: number;
}

export interface StoppedVM {
  remains: Remains;
  vmId: string;
  vmInstanceId: string;
}

export interface Storage {
  accounts: Array<AccountStorage> | null;
  availableBytes: number;
  budgetBytes: number;
  diskFreeBytes?: number;
  diskTotalBytes?: number;
  items: Array<StorageItem> | null;
  overBytes: number;
  path?: string;
  reserveBytes?: number;
  usedBytes: number;
}

export interface StorageItem {
  account?: string;
  freesBytes?: number;
  goes?: boolean;
  id: string;
  kept?: string;
  kind: string;
  lastActive?: string;
  name?: string;
  next?: number;
  persistence?: Persistence;
  sharedBytes: number;
  snapshot?: string;
  state?: State;
  uniqueBytes: number;
  why?: string;
}

export interface SuspendVM {
  cold?: boolean;
}

export interface SuspendedVM {
  id: string;
  memoryBytes: number;
  remains: Remains;
  snapshotLayerId: string;
  vmInstanceId: string;
}

export interface SweptObjects {
  aborted: number;
  expired: number;
  removed: number;
}

export interface SystemChange {
  guestReported?: boolean;
  kind: string;
  name: string;
  now?: string;
  verb: string;
  was?: string;
}

export interface SystemProcess {
  command: string;
  cpuSeconds: number;
  pid: number;
  ppid: number;
  rss: number;
  state: string;
  user: string;
}

export interface Systemd {
  patchedServices?: Array<Unit>;
  services?: Array<Unit>;
}

export interface Tag {
  message: string | null;
  name: string;
  sha: string;
  tagger: Person | null;
  target: GitObject;
}

export interface TagList {
  tags: Array<Tag>;
}

export interface TakeSnapshot {
  diskOnly?: boolean;
  name?: string;
  persistence?: Persistence | null;
  volumes?: string;
}

export interface TakenSnapshot {
  snapshot: Snapshot;
  snapshotId: string;
  sourceVmId: string;
  sourceVmInstanceId?: string;
}

export interface Template {
  build?: string;
  defaults: SandboxDefaults;
  name?: string;
  tags?: Array<TemplateTag>;
}

export interface TemplateTag {
  at: string;
  name: string;
}

export interface Token {
  createdAt: string;
  expiresAt?: string;
  id: string;
  lastUsed?: string;
}

export interface TokenList {
  tokens: Array<Token>;
}

export interface Top {
  blocked: Array<Blocked> | null;
  cpuPercent: number | null;
  cpuSeconds: number;
  id: string;
  live: boolean;
  load1: number;
  logs: Array<TopLog> | null;
  memAvailableBytes: number;
  memTotalBytes: number;
  mounts: Array<GuestMount> | null;
  name: string;
  ports: Array<ListeningPort> | null;
  problems: Array<string> | null;
  processes: Array<TopProcess> | null;
  services: Array<GuestService> | null;
  state: State;
  time: string;
  uptimeSeconds: number;
  vcpuCount: number;
  why?: string;
}

export interface TopLog {
  source: string;
  text: string;
}

export interface TopProcess {
  command: string;
  cpuPercent: number;
  cpuSeconds: number;
  cwd?: string;
  exec?: string;
  pid: number;
  ppid: number;
  rss: number;
  startedAt: string;
  state: string;
  system?: boolean;
  terminal?: string;
  unit?: string;
  user: string;
  waits?: string;
}

export interface TreeFailed {
  op: number;
  why: string;
}

export interface TreePick {
  names?: Array<string | {
    bytes: string;
    quoted: string;
  }> | null;
}

export interface TreePlaced {
  done: number;
  failed: Array<TreeFailed> | null;
}

export interface Trigger {
  action: TriggerDoes;
  createdAt: string;
  id: string;
  managed: boolean;
  repositoryId: string;
  trigger: TriggerOn;
}

export interface TriggerDoes {
  action?: string;
  endpoint?: string;
}

export interface TriggerList {
  triggers: Array<Trigger>;
}

export interface TriggerOn {
  branches?: Array<string> | null;
  event?: string;
  globs?: Array<string> | null;
}

export interface Truth {
  at: string;
  generation: string;
  kept?: Array<DataCopy>;
  notChecked?: Array<string>;
  only: OnlyHere;
  state: State;
  trees: Array<TruthTree> | null;
  vm: string;
  vmName?: string;
  workdir?: string;
}

export interface TruthTree {
  authority: DataCopy;
  clone?: Clone;
  copies?: Array<DataCopy>;
  differs: DiffStat;
  kind: string;
  notes?: Array<string>;
  only: OnlyHere;
  path: string | {
    bytes: string;
    quoted: string;
  };
  stays: boolean;
}

export interface Turn {
  actor: string;
  at: string;
  commit?: string;
  commitRepo?: string;
  id: string;
  memory: boolean;
  note: string;
  number: number;
  pauseMs: number;
  stat: DiffStat | null;
  statError?: string;
  vm: string;
}

export interface TurnList {
  turns: Array<Turn>;
}

export interface TypeScreen {
  text?: string;
}

export interface UndoVM {
  turn?: string;
  volumes?: string;
}

export interface UndoneVM {
  before: string;
  id: string;
  notUndone: Array<string>;
  turn: Turn;
  vm: VM;
}

export interface Undrained {
  resumed: number;
}

export interface Unit {
  after?: Array<string> | null;
  deleteAfterSuccess?: boolean | null;
  enable?: boolean | null;
  env?: Record<string, string> | null;
  exec?: Array<string> | null;
  group?: string | null;
  mode?: string;
  name?: string;
  onFailure?: Array<string> | null;
  readySignal?: boolean | null;
  remainAfterExit?: boolean | null;
  requires?: Array<string> | null;
  restartPolicy?: RestartPolicy | null;
  timeoutSec?: number | null;
  user?: string | null;
  wantedBy?: Array<string> | null;
  watchdogSec?: number | null;
  workdir?: string | null;
}

export interface UnitLog {
  message: string;
  priority?: number;
  timestamp: string;
  unit?: string;
}

export interface UnitResult {
  message: string;
  serviceId: string;
  success: boolean;
}

export interface UnitStatus {
  activeState: string;
  description: string;
  loadState: string;
  name: string;
  subState: string;
  unitFileState?: string;
}

export interface UnlockVolume {
  identity?: string;
  keepUnlocked?: boolean;
  passphrase?: string;
  ttlSeconds?: number;
}

export interface UnlockedVolume {
  createdAt: string;
  formatted: boolean;
  id: string;
  keys?: Array<VolumeSlot>;
  locksAt?: string;
  mounts: Array<Mount>;
  name: string;
  project: string;
  recovered?: boolean;
  sensitive: boolean;
  sizeMib: number;
  snapshots?: Array<VolumeSnapshot>;
  state: string;
  unlockedAt?: string;
  usedBytes: number;
}

export interface Usage {
  account: string;
  asOf?: string;
  bytesIn: number;
  bytesOut: number;
  cpuSeconds: number;
  day?: string;
  daySeconds: number;
  diskBytes: number;
  diskPeakBytes: number;
  gone?: string;
  memoryMibSeconds: number;
  name?: string;
  runningSeconds: number;
  since?: string;
  vmId?: string;
}

export interface UsageList {
  accounts: Array<Usage>;
  vms: Array<Usage>;
}

export interface User {
  gecos?: string;
  groups?: Array<string>;
  home?: string;
  name?: string;
  shell?: string;
  system?: boolean;
  uid?: number | null;
}

export interface VM {
  accel?: string;
  activityThresholdBytes?: number;
  buildId?: string;
  captureEverySeconds?: number;
  cpuTimeSeconds?: number;
  createdAt: string;
  expiresAt?: string;
  generationId?: string;
  headId?: string;
  id: string;
  idleStops?: boolean;
  idleTimeoutSeconds: number | null;
  image: string;
  imageId: string;
  labels?: Record<string, string>;
  lastNetworkActivity?: string;
  losses?: Array<string>;
  metrics?: Metrics;
  name?: string;
  network: string;
  networkPolicies?: Array<string>;
  networkRules?: number;
  onBoot?: string;
  oneShot?: boolean;
  operation?: string;
  parentVmId?: string;
  persistence: Persistence;
  profile?: string;
  reason?: string;
  recreate: boolean;
  restored?: Array<string>;
  sizing: Sizing;
  snapshotId?: string;
  startedAt?: string;
  state: State;
  ttlSeconds?: number;
  vmInstanceId?: string;
  warning?: string;
  workdir?: string;
}

export interface VMDomain {
  domain?: string;
  vmPort?: number;
}

export interface VMList {
  buildingCount: number;
  lostCount: number;
  runningCount: number;
  startingCount: number;
  stoppedCount: number;
  suspendedCount: number;
  suspendingCount: number;
  totalCount: number;
  vms: Array<VM>;
}

export interface VMPermission {
  allowedUsers: Array<string> | null;
  ask?: Array<string>;
  grantedAt: string;
  grantedBy: string;
  id: string;
  identityId: string;
  vmId: string;
}

export interface VMPermissionList {
  offset: number;
  permissions: Array<VMPermission>;
  total: number;
}

export interface VMRepo {
  access: string;
  branches: Array<string>;
  grantedAt: string;
  id: string;
  name?: string;
  url: string;
}

export interface VMRepos {
  repositories: Array<VMRepo>;
}

export interface Verification {
  accountId: string;
  createdAt: string;
  domain: string;
  id: string;
  verificationCode: string;
}

export interface VerifyAudit {
  acceptNewLog?: boolean;
  anchors?: Array<Checkpoint>;
}

export interface Volume {
  createdAt: string;
  formatted: boolean;
  id: string;
  keys?: Array<VolumeSlot>;
  locksAt?: string;
  mounts: Array<Mount>;
  name: string;
  project: string;
  sensitive: boolean;
  sizeMib: number;
  snapshots?: Array<VolumeSnapshot>;
  state: string;
  unlockedAt?: string;
  usedBytes: number;
}

export interface VolumeAt {
  id: string;
  name: string;
  path: string;
  project: string;
  rw?: boolean;
}

export interface VolumeList {
  volumes: Array<Volume>;
}

export interface VolumeSlot {
  createdAt: string;
  id: string;
  kind: string;
  name?: string;
  recipient?: string;
}

export interface VolumeSlotSpec {
  name?: string;
  passphrase?: string;
  recipient?: string;
}

export interface VolumeSnapshot {
  beforeRollback?: boolean;
  createdAt: string;
  formatted?: boolean;
  grown?: boolean;
  id: string;
  name?: string;
  pending?: boolean;
  sizeMib: number;
}

export interface WhoAmI {
  accountId: string;
  admin: boolean;
  identityId: string | null;
  keyId?: string;
  tokenId?: string;
}

export interface WrittenFile {
  file: FileInfo;
  sha256: string;
}
