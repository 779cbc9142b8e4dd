# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
#
# Made by tools/clienttypes from api/openapi.json: `make docs` writes it again.

"""What the API takes and answers."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class Account(TypedDict):
    admin: bool
    createdAt: str
    id: str
    name: str


class AccountList(TypedDict):
    accounts: list[Account]


class AccountStorage(TypedDict):
    account: str
    limitBytes: int
    memoryImageBytes: int
    name: str
    sharedBytes: int
    uniqueBytes: int


class Actor(TypedDict):
    account: str
    admin: NotRequired[bool]
    ask: NotRequired[str]
    identity: NotRequired[str]
    key: NotRequired[str]
    sshKey: NotRequired[str]
    system: NotRequired[str]
    token: NotRequired[str]
    vm: NotRequired[str]


class AddPath(TypedDict):
    action: NotRequired[str]
    mount: NotRequired[str]
    path: NotRequired[str]


class AddedService(TypedDict):
    message: str
    serviceName: str
    success: bool


class AgentHello(TypedDict):
    bootId: str
    booted: bool
    digest: str
    features: list[str] | None
    kernel: str
    protocol: int
    systemd: bool
    version: str


class Alert(TypedDict):
    kind: str
    paths: NotRequired[list[str | dict[str, Any]]]
    text: str


class ApproveAsk(TypedDict):
    forSeconds: NotRequired[int]
    note: NotRequired[str]


class Artifact(TypedDict):
    at: str
    bucket: str
    key: str
    path: NotRequired[str]
    receipt: str
    sha256: NotRequired[str]
    size: int
    version: NotRequired[str]


class Ask(TypedDict):
    account: str
    createdAt: str
    deadline: str
    decidedAt: NotRequired[str]
    decidedBy: NotRequired[str]
    details: NotRequired[dict[str, str]]
    digest: NotRequired[str]
    host: NotRequired[str]
    id: str
    identity: NotRequired[str]
    kind: str
    note: NotRequired[str]
    rule: NotRequired[NetRule]
    size: NotRequired[int]
    state: str
    verb: NotRequired[str]
    vm: NotRequired[str]
    what: str
    why: NotRequired[str]
    widens: NotRequired[list[str]]


class AskList(TypedDict):
    asks: list[Ask]


class AuditKey(TypedDict):
    fingerprint: str
    key: str


class AuditList(TypedDict):
    records: list[AuditRecord]


class AuditPruned(TypedDict):
    bytes: int
    receipt: NotRequired[str]
    records: int
    segments: int
    through: int


class AuditRecord(TypedDict):
    actor: Actor
    detail: NotRequired[dict[str, Any]]
    endedAt: NotRequired[str]
    error: NotRequired[str]
    generation: NotRequired[str]
    id: str
    network: NotRequired[str]
    op: str
    outcome: str
    requestId: NotRequired[str]
    right: NotRequired[str]
    seq: int
    subject: NotRequired[str]
    time: str
    vm: NotRequired[str]


class AuditReport(TypedDict):
    anchors: NotRequired[int]
    code: NotRequired[str]
    fix: NotRequired[str]
    key: NotRequired[str]
    log: NotRequired[str]
    notes: NotRequired[list[str]]
    ok: bool
    problem: NotRequired[str]
    pruned: NotRequired[int]
    records: int
    root: NotRequired[str]
    signed: int


class AwaitedVM(TypedDict):
    exitStatus: str
    id: str


class BaseImage(TypedDict):
    dockerfileContent: NotRequired[str]


class Blocked(TypedDict):
    command: str
    pid: int
    state: str
    waits: str


class Branch(TypedDict):
    commit: str | None
    name: str
    protected: bool


class BranchList(TypedDict):
    branches: list[Branch]


class Bucket(TypedDict):
    createdAt: str
    name: str
    retain: NotRequired[RetainDefault]
    rules: list[LifecycleRule]
    tags: NotRequired[dict[str, str]]


class BucketGrant(TypedDict):
    access: NotRequired[str]
    grantedAt: NotRequired[str | None]
    identity: NotRequired[str]
    prefix: NotRequired[str]
    vm: NotRequired[str]


class BucketGrantList(TypedDict):
    grants: list[BucketGrant]


class BucketList(TypedDict):
    buckets: list[Bucket]


class BucketUse(TypedDict):
    bucket: str
    bytes: int
    objects: int
    pending: int
    small: int
    uploads: int
    versions: int


class BucketUseList(TypedDict):
    buckets: list[BucketUse]


class Build(TypedDict):
    accountId: str
    buildId: str
    failureReason: NotRequired[str]
    finishedAt: NotRequired[str]
    plannedPhases: list[str]
    requestId: NotRequired[str]
    snapshotId: NotRequired[str]
    startedAt: str
    state: str
    templateHash: NotRequired[str]
    updatedAt: str
    vmId: NotRequired[str]


class BuildPhase(TypedDict):
    buildId: str
    cached: NotRequired[bool]
    name: str
    phaseId: str
    snapshotId: NotRequired[str]
    startedAt: str


class BuildPhases(TypedDict):
    phases: list[BuildPhase]


class BuildSnapshot(TypedDict):
    additionalFiles: NotRequired[dict[str, File]]
    aptDeps: NotRequired[list[str]]
    baseImage: NotRequired[BaseImage | None]
    discriminator: NotRequired[Any]
    dockerCredentials: NotRequired[Any]
    git: NotRequired[Git | None]
    gitRepos: NotRequired[list[Repo]]
    groups: NotRequired[list[Group]]
    idleTimeoutSeconds: NotRequired[int | None]
    image: NotRequired[str]
    memSizeGb: NotRequired[int]
    memSizeMib: NotRequired[int]
    name: NotRequired[str]
    network: NotRequired[str | NetworkRequest]
    nics: NotRequired[Any]
    persistence: NotRequired[Persistence | None]
    ports: NotRequired[Any]
    readySignalTimeoutSeconds: NotRequired[int | None]
    rootfsSizeGb: NotRequired[int]
    skipCache: NotRequired[bool]
    snapshot: NotRequired[Layer | None]
    snapshotId: NotRequired[str]
    spec: NotRequired[Layer | None]
    systemd: NotRequired[Systemd | None]
    template: NotRequired[Layer | None]
    udpHolePunchPorts: NotRequired[Any]
    users: NotRequired[list[User]]
    vcpuCount: NotRequired[int]
    waitForReadySignal: NotRequired[bool | None]
    workdir: NotRequired[str]


class BuiltSnapshot(TypedDict):
    snapshotId: str


Candidate = TypedDict(
    "Candidate",
    {
        "alerts": "NotRequired[list[Alert]]",
        "error": "NotRequired[str]",
        "from": "DiffSide",
        "name": "NotRequired[str]",
        "outside": "int",
        "outsidePaths": "NotRequired[list[str | dict[str, Any]]]",
        "run": "NotRequired[CandidateRun]",
        "stat": "DiffStat",
        "vm": "str",
        "workdir": "NotRequired[str]",
    },
)


class CandidateRun(TypedDict):
    error: NotRequired[str]
    exitCode: int
    seconds: float
    tail: str
    timedOut: NotRequired[bool]


class ChangeBucket(TypedDict):
    noRetain: NotRequired[bool]
    retain: NotRequired[RetainDefault | None]
    rules: NotRequired[list[LifecycleRule] | None]
    tags: NotRequired[dict[str, str] | None]


class ChangeNetwork(TypedDict):
    allow: NotRequired[list[NetRule]]
    deny: NotRequired[list[NetRule]]
    dryRun: NotRequired[bool]
    first: NotRequired[bool]
    forSeconds: NotRequired[int]
    force: NotRequired[bool]
    mode: NotRequired[str]
    remove: NotRequired[list[str]]


ChangedFile = TypedDict(
    "ChangedFile",
    {
        "binary": "NotRequired[str]",
        "changed": "NotRequired[list[str]]",
        "concerns": "NotRequired[list[str]]",
        "cut": "NotRequired[str]",
        "from": "NotRequired[str | dict[str, Any]]",
        "git": "NotRequired[str]",
        "group": "str",
        "hunks": "NotRequired[str]",
        "linesAdded": "NotRequired[int]",
        "linesRemoved": "NotRequired[int]",
        "now": "NotRequired[FileState]",
        "patch": "NotRequired[str]",
        "path": "str | dict[str, Any]",
        "secrets": "NotRequired[list[FoundSecret]]",
        "type": "str",
        "verb": "str",
        "was": "NotRequired[FileState]",
    },
)


class ChangedNetwork(TypedDict):
    accel: NotRequired[str]
    activityThresholdBytes: NotRequired[int]
    buildId: NotRequired[str]
    captureEverySeconds: NotRequired[int]
    connections: list[Connection]
    cpuTimeSeconds: NotRequired[float]
    createdAt: str
    cut: int
    dryRun: NotRequired[bool]
    expiresAt: NotRequired[str]
    generationId: NotRequired[str]
    headId: NotRequired[str]
    id: str
    idleStops: NotRequired[bool]
    idleTimeoutSeconds: int | None
    image: str
    imageId: str
    labels: NotRequired[dict[str, str]]
    lastNetworkActivity: NotRequired[str]
    losses: NotRequired[list[str]]
    metrics: NotRequired[Metrics]
    name: NotRequired[str]
    network: str
    networkPolicies: NotRequired[list[str]]
    networkRules: NotRequired[int]
    onBoot: NotRequired[str]
    oneShot: NotRequired[bool]
    operation: NotRequired[str]
    parentVmId: NotRequired[str]
    persistence: Persistence
    policy: Network
    profile: NotRequired[str]
    reason: NotRequired[str]
    recreate: bool
    restored: NotRequired[list[str]]
    sizing: Sizing
    snapshotId: NotRequired[str]
    startedAt: NotRequired[str]
    state: State
    ttlSeconds: NotRequired[int]
    vmInstanceId: NotRequired[str]
    warning: NotRequired[str]
    widens: list[str]
    workdir: NotRequired[str]


class ChangedPolicy(TypedDict):
    about: NotRequired[str]
    createdAt: NotRequired[str]
    cut: int
    mode: NotRequired[str]
    name: str
    rules: list[NetRule]
    shipped: bool
    updatedAt: NotRequired[str]
    vms: list[PolicyVM]


class ChangedSnapshot(TypedDict):
    name: NotRequired[str]
    snapshot_id: str


class Checkpoint(TypedDict):
    hash: NotRequired[str]
    key: NotRequired[str]
    log: NotRequired[str]
    next: NotRequired[str]
    root: NotRequired[str]
    seq: NotRequired[int]
    signature: NotRequired[str]
    time: NotRequired[str]
    v: NotRequired[int]


class ClickScreen(TypedDict):
    button: NotRequired[int]
    count: NotRequired[int]
    x: NotRequired[int]
    y: NotRequired[int]


class Clone(TypedDict):
    bare: NotRequired[bool]
    branch: NotRequired[str]
    head: NotRequired[str]
    hosted: bool
    remotes: NotRequired[list[CloneClaim]]


class CloneClaim(TypedDict):
    name: str
    url: str


class ClonedCommit(TypedDict):
    id: str
    subject: str
    time: str


class ClosedPty(TypedDict):
    exitCode: int | None
    sessionId: str


class Commit(TypedDict):
    author: Person
    committer: Person
    message: str
    parents: list[str] | None
    sha: str
    tree: str


class CommitList(TypedDict):
    commits: list[GitCommit]
    count: int
    limit: int
    next_commit: NotRequired[str]
    offset: NotRequired[int]
    order: str
    selector: NotRequired[Any]
    total: NotRequired[int]


class CommitMemory(TypedDict):
    message: NotRequired[str]


class CommitPlan(TypedDict):
    base: NotRequired[str]
    baseBranch: NotRequired[str]
    branch: str
    commit: NotRequired[str]
    files: list[PlannedFile] | None
    flags: NotRequired[list[str]]
    generation: str
    leftOut: NotRequired[list[LeftOut]]
    madeAt: NotRequired[str]
    manifest: str
    message: NotRequired[str]
    more: NotRequired[int]
    newBranch: NotRequired[bool]
    path: str | dict[str, Any]
    prefix: NotRequired[str]
    repo: str
    repoName: NotRequired[str]
    secrets: NotRequired[list[FoundSecret]]
    stat: DiffStat
    total: int
    tree: str
    vm: str
    vmName: NotRequired[str]


CommitRequest = TypedDict(
    "CommitRequest",
    {
        "allowSecrets": "NotRequired[list[str | dict[str, Any]] | None]",
        "author": "NotRequired[str]",
        "base": "NotRequired[str]",
        "baseBranch": "NotRequired[str]",
        "branch": "NotRequired[str]",
        "dryRun": "NotRequired[bool]",
        "from": "NotRequired[str]",
        "generation": "NotRequired[str]",
        "manifest": "NotRequired[str]",
        "message": "NotRequired[str]",
        "path": "NotRequired[str | dict[str, Any]]",
        "prefix": "NotRequired[str]",
        "repo": "NotRequired[str]",
    },
)


class CompareRequest(TypedDict):
    cwd: NotRequired[str]
    run: NotRequired[str]
    timeoutMs: NotRequired[int]
    user: NotRequired[str]
    vms: NotRequired[list[str] | None]


class ComparedFile(TypedDict):
    additions: int
    changes: int
    deletions: int
    filename: str
    previous_filename: NotRequired[str]
    sha: NotRequired[str]
    status: str


class Connection(TypedDict):
    allowed: bool
    dest: str
    down: int
    duration: NotRequired[int]
    how: NotRequired[str]
    method: NotRequired[str]
    name: NotRequired[str]
    path: NotRequired[str]
    policy: NotRequired[str]
    proto: str
    reason: str
    rule: NotRequired[str]
    secrets: NotRequired[list[str]]
    time: str
    up: int


class Connections(TypedDict):
    connections: list[Connection]


class ContainerImage(TypedDict):
    digest: str
    service: NotRequired[str]
    source: str
    systemd: bool
    user: NotRequired[str]


class ContentOf(TypedDict):
    paths: NotRequired[list[str | dict[str, Any]]]
    state: NotRequired[str]


class Copy(TypedDict):
    path: str
    receipt: str
    sha256: NotRequired[str]
    time: str
    to: NotRequired[str]


class CreateVM(TypedDict):
    activityThresholdBytes: NotRequired[int | None]
    additionalFiles: NotRequired[dict[str, File]]
    aptDeps: NotRequired[list[str]]
    baseImage: NotRequired[BaseImage | None]
    captureEverySeconds: NotRequired[int]
    discriminator: NotRequired[Any]
    dockerCredentials: NotRequired[Any]
    domains: NotRequired[list[VMDomain]]
    filesystemMd: NotRequired[bool]
    git: NotRequired[Git | None]
    gitRepos: NotRequired[list[Repo]]
    groups: NotRequired[list[Group]]
    idleTimeoutSeconds: NotRequired[int | None]
    image: NotRequired[str]
    labels: NotRequired[dict[str, str]]
    memSizeGb: NotRequired[int]
    memSizeMib: NotRequired[int]
    name: NotRequired[str]
    network: NotRequired[str | NetworkRequest]
    nics: NotRequired[Any]
    onBoot: NotRequired[str]
    oneShot: NotRequired[bool]
    paths: NotRequired[list[AddPath]]
    persistence: NotRequired[Persistence | None]
    ports: NotRequired[Any]
    profile: NotRequired[str]
    readySignalTimeoutSeconds: NotRequired[int | None]
    recreate: NotRequired[bool | None]
    rootfsSizeGb: NotRequired[int]
    secrets: NotRequired[list[str]]
    skipCache: NotRequired[bool]
    snapshot: NotRequired[Layer | None]
    snapshotId: NotRequired[str]
    spec: NotRequired[Layer | None]
    stopOnIdle: NotRequired[bool]
    systemd: NotRequired[Systemd | None]
    template: NotRequired[Layer | None]
    ttlSeconds: NotRequired[int | None]
    udpHolePunchPorts: NotRequired[Any]
    uniqueName: NotRequired[bool]
    users: NotRequired[list[User]]
    vcpuCount: NotRequired[int]
    waitForReadySignal: NotRequired[bool | None]
    workdir: NotRequired[str]


class CreatedAccount(TypedDict):
    account: Account
    key: Key
    secret: str


class CreatedCommit(TypedDict):
    commit: GitCommit


class CreatedKey(TypedDict):
    key: Key
    secret: str


class CreatedRepo(TypedDict):
    repoId: str


class CreatedS3Key(TypedDict):
    accessKeyId: str
    createdAt: str
    endpoint: NotRequired[str]
    identityId: NotRequired[str]
    lastUsed: NotRequired[str]
    links: NotRequired[bool]
    name: NotRequired[str]
    region: str
    secretAccessKey: str


class CreatedToken(TypedDict):
    expiresAt: NotRequired[str]
    id: str
    token: str


class CreatedTrigger(TypedDict):
    secret: str
    triggerId: str


class CreatedVM(TypedDict):
    domains: list[str]
    id: str
    persistence: Persistence
    snapshotId: str
    vm: VM


class Credential(TypedDict):
    granted: bool
    host: NotRequired[str]
    id: NotRequired[str]
    lastUse: NotRequired[str]
    name: str
    notRotated: NotRequired[str]
    otherVMs: NotRequired[int]
    removed: NotRequired[bool]
    rotatedAt: NotRequired[str]
    rotatesBy: NotRequired[str]
    uses: int


class DNSRecord(TypedDict):
    kind: NotRequired[str]
    managed: NotRequired[bool]
    name: NotRequired[str]
    priority: NotRequired[int | None]
    ttl: NotRequired[str]
    value: NotRequired[str]


class DNSRecords(TypedDict):
    records: list[DNSRecord]


class DataCopy(TypedDict):
    branch: NotRequired[str]
    bucket: NotRequired[str]
    commit: NotRequired[str]
    generation: NotRequired[str]
    host: NotRequired[str]
    key: NotRequired[str]
    name: NotRequired[str]
    note: NotRequired[str]
    place: str
    repo: NotRequired[str]
    repoName: NotRequired[str]
    snapshot: NotRequired[str]
    version: NotRequired[str]
    vm: NotRequired[str]
    vmName: NotRequired[str]
    volume: NotRequired[str]


class DefaultBranch(TypedDict):
    defaultBranch: NotRequired[str]


class DeletedVM(TypedDict):
    id: str
    recreate: bool
    shredded: NotRequired[Shredded]


class Delivery(TypedDict):
    change: RefChange
    createdAt: str
    host: NotRequired[str]
    id: str
    lastAt: NotRequired[str]
    nextAt: NotRequired[str]
    problem: NotRequired[str]
    pusher: str
    repo: str
    state: str
    status: NotRequired[int]
    tries: int
    trigger: str


class DeliveryList(TypedDict):
    deliveries: list[Delivery]


class DenyAsk(TypedDict):
    note: NotRequired[str]


class Diagnosis(TypedDict):
    findings: list[Finding] | None
    id: str
    live: bool
    name: str
    problems: list[str] | None
    seconds: float
    state: State
    time: str


Diff = TypedDict(
    "Diff",
    {
        "alerts": "NotRequired[list[Alert]]",
        "changes": "list[ChangedFile] | None",
        "from": "DiffSide",
        "groups": "list[DiffGroup] | None",
        "hidden": "NotRequired[list[HiddenDir]]",
        "manifest": "str",
        "notCompared": "NotRequired[list[str]]",
        "patchBase": "NotRequired[str | dict[str, Any]]",
        "repos": "NotRequired[list[NestedRepo]]",
        "stat": "DiffStat",
        "system": "NotRequired[list[SystemChange]]",
        "to": "DiffSide",
        "workdir": "NotRequired[str]",
    },
)


class DiffGroup(TypedDict):
    group: str
    stat: DiffStat


class DiffLine(TypedDict):
    endColumn: int
    isAddition: bool
    line: str
    lineNumber: int
    startColumn: int


DiffRequest = TypedDict(
    "DiffRequest",
    {
        "all": "NotRequired[bool]",
        "from": "NotRequired[str]",
        "hunks": "NotRequired[bool]",
        "patch": "NotRequired[bool]",
        "paths": "NotRequired[list[str | dict[str, Any]] | None]",
        "to": "NotRequired[str]",
    },
)


class DiffSide(TypedDict):
    at: NotRequired[str]
    generation: NotRequired[str]
    image: str
    note: NotRequired[str]
    vm: NotRequired[str]
    vmName: NotRequired[str]
    why: NotRequired[str]


class DiffStat(TypedDict):
    added: int
    bytesAdded: int
    bytesRemoved: int
    deleted: int
    linesAdded: int
    linesRemoved: int
    modified: int
    renamed: int


class Domain(TypedDict):
    domain: NotRequired[str]
    id: NotRequired[str]
    verificationCode: NotRequired[str]


class Done(TypedDict):
    pass


class DrainedVM(TypedDict):
    error: NotRequired[str]
    id: str
    name: NotRequired[str]
    resumesOnBoot: bool
    state: str


class DrainedVMs(TypedDict):
    vms: list[DrainedVM]


class EnableMemory(TypedDict):
    repo: NotRequired[str]


class ErrorBody(TypedDict):
    code: str
    error: str
    hint: NotRequired[str]
    kind: Kind
    message: str
    op: NotRequired[str]
    requestId: NotRequired[str]
    subject: NotRequired[str]


class ExecAwait(TypedDict):
    command: NotRequired[str]
    summary: NotRequired[bool]
    terminal: NotRequired[str | None]
    timeoutMs: NotRequired[int | None]
    turn: NotRequired[str]


class ExecChunked(TypedDict):
    argv: NotRequired[list[str] | None]
    background: NotRequired[bool]
    command: NotRequired[str]
    cwd: NotRequired[str]
    env: NotRequired[dict[str, str] | None]
    input: NotRequired[str]
    owned: NotRequired[bool]
    stdin: NotRequired[bool]
    summary: NotRequired[bool]
    timeoutMs: NotRequired[int]
    turn: NotRequired[str]
    user: NotRequired[str]


class ExecMessage(TypedDict):
    data: NotRequired[str]
    error: NotRequired[ErrorBody]
    process: NotRequired[Process]
    signal: NotRequired[str]
    status: NotRequired[ExitStatus]
    summary: NotRequired[ExecSummary]
    turn: NotRequired[Turn]
    type: str


class ExecResult(TypedDict):
    statusCode: int
    stderr: str
    stdout: str
    summary: NotRequired[ExecSummary]
    truncated: NotRequired[bool]
    turn: NotRequired[Turn]


class ExecSpec(TypedDict):
    argv: NotRequired[list[str] | None]
    background: NotRequired[bool]
    command: NotRequired[str]
    cwd: NotRequired[str]
    env: NotRequired[dict[str, str] | None]
    stdin: NotRequired[bool]
    summary: NotRequired[bool]
    timeoutMs: NotRequired[int]
    turn: NotRequired[str]
    user: NotRequired[str]


class ExecSummary(TypedDict):
    alerts: NotRequired[list[Alert]]
    costMs: float
    error: NotRequired[str]
    noise: NotRequired[int]
    outside: list[str | dict[str, Any]] | None
    outsideMore: NotRequired[int]
    stat: DiffStat
    workdir: str | dict[str, Any]


class ExitStatus(TypedDict):
    code: int
    signal: NotRequired[str]
    timedOut: NotRequired[bool]


class FetchRequest(TypedDict):
    bucket: NotRequired[str]
    key: NotRequired[str]
    maxBytes: NotRequired[int]
    path: NotRequired[str | dict[str, Any]]
    replace: NotRequired[bool]
    unpack: NotRequired[bool | None]
    version: NotRequired[str]


class Fetched(TypedDict):
    bytes: int
    files: int
    leftOut: NotRequired[list[str | dict[str, Any]]]
    leftOutCount: NotRequired[int]
    object: Object
    path: str | dict[str, Any]
    sha256: str
    tree: bool
    vmId: str


class File(TypedDict):
    content: NotRequired[str]
    encoding: NotRequired[str]
    executable: NotRequired[bool]


class FileChange(TypedDict):
    content: NotRequired[str | None]
    deleted: NotRequired[bool]
    encoding: NotRequired[str]
    mode: NotRequired[str]
    path: NotRequired[str]


class FileContent(TypedDict):
    content: NotRequired[str]
    encoding: NotRequired[str]


class FileEvent(TypedDict):
    eventType: str
    filename: str


class FileInfo(TypedDict):
    attrs: NotRequired[dict[str, str]]
    gid: int
    kind: FileKind
    modTime: str
    mode: int
    name: str
    path: str
    size: int
    target: NotRequired[str]
    uid: int


FileKind = Literal["file", "directory", "symlink", "other"]


class FileList(TypedDict):
    files: list[FileInfo]


FileOp = TypedDict(
    "FileOp",
    {
        "from": "NotRequired[str]",
        "mode": "NotRequired[int]",
        "parents": "NotRequired[bool]",
        "path": "NotRequired[str]",
        "recursive": "NotRequired[bool]",
        "target": "NotRequired[str]",
        "to": "NotRequired[str]",
    },
)


class FileState(TypedDict):
    attrs: NotRequired[dict[str, str]]
    digest: NotRequired[str]
    gid: int
    inode: int
    links: int
    mode: int
    size: int
    target: NotRequired[str | dict[str, Any]]
    uid: int


class Finding(TypedDict):
    code: str
    do: str
    evidence: list[str] | None
    says: str
    severity: str
    subject: str


class FinishVM(TypedDict):
    dropSnapshots: NotRequired[list[str]]
    keepSnapshots: NotRequired[bool]
    label: NotRequired[str]
    lockVolumes: NotRequired[bool]
    logsReviewed: NotRequired[bool]
    retention: NotRequired[str]
    revokeTokens: NotRequired[bool]
    rotate: NotRequired[bool]
    rotated: NotRequired[bool]
    ship: NotRequired[ObjectRef | None]


Folder = TypedDict(
    "Folder",
    {
        "host": "str",
        "is": "FolderID",
        "name": "NotRequired[str]",
        "over": "NotRequired[bool]",
        "path": "str",
        "rw": "NotRequired[bool]",
        "sealed": "NotRequired[bool]",
        "since": "str",
    },
)


class FolderID(TypedDict):
    dev: int
    ino: int


class Fork(TypedDict):
    consoleUrl: str | None
    domains: list[str]
    expiresAt: NotRequired[str]
    id: str
    idleTimeoutSeconds: int | None
    name: NotRequired[str]
    persistence: Persistence


class ForkComparison(TypedDict):
    candidates: list[Candidate] | None
    common: NotRequired[str]


class ForkVM(TypedDict):
    count: NotRequired[int | None]
    folders: NotRequired[str]
    idleTimeoutSeconds: NotRequired[int | None]
    labels: NotRequired[dict[str, str]]
    name: NotRequired[str]
    network: NotRequired[str | NetworkRequest]
    persistence: NotRequired[Persistence | None]
    ttlSeconds: NotRequired[int | None]
    volumes: NotRequired[str]


class ForkedVM(TypedDict):
    caveats: list[str]
    durable: bool
    first: bool
    forks: list[Fork]
    generationId: str
    pauseMs: float
    vmId: str


class FoundCommit(TypedDict):
    authorEmail: str
    authorName: str
    fullMessage: str
    message: str
    sha: str
    timestamp: str


class FoundCommits(TypedDict):
    commits: list[FoundCommit] | None
    hasMore: bool
    totalCommits: int


class FoundDiff(TypedDict):
    authorEmail: str
    authorName: str
    files: list[FoundDiffFile] | None
    message: str
    sha: str
    timestamp: str


class FoundDiffFile(TypedDict):
    matches: list[DiffLine] | None
    path: str


class FoundDiffs(TypedDict):
    commits: list[FoundDiff] | None
    hasMore: bool
    totalCommits: int


class FoundFile(TypedDict):
    extension: str | None
    path: str
    size: int


class FoundSecret(TypedDict):
    kind: str
    line: int
    path: str | dict[str, Any]


class FoundText(TypedDict):
    extension: str | None
    matches: list[LineMatch] | None
    path: str
    size: int


class Generation(TypedDict):
    account: str
    actor: NotRequired[str]
    bootId: NotRequired[str]
    build: NotRequired[str]
    commit: NotRequired[str]
    commitRepo: NotRequired[str]
    createdAt: str
    cut: NotRequired[bool]
    dataBytes: int
    deleted: NotRequired[bool]
    diskOn: NotRequired[str]
    diskOnly: NotRequired[bool]
    durable: bool
    failure: NotRequired[str]
    folders: NotRequired[list[str]]
    gone: NotRequired[bool]
    host: NotRequired[str]
    id: str
    image: str
    key: NotRequired[str]
    memory: bool
    mounts: NotRequired[list[VolumeAt]]
    name: NotRequired[str]
    noMemory: NotRequired[bool]
    note: NotRequired[str]
    parent: NotRequired[str]
    pauseMs: float
    persistence: NotRequired[Persistence]
    published: NotRequired[list[PublishedAs]]
    sealKey: NotRequired[str]
    sealed: NotRequired[bool]
    size: Size
    snapshot: NotRequired[str]
    stat: NotRequired[DiffStat]
    statTo: NotRequired[str]
    state: str
    synced: NotRequired[bool]
    template: NotRequired[Template]
    turn: NotRequired[int]
    usedAt: NotRequired[str]
    vm: NotRequired[str]
    vmName: NotRequired[str]
    volumesSeen: NotRequired[list[str]]
    why: str


class Git(TypedDict):
    config: NotRequired[dict[str, Any]]
    repos: NotRequired[list[Repo]]


class GitAuthor(TypedDict):
    date: NotRequired[str | None]
    email: NotRequired[str]
    name: NotRequired[str]


class GitBlob(TypedDict):
    content: str
    encoding: str
    sha: str
    size: int


class GitCommit(TypedDict):
    author: Person
    committer: Person
    message: str
    parents: list[GitObject]
    sha: str
    tree: GitObject


class GitComparison(TypedDict):
    ahead_by: int
    behind_by: int
    files: list[ComparedFile]
    status: str
    total_commits: int


class GitObject(TypedDict):
    sha: str


class GitRepo(TypedDict):
    accountId: str
    bytes: int
    createdAt: str
    defaultBranch: str
    id: str
    name: NotRequired[str]
    protectedBranches: list[str]
    pushedAt: NotRequired[str]
    visibility: str


class GitTree(TypedDict):
    sha: str
    tree: list[GitTreeEntry]


class GitTreeEntry(TypedDict):
    mode: str
    path: str
    sha: str
    size: NotRequired[int]
    type: str


class GrantRepo(TypedDict):
    branches: NotRequired[list[str]]
    permission: NotRequired[str]


class GrantVM(TypedDict):
    allowedUsers: NotRequired[list[str] | None]
    ask: NotRequired[list[str] | None]


class GrantVMRepo(TypedDict):
    access: NotRequired[str]
    branches: NotRequired[list[str]]


class GrantedRepo(TypedDict):
    accountId: str
    id: str
    name: NotRequired[str]
    permissions: str
    visibility: str


class GrantedRepoList(TypedDict):
    repositories: list[GrantedRepo]


class Group(TypedDict):
    gid: NotRequired[int | None]
    name: NotRequired[str]
    system: NotRequired[bool]


class GuestMount(TypedDict):
    freeBytes: NotRequired[int]
    freeFiles: NotRequired[int]
    path: str
    readOnly: NotRequired[bool]
    source: str
    totalBytes: NotRequired[int]
    totalFiles: NotRequired[int]
    type: str


class GuestPort(TypedDict):
    address: str
    command: NotRequired[str]
    pid: NotRequired[int]
    port: int
    probe: Probe
    proto: str


class GuestProcess(TypedDict):
    command: str
    cpuSeconds: float
    cwd: NotRequired[str]
    exec: NotRequired[str]
    pid: int
    ppid: int
    rss: int
    startedAt: str
    state: str
    system: NotRequired[bool]
    terminal: NotRequired[str]
    unit: NotRequired[str]
    user: str
    waits: NotRequired[str]


class GuestRole(TypedDict):
    alive: bool
    pid: int
    program: str
    role: str
    seen: str
    why: str


class GuestService(TypedDict):
    active: str
    description: NotRequired[str]
    name: str
    sub: str


GuestState = TypedDict(
    "GuestState",
    {
        "from": "str",
        "generation": "NotRequired[str]",
        "id": "str",
        "live": "bool",
        "losses": "list[str] | None",
        "mounts": "list[GuestMount] | None",
        "name": "str",
        "parent": "NotRequired[str]",
        "ports": "list[GuestPort] | None",
        "problems": "list[str] | None",
        "processes": "list[GuestProcess] | None",
        "restored": "list[str] | None",
        "roles": "list[GuestRole] | None",
        "services": "list[GuestService] | None",
        "startedAt": "NotRequired[str]",
        "state": "State",
        "terminals": "list[GuestTerminal] | None",
        "time": "str",
        "uptimeSeconds": "NotRequired[float]",
    },
)


class GuestTerminal(TypedDict):
    command: NotRequired[str]
    cwd: NotRequired[str]
    foreground: NotRequired[int]
    leader: NotRequired[int]
    name: str
    shell: NotRequired[str]
    user: NotRequired[str]
    waits: NotRequired[str]


class Health(TypedDict):
    status: str
    version: str


class HiddenDir(TypedDict):
    group: str
    own: NotRequired[bool]
    path: str | dict[str, Any]
    reason: str
    stat: DiffStat


class Hold(TypedDict):
    by: Actor
    createdAt: str
    host: NotRequired[str]
    id: str
    reason: NotRequired[str]
    until: str
    vmId: str


class HoldList(TypedDict):
    holds: list[Hold]


class Host(TypedDict):
    accel: str
    cpu: str
    cpus: int
    diskFreeBytes: int
    diskTotalBytes: int
    machine: str
    memAvailableBytes: int
    memTotalBytes: int
    pool: Pool
    qemu: str
    qemuVersion: str
    version: str
    vms: dict[str, int]
    warnings: list[str]


class Identity(TypedDict):
    createdAt: str
    id: str
    managed: bool
    name: NotRequired[str]


class IdentityList(TypedDict):
    identities: list[Identity]
    offset: int
    total: int


class Idle(TypedDict):
    asleepFor: NotRequired[str]
    asleepSince: NotRequired[str]
    awake: list[Keeper] | None
    holds: list[Hold] | None
    idleSince: NotRequired[str]
    idleTimeoutSeconds: int | None
    lastActivity: NotRequired[str]
    lastKind: NotRequired[str]
    name: NotRequired[str]
    never: NotRequired[str]
    onIdle: str
    sleepsAt: NotRequired[str]
    state: State
    vmId: str


class Image(TypedDict):
    buildSeconds: float
    cmdline: str
    container: NotRequired[ContainerImage]
    createdAt: str
    diskBytes: int
    diskMib: int
    files: list[ImageFile] | None
    format: int
    hostCas: NotRequired[list[str]]
    id: str
    kernel: str
    memoryMib: NotRequired[int]
    name: str
    packages: int
    recipe: str
    registries: list[Registry] | None
    snapshot: str
    workdir: NotRequired[str]


class ImageFile(TypedDict):
    crc32c: NotRequired[list[int]]
    name: str
    sha256: NotRequired[str]
    size: int


class ImageList(TypedDict):
    images: list[Image]


class Inspection(TypedDict):
    diskBytes: int
    image: NotRequired[Image]
    machine: NotRequired[MachineStatus]
    machineError: NotRequired[str]
    usage: Usage
    vm: VM
    warnings: list[str]


class Job(TypedDict):
    accountId: str
    complete: bool
    credentialsConfirmed: NotRequired[bool]
    ended: str
    host: NotRequired[str]
    keptSnapshots: NotRequired[list[str]]
    label: NotRequired[str]
    name: NotRequired[str]
    remains: Remaining
    retention: str
    shipped: NotRequired[list[Shipped]]
    started: NotRequired[str]
    steps: list[JobStep] | None
    vmId: str


class JobList(TypedDict):
    jobs: list[Job]


class JobStep(TypedDict):
    state: str
    step: str
    why: str


class KeepVM(TypedDict):
    over: NotRequired[str]
    remove: NotRequired[bool]
    removeOthers: NotRequired[bool]


class Keeper(TypedDict):
    count: NotRequired[int]
    holdId: NotRequired[str]
    kind: NotRequired[str]
    operation: NotRequired[str]
    until: NotRequired[str]
    why: str


class KeptVM(TypedDict):
    over: VM
    removed: NotRequired[list[str]]
    vm: VM


class Key(TypedDict):
    account: str
    createdAt: str
    id: str
    lastUsed: NotRequired[str]
    name: NotRequired[str]


class KeyList(TypedDict):
    keys: list[Key]


class KeyScreen(TypedDict):
    keys: NotRequired[str]


class KilledVM(TypedDict):
    id: str


Kind = Literal["internal", "invalid", "not-found", "unauthenticated", "denied", "exists", "state", "busy", "limit", "no-space", "unsupported", "unavailable", "timeout", "guest", "corrupt", "cancelled"]


class LabelVM(TypedDict):
    labels: NotRequired[dict[str, str | None]]


class Layer(TypedDict):
    additionalFiles: NotRequired[dict[str, File]]
    aptDeps: NotRequired[list[str]]
    baseImage: NotRequired[BaseImage | None]
    discriminator: NotRequired[Any]
    dockerCredentials: NotRequired[Any]
    git: NotRequired[Git | None]
    gitRepos: NotRequired[list[Repo]]
    groups: NotRequired[list[Group]]
    idleTimeoutSeconds: NotRequired[int | None]
    memSizeGb: NotRequired[int]
    memSizeMib: NotRequired[int]
    name: NotRequired[str | None]
    nics: NotRequired[Any]
    persistence: NotRequired[Persistence | None]
    ports: NotRequired[Any]
    readySignalTimeoutSeconds: NotRequired[int | None]
    rootfsSizeGb: NotRequired[int]
    skipCache: NotRequired[bool]
    snapshot: NotRequired[Layer | None]
    snapshotId: NotRequired[str]
    systemd: NotRequired[Systemd | None]
    udpHolePunchPorts: NotRequired[Any]
    users: NotRequired[list[User]]
    vcpuCount: NotRequired[int]
    waitForReadySignal: NotRequired[bool | None]
    workdir: NotRequired[str]


class LeftOut(TypedDict):
    bytes: NotRequired[int]
    examples: NotRequired[list[str | dict[str, Any]]]
    files: int
    reason: str


class LifecycleRule(TypedDict):
    abortDays: NotRequired[int]
    expireDays: NotRequired[int]
    id: NotRequired[str]
    keepVersions: NotRequired[int]
    oldDays: NotRequired[int]
    prefix: NotRequired[str]


class LineMatch(TypedDict):
    contextAfter: list[str] | None
    contextBefore: list[str] | None
    endColumn: int
    line: str
    lineNumber: int
    startColumn: int


class Lineage(TypedDict):
    generations: list[Generation]
    vms: list[VM]


class ListedBranch(TypedDict):
    default: bool
    name: str
    target: str | None


class ListedRepo(TypedDict):
    accountId: str
    branches: dict[str, ListedBranch]
    bytes: int
    createdAt: str
    defaultBranch: str
    id: str
    name: NotRequired[str]
    protectedBranches: list[str]
    pushedAt: NotRequired[str]
    tags: dict[str, ListedTag]
    visibility: str


class ListedTag(TypedDict):
    message: str | None
    name: str
    target: str


class ListeningPort(TypedDict):
    address: str
    command: NotRequired[str]
    pid: NotRequired[int]
    port: int
    proto: str


class LockVolume(TypedDict):
    force: NotRequired[bool]


class LogLine(TypedDict):
    message: str
    timestamp: str


class Logs(TypedDict):
    logs: list[LogLine]
    nextPageToken: str | None


class MachineStatus(TypedDict):
    agent: AgentHello
    confined: NotRequired[list[str]]
    cpu: int
    folders: NotRequired[list[str]]
    id: str
    monRss: int
    monitorPid: int
    plugged: NotRequired[Plugged]
    protocol: int
    pss: int
    qemuPid: int
    ram: NotRequired[str]
    ready: bool
    resets: NotRequired[dict[str, str]]
    rss: int
    runState: str
    rxBytes: int
    size: Size
    startedAt: str
    timings: NotRequired[dict[str, int]]
    txBytes: int


class Mapping(TypedDict):
    certificate: NotRequired[str]
    createdAt: str
    domain: str
    id: str
    ownershipId: str
    url: NotRequired[str]
    vmId: str
    vmPort: int


class MarkTurn(TypedDict):
    diskOnly: NotRequired[bool]
    note: NotRequired[str]


Memory = TypedDict(
    "Memory",
    {
        "account": "str",
        "at": "NotRequired[str]",
        "branch": "str",
        "bytes": "int",
        "commit": "NotRequired[str]",
        "enabled": "bool",
        "error": "NotRequired[str]",
        "files": "int",
        "from": "NotRequired[str]",
        "host": "NotRequired[str]",
        "leftOut": "NotRequired[list[LeftOut]]",
        "recent": "NotRequired[list[MemoryCommit]]",
        "repo": "str",
        "repoName": "NotRequired[str]",
        "secrets": "NotRequired[list[FoundSecret]]",
        "vm": "str",
        "vmName": "NotRequired[str]",
    },
)


class MemoryCommit(TypedDict):
    at: str
    commit: str


class MemoryLog(TypedDict):
    commits: list[Commit]


class MemoryModule(TypedDict):
    id: str
    mib: int


class Metrics(TypedDict):
    billingDay: str
    isActiveToday: bool
    wallTimeSeconds: float


class Mount(TypedDict):
    cut: NotRequired[bool]
    host: NotRequired[str]
    path: str
    project: str
    rw: bool
    share: NotRequired[bool]
    since: NotRequired[str]
    vm: NotRequired[str]
    vmId: str
    volume: str
    volumeId: str


class MountList(TypedDict):
    mounts: list[Mount]


class MoveScreen(TypedDict):
    x: NotRequired[int]
    y: NotRequired[int]


class NameSnapshot(TypedDict):
    name: NotRequired[str]


class NestedRepo(TypedDict):
    bare: NotRequired[bool]
    headNow: NotRequired[str]
    headWas: NotRequired[str]
    ignored: NotRequired[int]
    notes: NotRequired[list[str]]
    path: str | dict[str, Any]
    submodule: NotRequired[bool]
    untracked: NotRequired[int]


class NetAnswer(TypedDict):
    allowed: bool
    how: str
    next: NotRequired[str]
    policy: NotRequired[str]
    reason: str
    rule: NotRequired[NetRule]


class NetLimit(TypedDict):
    bytes: NotRequired[int]
    connections: NotRequired[int]
    rate: NotRequired[int]


class NetQuestion(TypedDict):
    host: NotRequired[str]
    method: NotRequired[str]
    path: NotRequired[str]
    port: NotRequired[int]
    proto: NotRequired[str]


class NetRefusal(TypedDict):
    count: int
    host: str
    last: str
    method: NotRequired[str]
    now: NetAnswer
    path: NotRequired[str]
    port: NotRequired[int]
    proto: str
    reason: str
    rule: NotRequired[str]


class NetRefusals(TypedDict):
    refusals: list[NetRefusal]


NetRule = TypedDict(
    "NetRule",
    {
        "action": "NotRequired[str]",
        "from": "NotRequired[str]",
        "id": "NotRequired[str]",
        "limit": "NotRequired[NetLimit]",
        "methods": "NotRequired[list[str] | None]",
        "paths": "NotRequired[list[str] | None]",
        "ports": "NotRequired[list[PortRange] | None]",
        "proto": "NotRequired[str]",
        "to": "NotRequired[str]",
        "until": "NotRequired[str]",
    },
)


class Network(TypedDict):
    digest: str
    mode: str
    policies: list[str]
    registries: list[Registry]
    rules: list[NetRule]
    secrets: list[NetworkUse]


class NetworkRequest(TypedDict):
    mode: NotRequired[str]
    policies: NotRequired[list[str] | None]
    rules: NotRequired[list[NetRule] | None]


class NetworkUse(TypedDict):
    header: str
    host: str
    methods: NotRequired[list[str]]
    name: str
    paths: NotRequired[list[str]]
    port: int


class NewAccount(TypedDict):
    name: NotRequired[str]


class NewBranch(TypedDict):
    sha: NotRequired[str]


class NewBucket(TypedDict):
    name: NotRequired[str]


class NewCommit(TypedDict):
    author: NotRequired[GitAuthor | None]
    branch: NotRequired[str]
    expectedSha: NotRequired[str]
    files: NotRequired[list[FileChange]]
    message: NotRequired[str]


class NewDNSRecord(TypedDict):
    domain: NotRequired[str]
    record: NotRequired[DNSRecord]


class NewHold(TypedDict):
    reason: NotRequired[str]
    seconds: NotRequired[int | None]


class NewIdentity(TypedDict):
    name: NotRequired[str]


class NewKey(TypedDict):
    account: NotRequired[str]
    name: NotRequired[str]


class NewLink(TypedDict):
    forSeconds: NotRequired[int]
    watch: NotRequired[bool]


class NewMapping(TypedDict):
    deploymentId: NotRequired[str]
    domain: NotRequired[str]
    vmId: NotRequired[str]
    vmPort: NotRequired[int]


class NewMount(TypedDict):
    fixture: NotRequired[bool]
    host: NotRequired[str]
    over: NotRequired[bool]
    path: NotRequired[str]
    project: NotRequired[str]
    rw: NotRequired[bool]
    share: NotRequired[bool]
    volume: NotRequired[str]


class NewPlainCommit(TypedDict):
    author: NotRequired[GitAuthor | None]
    committer: NotRequired[GitAuthor | None]
    message: NotRequired[str]
    parents: NotRequired[list[str]]
    tree: NotRequired[str]


NewRepo = TypedDict(
    "NewRepo",
    {
        "defaultBranch": "NotRequired[str]",
        "import": "NotRequired[RepoImport | None]",
        "name": "NotRequired[str]",
        "public": "NotRequired[bool]",
        "source": "NotRequired[RepoSource | None]",
    },
)


class NewS3Key(TypedDict):
    identity: NotRequired[str]
    name: NotRequired[str]


class NewSSHKey(TypedDict):
    forwardAgent: NotRequired[bool]
    name: NotRequired[str]
    publicKey: NotRequired[str]


class NewToken(TypedDict):
    expiresAt: NotRequired[str | None]
    ttlSeconds: NotRequired[int | None]


class NewTrigger(TypedDict):
    action: NotRequired[TriggerDoes]
    secret: NotRequired[str]
    trigger: NotRequired[TriggerOn]


class NewVolume(TypedDict):
    name: NotRequired[str]
    passphrase: NotRequired[str]
    project: NotRequired[str]
    recipient: NotRequired[str]
    sizeMib: NotRequired[int]


class NewVolumeSnapshot(TypedDict):
    name: NotRequired[str]


class OAuth(TypedDict):
    clientId: NotRequired[str]
    clientSecret: NotRequired[str]
    revokeUrl: NotRequired[str]
    scope: NotRequired[str]
    tokenUrl: NotRequired[str]


class Object(TypedDict):
    at: str
    bucket: str
    by: NotRequired[str]
    checksumType: NotRequired[str]
    checksums: NotRequired[dict[str, str]]
    contentType: NotRequired[str]
    deleted: NotRequired[bool]
    etag: NotRequired[str]
    headers: NotRequired[dict[str, str]]
    hold: NotRequired[bool]
    key: str
    latest: bool
    meta: NotRequired[dict[str, str]]
    origin: NotRequired[ObjectOrigin]
    parts: NotRequired[int]
    retain: NotRequired[str]
    retainTo: NotRequired[str]
    scan: NotRequired[str]
    scanReason: NotRequired[str]
    sha256: NotRequired[str]
    size: int
    tags: NotRequired[dict[str, str]]
    version: str


class ObjectList(TypedDict):
    next: NotRequired[str]
    nextVersion: NotRequired[str]
    objects: list[Object]
    prefixes: NotRequired[list[str]]


class ObjectOrigin(TypedDict):
    command: NotRequired[str]
    generation: NotRequired[str]
    mode: NotRequired[int]
    name: NotRequired[str]
    path: NotRequired[str]
    receipt: NotRequired[str]
    tree: NotRequired[bool]
    vm: NotRequired[str]


class ObjectRef(TypedDict):
    bucket: NotRequired[str]
    key: NotRequired[str]
    version: NotRequired[str]


class ObjectTags(TypedDict):
    tags: NotRequired[dict[str, str]]


class OnlyHere(TypedDict):
    bytes: int
    claimed: NotRequired[int]
    claimedBytes: NotRequired[int]
    commits: int
    examples: NotRequired[list[str | dict[str, Any]]]
    files: int
    ignored: int
    ignoredBytes: int
    moreCommits: NotRequired[bool]
    newest: NotRequired[ClonedCommit]


class OpenPort(TypedDict):
    port: int


class OpenedBundle(TypedDict):
    bucket: str
    memory: bool
    name: str
    notes: list[str]
    objects: int
    receipts: int
    repositories: list[OpenedRepository]
    server: str
    signer: str
    state: State
    vmId: str


class OpenedRepository(TypedDict):
    id: str
    name: str


class OwnedDomain(TypedDict):
    accountId: str
    createdAt: str
    deployToDomain: bool
    deployToSubdomains: bool
    domain: str
    id: str
    implicitlyOwned: bool
    manageDns: bool
    verifiedDns: bool


class PathPlace(TypedDict):
    kind: str
    path: str
    void: bool
    why: NotRequired[str]


PathRuleShown = TypedDict(
    "PathRuleShown",
    {
        "action": "str",
        "from": "NotRequired[str]",
        "id": "NotRequired[str]",
        "path": "str",
        "places": "list[PathPlace] | None",
    },
)


class PathRules(TypedDict):
    rules: list[PathRuleShown]


class Persistence(TypedDict):
    deleteEvent: NotRequired[str]
    priority: NotRequired[int | None]
    type: NotRequired[str]


class Person(TypedDict):
    date: str
    email: str
    name: str


class PlannedFile(TypedDict):
    additions: int
    binary: NotRequired[bool]
    deletions: int
    path: str | dict[str, Any]
    verb: str


class Plugged(TypedDict):
    bootMemoryMib: NotRequired[int]
    bootVcpu: NotRequired[int]
    cpus: NotRequired[int]
    modules: NotRequired[list[MemoryModule]]
    volumes: NotRequired[list[PluggedVolume]]


class PluggedVolume(TypedDict):
    cut: NotRequired[bool]
    file: str
    id: str
    port: int
    readOnly: NotRequired[bool]
    share: NotRequired[bool]
    sizeMib: NotRequired[int]


class Policy(TypedDict):
    about: NotRequired[str]
    createdAt: NotRequired[str]
    mode: NotRequired[str]
    name: str
    rules: list[NetRule]
    shipped: bool
    updatedAt: NotRequired[str]
    vms: list[PolicyVM]


class PolicyList(TypedDict):
    policies: list[Policy]


class PolicyVM(TypedDict):
    id: str
    name: NotRequired[str]
    why: NotRequired[str]


class Pool(TypedDict):
    hits: int
    misses: int
    ready: int
    size: int


class PortRange(TypedDict):
    first: NotRequired[int]
    last: NotRequired[int]


class Ports(TypedDict):
    ports: list[ListeningPort]


class Preview(TypedDict):
    port: int
    public: bool
    url: str
    vm: str


class PreviewLink(TypedDict):
    expiresAt: str
    url: str


class PreviewList(TypedDict):
    previews: list[Preview]


Probe = TypedDict(
    "Probe",
    {
        "answer": "NotRequired[str]",
        "from": "NotRequired[str]",
        "kind": "str",
        "ms": "NotRequired[int]",
        "ok": "bool",
        "server": "NotRequired[str]",
        "status": "NotRequired[int]",
        "why": "NotRequired[str]",
    },
)


class Process(TypedDict):
    argv: list[str] | None
    background: bool
    cwd: str
    endedAt: NotRequired[str]
    exitCode: NotRequired[int]
    id: str
    logBytes: int
    logStart: int
    pid: int
    signal: NotRequired[str]
    startedAt: str
    timedOut: NotRequired[bool]
    user: str


class ProcessList(TypedDict):
    processes: list[Process]


class ProtectedBranches(TypedDict):
    branches: list[str]


class Prune(TypedDict):
    dryRun: NotRequired[bool]
    freeBytes: NotRequired[int]


class PruneAudit(TypedDict):
    before: NotRequired[str]


class Pruned(TypedDict):
    dryRun: bool
    freesBytes: int
    gone: list[StorageItem] | None
    leftBytes: int
    overBytes: int


class PtyCursor(TypedDict):
    visible: bool
    x: int
    y: int


class PtyInput(TypedDict):
    data: NotRequired[str]
    timeoutMs: NotRequired[int | None]
    waitQuietMs: NotRequired[int | None]


class PtyOutput(TypedDict):
    exitCode: NotRequired[int]
    offset: int
    output: str
    quiet: bool
    running: bool
    screen: str


class PtyRun(TypedDict):
    attributes: NotRequired[list[str]]
    bg: NotRequired[str]
    fg: NotRequired[str]
    text: str
    x: int


class PtyScreen(TypedDict):
    alternate: bool
    bracketedPaste: bool
    cols: int
    cursor: PtyCursor
    exitCode: NotRequired[int]
    lines: list[list[PtyRun]]
    offset: int
    rows: int
    running: bool
    sessionId: str
    text: str
    title: NotRequired[str]


class PtySession(TypedDict):
    attachedCount: int
    cols: int
    createdAtMs: int
    endOffset: int
    exec: NotRequired[str]
    exitCode: NotRequired[int]
    exitedAtMs: NotRequired[int]
    lost: NotRequired[bool]
    pid: int
    rows: int
    running: bool
    sessionId: str
    startOffset: int
    suspended: NotRequired[bool]
    title: NotRequired[str]
    user: str | None


class PtySessionList(TypedDict):
    sessions: list[PtySession]


class PublishRequest(TypedDict):
    allowSecrets: NotRequired[list[str | dict[str, Any]] | None]
    bucket: NotRequired[str]
    command: NotRequired[str]
    generation: NotRequired[str]
    key: NotRequired[str]
    maxBytes: NotRequired[int]
    new: NotRequired[bool]
    path: NotRequired[str | dict[str, Any]]
    tags: NotRequired[dict[str, str] | None]


class Published(TypedDict):
    bytes: int
    files: int
    generation: str
    leftOut: NotRequired[list[str | dict[str, Any]]]
    leftOutCount: NotRequired[int]
    object: Object
    path: str | dict[str, Any]
    tree: bool
    vmId: str


class PublishedAs(TypedDict):
    bucket: str
    key: str
    path: str | dict[str, Any]
    sha256: str
    version: NotRequired[str]


class Quota(TypedDict):
    diskBytes: NotRequired[int]
    memoryImagesBytes: NotRequired[int]
    memoryMib: NotRequired[int]
    running: NotRequired[int]
    snapshots: NotRequired[int]
    vcpu: NotRequired[int]
    vms: NotRequired[int]


class QuotaState(TypedDict):
    account: str
    diskDefaultBytes: NotRequired[int]
    name: str
    quota: Quota
    use: Quota


class Receipt(TypedDict):
    checkpoint: Checkpoint
    key: str
    kind: str
    lines: list[ReceiptLine] | None
    made: str
    signature: NotRequired[str]
    summary: ReceiptSummary
    version: int
    vm: str
    warren: str


class ReceiptLine(TypedDict):
    proof: list[str] | None
    record: str
    seq: int


class ReceiptOut(TypedDict):
    op: str
    receipt: str
    sha256: NotRequired[str]
    to: NotRequired[str]
    what: str


ReceiptSummary = TypedDict(
    "ReceiptSummary",
    {
        "connected": "int",
        "from": "str",
        "locked": "dict[str, str] | None",
        "name": "NotRequired[str]",
        "networks": "list[str] | None",
        "out": "list[ReceiptOut] | None",
        "partial": "NotRequired[bool]",
        "policies": "dict[str, Any] | None",
        "records": "int",
        "refused": "int",
        "secrets": "list[str] | None",
        "to": "str",
    },
)


class Ref(TypedDict):
    name: str
    sha: str


class RefChange(TypedDict):
    after: NotRequired[str]
    before: NotRequired[str]
    ref: str


class Registry(TypedDict):
    host: str
    manager: str
    port: int


class Remaining(TypedDict):
    artifacts: NotRequired[list[Artifact]]
    copies: list[Copy] | None
    credentials: NotRequired[list[Credential]]
    diskBytes: int
    folders: list[Folder] | None
    forks: list[RemainingVM] | None
    logBytes: int
    memoryBytes: int
    name: NotRequired[str]
    omitted: NotRequired[dict[str, int]]
    otherBytes: int
    receipts: list[str] | None
    snapshots: list[RemainingSnapshot] | None
    state: NotRequired[State]
    vmId: str
    volumes: list[RemainingVolume] | None


class RemainingSnapshot(TypedDict):
    bytes: int
    memory: bool
    name: NotRequired[str]
    snapshotId: str


class RemainingVM(TypedDict):
    name: NotRequired[str]
    state: State
    vmId: str


class RemainingVolume(TypedDict):
    bytes: int
    id: str
    name: str
    path: NotRequired[str]
    project: str
    unlocked: bool
    usedBy: NotRequired[list[str]]


class Remains(TypedDict):
    diskBytes: int
    erase: str
    logBytes: int


class RemovedService(TypedDict):
    message: str
    success: bool


class RenameVM(TypedDict):
    name: NotRequired[str]


class Repo(TypedDict):
    path: NotRequired[str]
    repo: NotRequired[str]
    rev: NotRequired[str]


class RepoContent(TypedDict):
    content: NotRequired[str]
    entries: NotRequired[list[RepoContent]]
    name: str
    path: str
    sha: str
    size: NotRequired[int]
    type: str


class RepoFiles(TypedDict):
    files: list[FoundFile] | None
    hasMore: bool
    totalFiles: int


class RepoImport(TypedDict):
    authorEmail: NotRequired[str]
    authorName: NotRequired[str]
    commitMessage: NotRequired[str]
    dir: NotRequired[str]
    files: NotRequired[dict[str, str]]
    rev: NotRequired[str]
    type: NotRequired[str]
    url: NotRequired[str]


class RepoList(TypedDict):
    offset: int
    repositories: list[ListedRepo]
    total: int


class RepoPermission(TypedDict):
    accessLevel: str | None
    identity: str
    repo: str


class RepoSearch(TypedDict):
    files: list[FoundText] | None
    hasMore: bool
    totalFiles: int
    totalMatches: int


class RepoSource(TypedDict):
    allBranches: NotRequired[bool]
    branch: NotRequired[str]
    depth: NotRequired[int]
    rev: NotRequired[str]
    url: NotRequired[str]


class RepoVisibility(TypedDict):
    visibility: NotRequired[str]


class ResizeVolume(TypedDict):
    sizeMib: NotRequired[int]


class ResizedVM(TypedDict):
    how: dict[str, str]
    losses: NotRequired[list[str]]
    sizing: Sizing
    why: NotRequired[dict[str, str]]


class RestartPolicy(TypedDict):
    policy: NotRequired[str]
    restartSec: NotRequired[float | None]
    startLimitBurst: NotRequired[int | None]
    startLimitIntervalSec: NotRequired[float | None]


RestoreRequest = TypedDict(
    "RestoreRequest",
    {
        "dryRun": "NotRequired[bool]",
        "from": "NotRequired[str]",
        "ifUnchanged": "NotRequired[str]",
        "noTurn": "NotRequired[bool]",
        "path": "NotRequired[str | dict[str, Any]]",
    },
)

Restored = TypedDict(
    "Restored",
    {
        "changes": "list[ChangedFile] | None",
        "dryRun": "NotRequired[bool]",
        "from": "DiffSide",
        "more": "NotRequired[int]",
        "notKept": "NotRequired[list[str]]",
        "path": "str | dict[str, Any]",
        "stat": "DiffStat",
        "state": "str",
        "turn": "NotRequired[Turn]",
    },
)


class RetainDefault(TypedDict):
    days: NotRequired[int]
    mode: NotRequired[str]


class RetainObject(TypedDict):
    bypass: NotRequired[bool]
    hold: NotRequired[bool | None]
    mode: NotRequired[str]
    until: NotRequired[str]


class RollbackMemory(TypedDict):
    commit: NotRequired[str]


class RollbackVM(TypedDict):
    to: NotRequired[str]
    volumes: NotRequired[str]


class RollbackVolume(TypedDict):
    to: NotRequired[str]


class RolledBackVM(TypedDict):
    before: Generation
    id: str
    notUndone: list[str]
    to: Generation
    vm: VM


class RolledBackVolume(TypedDict):
    before: VolumeSnapshot
    createdAt: str
    formatted: bool
    id: str
    keys: NotRequired[list[VolumeSlot]]
    locksAt: NotRequired[str]
    mounts: list[Mount]
    name: str
    project: str
    sensitive: bool
    sizeMib: int
    snapshots: NotRequired[list[VolumeSnapshot]]
    state: str
    unlockedAt: NotRequired[str]
    usedBytes: int


class RotateAuditKey(TypedDict):
    to: NotRequired[str]


class S3Key(TypedDict):
    accessKeyId: str
    createdAt: str
    identityId: NotRequired[str]
    lastUsed: NotRequired[str]
    links: NotRequired[bool]
    name: NotRequired[str]


class S3KeyList(TypedDict):
    keys: list[S3Key]


class SSHInfo(TypedDict):
    address: str
    hostKey: str


class SSHKey(TypedDict):
    createdAt: str
    fingerprint: str
    forwardAgent: bool
    id: str
    name: str
    publicKey: str


class SSHKeyList(TypedDict):
    keys: list[SSHKey]


class SandboxDefaults(TypedDict):
    env: NotRequired[dict[str, str]]
    user: NotRequired[str]
    workdir: NotRequired[str]


class Schedule(TypedDict):
    captureEverySeconds: NotRequired[int]


class ScreenSize(TypedDict):
    height: int
    width: int


class ScrollScreen(TypedDict):
    steps: NotRequired[int]
    x: NotRequired[int]
    y: NotRequired[int]


class Secret(TypedDict):
    createdAt: str
    env: str
    header: str
    host: str
    methods: NotRequired[list[str]]
    name: str
    oauth: NotRequired[OAuth]
    paths: NotRequired[list[str]]
    port: int
    replaced: NotRequired[bool]
    rotateUrl: NotRequired[str]
    rotatedAt: NotRequired[str]
    vms: NotRequired[list[SecretVM]]


class SecretList(TypedDict):
    secrets: list[Secret]


class SecretVM(TypedDict):
    id: str
    name: NotRequired[str]
    placeholder: str
    reachable: bool


class ServiceID(TypedDict):
    id: NotRequired[str]


class ServiceIDs(TypedDict):
    services: NotRequired[list[ServiceID]]


class ServiceList(TypedDict):
    services: list[ServiceName]


class ServiceLogs(TypedDict):
    logs: list[UnitLog]


class ServiceName(TypedDict):
    activeState: NotRequired[str]
    description: NotRequired[str]
    name: str
    subState: NotRequired[str]


class ServiceResults(TypedDict):
    results: list[UnitResult]


class SetNetwork(TypedDict):
    dryRun: NotRequired[bool]
    force: NotRequired[bool]
    mode: NotRequired[str]
    network: NotRequired[str | NetworkRequest]
    policies: NotRequired[list[str]]
    rules: NotRequired[list[NetRule]]


class SetOnBoot(TypedDict):
    onBoot: NotRequired[str]


class SetPaths(TypedDict):
    rules: NotRequired[list[AddPath]]


class SetPolicy(TypedDict):
    network: NotRequired[str | NetworkRequest]


class SetPreview(TypedDict):
    public: NotRequired[bool]


class SetSecret(TypedDict):
    env: NotRequired[str]
    header: NotRequired[str]
    host: NotRequired[str]
    methods: NotRequired[list[str]]
    name: NotRequired[str]
    oauth: NotRequired[OAuth | None]
    paths: NotRequired[list[str]]
    port: NotRequired[int]
    rotateUrl: NotRequired[str]
    value: NotRequired[str]


class Shipped(TypedDict):
    bucket: str
    key: str
    sha256: str
    size: int
    version: NotRequired[str]
    what: str


class Shredded(TypedDict):
    readable: list[str] | None
    unreadable: list[str] | None


class SignObject(TypedDict):
    filename: NotRequired[str]
    method: NotRequired[str]
    seconds: NotRequired[int]
    version: NotRequired[str]


class Signal(TypedDict):
    signal: NotRequired[str]


class SignedObject(TypedDict):
    expiresAt: str
    method: str
    url: str


class Signer(TypedDict):
    fingerprint: str


class Size(TypedDict):
    memSizeMib: int
    rootfsSizeMib: int
    vcpuCount: int


class Sizes(TypedDict):
    memSizeGb: NotRequired[int]
    memSizeMib: NotRequired[int]
    rootfsSizeGb: NotRequired[int]
    vcpuCount: NotRequired[int]


class Sizing(TypedDict):
    memSizeMib: int
    rootfsSizeMb: int
    vcpuCount: int


class Snapshot(TypedDict):
    accountId: str
    buildId: NotRequired[str]
    cancelled: bool
    createdAt: str
    dataBytes: NotRequired[int]
    deleted: bool
    failed: bool
    failureReason: NotRequired[str]
    generationId: NotRequired[str]
    lost: bool
    mayContain: NotRequired[list[str]]
    memSizeMib: int
    memory: NotRequired[bool]
    name: NotRequired[str]
    parent: NotRequired[str]
    pauseMs: NotRequired[float]
    rootfsSizeMb: int
    snapshotId: str
    snapshotPersistence: Persistence
    sourceVmId: NotRequired[str]
    sourceVmName: NotRequired[str]
    state: str
    vcpuCount: int
    volumesSeen: NotRequired[list[str]]
    why: NotRequired[str]


class SnapshotList(TypedDict):
    buildingCount: int
    cancelledCount: int
    deletedCount: int
    failedCount: int
    lostCount: int
    readyCount: int
    snapshots: list[Snapshot]
    totalCount: int


class StartVM(TypedDict):
    diskOnly: NotRequired[bool]
    idleTimeoutSeconds: NotRequired[int | None]
    readySignalTimeoutSeconds: NotRequired[int | None]
    waitForReadySignal: NotRequired[bool | None]


class StartedProcess(TypedDict):
    argv: list[str] | None
    background: bool
    cwd: str
    endedAt: NotRequired[str]
    exitCode: NotRequired[int]
    id: str
    logBytes: int
    logStart: int
    pid: int
    signal: NotRequired[str]
    startedAt: str
    timedOut: NotRequired[bool]
    turn: NotRequired[Turn]
    user: str


class StartedVM(TypedDict):
    console_url: str | None
    domains: list[str]
    id: str
    vm: VM


State = Literal["building", "starting", "running", "suspending", "suspended", "stopped", "lost"]


class Stats(TypedDict):
    cpuSeconds: float
    diskFreeBytes: int
    diskTotalBytes: int
    load1: float
    memAvailableBytes: int
    memTotalBytes: int
    ports: list[ListeningPort] | None
    processes: list[SystemProcess] | None
    time: str
    uptimeSeconds: float
    vcpuCount: int


class StoppedVM(TypedDict):
    remains: Remains
    vmId: str
    vmInstanceId: str


class Storage(TypedDict):
    accounts: list[AccountStorage] | None
    availableBytes: int
    budgetBytes: int
    diskFreeBytes: NotRequired[int]
    diskTotalBytes: NotRequired[int]
    items: list[StorageItem] | None
    overBytes: int
    path: NotRequired[str]
    reserveBytes: NotRequired[int]
    usedBytes: int


class StorageItem(TypedDict):
    account: NotRequired[str]
    freesBytes: NotRequired[int]
    goes: NotRequired[bool]
    id: str
    kept: NotRequired[str]
    kind: str
    lastActive: NotRequired[str]
    name: NotRequired[str]
    next: NotRequired[int]
    persistence: NotRequired[Persistence]
    sharedBytes: int
    snapshot: NotRequired[str]
    state: NotRequired[State]
    uniqueBytes: int
    why: NotRequired[str]


class SuspendVM(TypedDict):
    cold: NotRequired[bool]


class SuspendedVM(TypedDict):
    id: str
    memoryBytes: int
    remains: Remains
    snapshotLayerId: str
    vmInstanceId: str


class SweptObjects(TypedDict):
    aborted: int
    expired: int
    removed: int


class SystemChange(TypedDict):
    guestReported: NotRequired[bool]
    kind: str
    name: str
    now: NotRequired[str]
    verb: str
    was: NotRequired[str]


class SystemProcess(TypedDict):
    command: str
    cpuSeconds: float
    pid: int
    ppid: int
    rss: int
    state: str
    user: str


class Systemd(TypedDict):
    patchedServices: NotRequired[list[Unit]]
    services: NotRequired[list[Unit]]


class Tag(TypedDict):
    message: str | None
    name: str
    sha: str
    tagger: Person | None
    target: GitObject


class TagList(TypedDict):
    tags: list[Tag]


class TakeSnapshot(TypedDict):
    diskOnly: NotRequired[bool]
    name: NotRequired[str]
    persistence: NotRequired[Persistence | None]
    volumes: NotRequired[str]


class TakenSnapshot(TypedDict):
    snapshot: Snapshot
    snapshotId: str
    sourceVmId: str
    sourceVmInstanceId: NotRequired[str]


class Template(TypedDict):
    build: NotRequired[str]
    defaults: SandboxDefaults
    name: NotRequired[str]
    tags: NotRequired[list[TemplateTag]]


class TemplateTag(TypedDict):
    at: str
    name: str


class Token(TypedDict):
    createdAt: str
    expiresAt: NotRequired[str]
    id: str
    lastUsed: NotRequired[str]


class TokenList(TypedDict):
    tokens: list[Token]


class Top(TypedDict):
    blocked: list[Blocked] | None
    cpuPercent: float | None
    cpuSeconds: float
    id: str
    live: bool
    load1: float
    logs: list[TopLog] | None
    memAvailableBytes: int
    memTotalBytes: int
    mounts: list[GuestMount] | None
    name: str
    ports: list[ListeningPort] | None
    problems: list[str] | None
    processes: list[TopProcess] | None
    services: list[GuestService] | None
    state: State
    time: str
    uptimeSeconds: float
    vcpuCount: int
    why: NotRequired[str]


class TopLog(TypedDict):
    source: str
    text: str


class TopProcess(TypedDict):
    command: str
    cpuPercent: float
    cpuSeconds: float
    cwd: NotRequired[str]
    exec: NotRequired[str]
    pid: int
    ppid: int
    rss: int
    startedAt: str
    state: str
    system: NotRequired[bool]
    terminal: NotRequired[str]
    unit: NotRequired[str]
    user: str
    waits: NotRequired[str]


class TreeFailed(TypedDict):
    op: int
    why: str


class TreePick(TypedDict):
    names: NotRequired[list[str | dict[str, Any]] | None]


class TreePlaced(TypedDict):
    done: int
    failed: list[TreeFailed] | None


class Trigger(TypedDict):
    action: TriggerDoes
    createdAt: str
    id: str
    managed: bool
    repositoryId: str
    trigger: TriggerOn


class TriggerDoes(TypedDict):
    action: NotRequired[str]
    endpoint: NotRequired[str]


class TriggerList(TypedDict):
    triggers: list[Trigger]


class TriggerOn(TypedDict):
    branches: NotRequired[list[str] | None]
    event: NotRequired[str]
    globs: NotRequired[list[str] | None]


class Truth(TypedDict):
    at: str
    generation: str
    kept: NotRequired[list[DataCopy]]
    notChecked: NotRequired[list[str]]
    only: OnlyHere
    state: State
    trees: list[TruthTree] | None
    vm: str
    vmName: NotRequired[str]
    workdir: NotRequired[str]


class TruthTree(TypedDict):
    authority: DataCopy
    clone: NotRequired[Clone]
    copies: NotRequired[list[DataCopy]]
    differs: DiffStat
    kind: str
    notes: NotRequired[list[str]]
    only: OnlyHere
    path: str | dict[str, Any]
    stays: bool


class Turn(TypedDict):
    actor: str
    at: str
    commit: NotRequired[str]
    commitRepo: NotRequired[str]
    id: str
    memory: bool
    note: str
    number: int
    pauseMs: float
    stat: DiffStat | None
    statError: NotRequired[str]
    vm: str


class TurnList(TypedDict):
    turns: list[Turn]


class TypeScreen(TypedDict):
    text: NotRequired[str]


class UndoVM(TypedDict):
    turn: NotRequired[str]
    volumes: NotRequired[str]


class UndoneVM(TypedDict):
    before: str
    id: str
    notUndone: list[str]
    turn: Turn
    vm: VM


class Undrained(TypedDict):
    resumed: int


class Unit(TypedDict):
    after: NotRequired[list[str] | None]
    deleteAfterSuccess: NotRequired[bool | None]
    enable: NotRequired[bool | None]
    env: NotRequired[dict[str, str] | None]
    exec: NotRequired[list[str] | None]
    group: NotRequired[str | None]
    mode: NotRequired[str]
    name: NotRequired[str]
    onFailure: NotRequired[list[str] | None]
    readySignal: NotRequired[bool | None]
    remainAfterExit: NotRequired[bool | None]
    requires: NotRequired[list[str] | None]
    restartPolicy: NotRequired[RestartPolicy | None]
    timeoutSec: NotRequired[float | None]
    user: NotRequired[str | None]
    wantedBy: NotRequired[list[str] | None]
    watchdogSec: NotRequired[float | None]
    workdir: NotRequired[str | None]


class UnitLog(TypedDict):
    message: str
    priority: NotRequired[int]
    timestamp: str
    unit: NotRequired[str]


class UnitResult(TypedDict):
    message: str
    serviceId: str
    success: bool


class UnitStatus(TypedDict):
    activeState: str
    description: str
    loadState: str
    name: str
    subState: str
    unitFileState: NotRequired[str]


class UnlockVolume(TypedDict):
    identity: NotRequired[str]
    keepUnlocked: NotRequired[bool]
    passphrase: NotRequired[str]
    ttlSeconds: NotRequired[int]


class UnlockedVolume(TypedDict):
    createdAt: str
    formatted: bool
    id: str
    keys: NotRequired[list[VolumeSlot]]
    locksAt: NotRequired[str]
    mounts: list[Mount]
    name: str
    project: str
    recovered: NotRequired[bool]
    sensitive: bool
    sizeMib: int
    snapshots: NotRequired[list[VolumeSnapshot]]
    state: str
    unlockedAt: NotRequired[str]
    usedBytes: int


class Usage(TypedDict):
    account: str
    asOf: NotRequired[str]
    bytesIn: int
    bytesOut: int
    cpuSeconds: float
    day: NotRequired[str]
    daySeconds: float
    diskBytes: int
    diskPeakBytes: int
    gone: NotRequired[str]
    memoryMibSeconds: float
    name: NotRequired[str]
    runningSeconds: float
    since: NotRequired[str]
    vmId: NotRequired[str]


class UsageList(TypedDict):
    accounts: list[Usage]
    vms: list[Usage]


class User(TypedDict):
    gecos: NotRequired[str]
    groups: NotRequired[list[str]]
    home: NotRequired[str]
    name: NotRequired[str]
    shell: NotRequired[str]
    system: NotRequired[bool]
    uid: NotRequired[int | None]


class VM(TypedDict):
    accel: NotRequired[str]
    activityThresholdBytes: NotRequired[int]
    buildId: NotRequired[str]
    captureEverySeconds: NotRequired[int]
    cpuTimeSeconds: NotRequired[float]
    createdAt: str
    expiresAt: NotRequired[str]
    generationId: NotRequired[str]
    headId: NotRequired[str]
    id: str
    idleStops: NotRequired[bool]
    idleTimeoutSeconds: int | None
    image: str
    imageId: str
    labels: NotRequired[dict[str, str]]
    lastNetworkActivity: NotRequired[str]
    losses: NotRequired[list[str]]
    metrics: NotRequired[Metrics]
    name: NotRequired[str]
    network: str
    networkPolicies: NotRequired[list[str]]
    networkRules: NotRequired[int]
    onBoot: NotRequired[str]
    oneShot: NotRequired[bool]
    operation: NotRequired[str]
    parentVmId: NotRequired[str]
    persistence: Persistence
    profile: NotRequired[str]
    reason: NotRequired[str]
    recreate: bool
    restored: NotRequired[list[str]]
    sizing: Sizing
    snapshotId: NotRequired[str]
    startedAt: NotRequired[str]
    state: State
    ttlSeconds: NotRequired[int]
    vmInstanceId: NotRequired[str]
    warning: NotRequired[str]
    workdir: NotRequired[str]


class VMDomain(TypedDict):
    domain: NotRequired[str]
    vmPort: NotRequired[int]


class VMList(TypedDict):
    buildingCount: int
    lostCount: int
    runningCount: int
    startingCount: int
    stoppedCount: int
    suspendedCount: int
    suspendingCount: int
    totalCount: int
    vms: list[VM]


class VMPermission(TypedDict):
    allowedUsers: list[str] | None
    ask: NotRequired[list[str]]
    grantedAt: str
    grantedBy: str
    id: str
    identityId: str
    vmId: str


class VMPermissionList(TypedDict):
    offset: int
    permissions: list[VMPermission]
    total: int


class VMRepo(TypedDict):
    access: str
    branches: list[str]
    grantedAt: str
    id: str
    name: NotRequired[str]
    url: str


class VMRepos(TypedDict):
    repositories: list[VMRepo]


class Verification(TypedDict):
    accountId: str
    createdAt: str
    domain: str
    id: str
    verificationCode: str


class VerifyAudit(TypedDict):
    acceptNewLog: NotRequired[bool]
    anchors: NotRequired[list[Checkpoint]]


class Volume(TypedDict):
    createdAt: str
    formatted: bool
    id: str
    keys: NotRequired[list[VolumeSlot]]
    locksAt: NotRequired[str]
    mounts: list[Mount]
    name: str
    project: str
    sensitive: bool
    sizeMib: int
    snapshots: NotRequired[list[VolumeSnapshot]]
    state: str
    unlockedAt: NotRequired[str]
    usedBytes: int


class VolumeAt(TypedDict):
    id: str
    name: str
    path: str
    project: str
    rw: NotRequired[bool]


class VolumeList(TypedDict):
    volumes: list[Volume]


class VolumeSlot(TypedDict):
    createdAt: str
    id: str
    kind: str
    name: NotRequired[str]
    recipient: NotRequired[str]


class VolumeSlotSpec(TypedDict):
    name: NotRequired[str]
    passphrase: NotRequired[str]
    recipient: NotRequired[str]


class VolumeSnapshot(TypedDict):
    beforeRollback: NotRequired[bool]
    createdAt: str
    formatted: NotRequired[bool]
    grown: NotRequired[bool]
    id: str
    name: NotRequired[str]
    pending: NotRequired[bool]
    sizeMib: int


class WhoAmI(TypedDict):
    accountId: str
    admin: bool
    identityId: str | None
    keyId: NotRequired[str]
    tokenId: NotRequired[str]


class WrittenFile(TypedDict):
    file: FileInfo
    sha256: str
