// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0
//
// Made by tools/clienttypes from api/openapi.json: `make docs` writes it again.

import type * as types from "./types.js";

/** What each operation of the API takes and answers. */
export interface Operations {
  /** Refused: this server serves no DNS. */
  addDNSRecord: { path: {}; query: {}; body: types.NewDNSRecord; answer: unknown };
  /** Add a path rule before all others, in place of one with the same pattern. */
  addPathRule: { path: { vm: string; }; query: {}; body: types.AddPath; answer: types.PathRules };
  /** Let the holder of an SSH key act as an identity. */
  addSSHKey: { path: { identity: string; }; query: {}; body: types.NewSSHKey; answer: types.SSHKey };
  /** Install a service, and start it unless enable is false. */
  addService: { path: { vm: string; }; query: {}; body: types.Unit; answer: types.AddedService };
  /** Add a way to unlock a volume, which must be unlocked. */
  addVolumeKey: { path: { volume: string; }; query: { project?: string; }; body: types.VolumeSlotSpec; answer: types.VolumeSlot };
  /** Let it happen: a proposed rule is in force at once, a waiting call runs. */
  approveAsk: { path: { ask: string; }; query: {}; body: types.ApproveAsk; answer: types.Ask };
  /** Attach to a terminal over a WebSocket; since replays output from an offset in place of the screen. */
  attachTerminal: { path: { session: string; vm: string; }; query: { cols?: number; rows?: number; since?: number; }; body: undefined; answer: unknown };
  /** Wait until the VM no longer runs. */
  awaitVM: { path: { vm: string; }; query: {}; body: undefined; answer: types.AwaitedVM };
  /** Make a snapshot from a spec. */
  buildSnapshot: { path: {}; query: {}; body: types.BuildSnapshot; answer: types.BuiltSnapshot };
  /** Pack a VM for another server: its repositories, the objects that it published, its record and receipts; with machine=true its disk and memory, with image=true the image below. Of the objects it takes at most maxBytes, the newest first. With an end mark. */
  bundleVM: { path: { vm: string; }; query: { image?: boolean; machine?: boolean; maxBytes?: number; }; body: undefined; answer: unknown };
  /** Set lifecycle rules, default retention or tags of a bucket. */
  changeBucket: { path: { bucket: string; }; query: {}; body: types.ChangeBucket; answer: types.Bucket };
  /** Set permission bits. */
  changeFileMode: { path: { vm: string; }; query: {}; body: types.FileOp; answer: types.Done };
  /** Add and remove rules of the guest's network policy, at once. */
  changeNetwork: { path: { vm: string; }; query: {}; body: types.ChangeNetwork; answer: types.ChangedNetwork };
  /** Change what an identity may do with a repository. */
  changeRepoPermission: { path: { identity: string; repo: string; }; query: {}; body: types.GrantRepo; answer: types.Done };
  /** Replace the Linux users of a permission; absent: no change. */
  changeVMPermission: { path: { identity: string; vm: string; }; query: {}; body: types.GrantVM; answer: types.VMPermission };
  /** Look up the TXT record of a verification. */
  checkDomain: { path: {}; query: {}; body: types.Domain; answer: types.Domain };
  /** What the policy says of a request, without making it. */
  checkNetwork: { path: { vm: string; }; query: {}; body: types.NetQuestion; answer: types.NetAnswer };
  /** Click a button of the pointer. */
  clickScreen: { path: { vm: string; }; query: {}; body: types.ClickScreen; answer: types.ScreenSize };
  /** Make a port private and end every link to it. */
  closePreview: { path: { port: number; vm: string; }; query: {}; body: undefined; answer: types.Preview };
  /** End a terminal's programs and forget it. */
  closeTerminal: { path: { session: string; vm: string; }; query: {}; body: undefined; answer: types.ClosedPty };
  /** Write and delete files in one commit on a branch, which is made if it does not exist. */
  commitFiles: { path: { repo: string; }; query: {}; body: types.NewCommit; answer: types.CreatedCommit };
  /** Commit the memory now; does not wake the VM. */
  commitMemory: { path: { vm: string; }; query: {}; body: types.CommitMemory; answer: types.Memory };
  /** Commit a directory of the VM to a repository, from a frozen state and without the guest's git; with dryRun only say what would be committed. An identity needs a permission for root, and one to write to the branch. */
  commitVM: { path: { vm: string; }; query: {}; body: types.CommitRequest; answer: types.CommitPlan };
  /** What head has that base has not. */
  compareRevisions: { path: { repo: string; }; query: { base: string; head: string; }; body: undefined; answer: types.GitComparison };
  /** Compare VMs with what they were forked from, and run a command in each. */
  compareVMs: { path: {}; query: {}; body: types.CompareRequest; answer: types.ForkComparison };
  /** Create an account with a first key, shown once. */
  createAccount: { path: {}; query: {}; body: types.NewAccount; answer: types.CreatedAccount };
  /** Copy the server's state as an archive, with an end mark. Until it was verified it is no backup. */
  createBackup: { path: {}; query: {}; body: undefined; answer: unknown };
  /** Make a branch. */
  createBranch: { path: { branch: string; repo: string; }; query: {}; body: types.NewBranch; answer: types.Ref };
  /** Make a private bucket. */
  createBucket: { path: {}; query: {}; body: types.NewBucket; answer: types.Bucket };
  /** Make a commit of an existing tree; no branch is moved. */
  createCommit: { path: { repo: string; }; query: {}; body: types.NewPlainCommit; answer: types.CreatedCommit };
  /** GitHub sync is not available. */
  createGitHubSync: { path: { repo: string; }; query: {}; body: undefined; answer: unknown };
  /** Make an identity, which has no rights yet. */
  createIdentity: { path: {}; query: {}; body: types.NewIdentity; answer: types.Identity };
  /** Create an API key, shown once. */
  createKey: { path: {}; query: {}; body: types.NewKey; answer: types.CreatedKey };
  /** Make a port of a VM public under a name. */
  createMapping: { path: { domain: string; }; query: {}; body: types.NewMapping; answer: types.Mapping };
  /** Sign a link that opens a private port for a limited time. */
  createPreviewLink: { path: { port: number; vm: string; }; query: {}; body: types.NewLink; answer: types.PreviewLink };
  /** An address that logs a browser in to a port as the caller: for one use, within 30 seconds. */
  createPreviewTicket: { path: { port: number; vm: string; }; query: {}; body: undefined; answer: types.PreviewLink };
  /** Make a repository: empty, from another one (source) or from files or an archive (import). */
  createRepo: { path: {}; query: {}; body: types.NewRepo; answer: types.CreatedRepo };
  /** Make an access key for S3 clients, shown once. */
  createS3Key: { path: {}; query: {}; body: types.NewS3Key; answer: types.CreatedS3Key };
  /** Make a token, shown once. */
  createToken: { path: { identity: string; }; query: {}; body: types.NewToken; answer: types.CreatedToken };
  /** Call a URL at each push; the secret that signs the calls is shown once. */
  createTrigger: { path: { repo: string; }; query: {}; body: types.NewTrigger; answer: types.CreatedTrigger };
  /** Create a VM and start it; answers when it is usable. */
  createVM: { path: {}; query: {}; body: types.CreateVM; answer: types.CreatedVM };
  /** Make an encrypted volume, which is locked. */
  createVolume: { path: {}; query: {}; body: types.NewVolume; answer: types.Volume };
  /** Refused: each mapped name gets a certificate of its own. */
  createWildcardCertificate: { path: { domain: string; }; query: {}; body: undefined; answer: unknown };
  /** Delete a branch that is not protected. */
  deleteBranch: { path: { branch: string; repo: string; }; query: {}; body: undefined; answer: types.Done };
  /** Delete an identity with its tokens, keys and permissions; its connections are closed. */
  deleteIdentity: { path: { identity: string; }; query: {}; body: undefined; answer: types.Done };
  /** Delete a snapshot; VMs made from it stay. */
  deleteSnapshot: { path: { snapshot: string; }; query: {}; body: undefined; answer: types.ChangedSnapshot };
  /** Delete a VM in any state, with its disk and logs; with shred=true its keys are destroyed before the answer, which lists what is unreadable and what is not. */
  deleteVM: { path: { vm: string; }; query: { shred?: boolean; }; body: undefined; answer: types.DeletedVM };
  /** Refuse it. */
  denyAsk: { path: { ask: string; }; query: {}; body: types.DenyAsk; answer: types.Ask };
  /** What is wrong with the VM: findings with evidence and what to do. A VM that does not run is not woken. */
  diagnoseVM: { path: { vm: string; }; query: { seconds?: string; }; body: undefined; answer: types.Diagnosis };
  /** A connection to a port of the guest, as binary messages of a WebSocket. */
  dialPort: { path: { port: number; vm: string; }; query: {}; body: undefined; answer: unknown };
  /** Like GET, with the question in the body. */
  diffVM: { path: { vm: string; }; query: {}; body: types.DiffRequest; answer: types.Diff };
  /** End the commits of the memory; repository and files stay. */
  disableMemory: { path: { vm: string; }; query: {}; body: undefined; answer: types.Memory };
  /** Suspend every running VM before the host shuts down; from then on no VM starts. */
  drainHost: { path: {}; query: {}; body: undefined; answer: types.DrainedVMs };
  /** Give the VM a memory: fill /memory from a repository, and commit it at quiet moments from now on. Starts the VM. */
  enableMemory: { path: { vm: string; }; query: {}; body: types.EnableMemory; answer: types.Memory };
  /** End the session of an MCP client. */
  endMCP: { path: {}; query: {}; body: undefined; answer: unknown };
  /** Bring a version of an object into the VM, whole or not at all; the tree of an archive is unpacked. An identity needs a permission for root, and a grant to read the key. */
  fetchIntoVM: { path: { vm: string; }; query: {}; body: types.FetchRequest; answer: types.Fetched };
  /** End the job of a VM: carry out the decided steps, return the open ones, and keep the record; a deleted VM is found by its id. */
  finishVM: { path: { vm: string; }; query: {}; body: types.FinishVM; answer: types.Job };
  /** Forget an ended process and its log. */
  forgetProcess: { path: { process: string; vm: string; }; query: {}; body: undefined; answer: types.Done };
  /** Make running copies, all or none; the parent keeps running. */
  forkVM: { path: { vm: string; }; query: {}; body: types.ForkVM; answer: types.ForkedVM };
  /** One ask, with everything that an approval would let happen. */
  getAsk: { path: { ask: string; }; query: {}; body: undefined; answer: types.Ask };
  /** The answer of a request that ran in the background; 202 while it still runs. */
  getBackgroundAnswer: { path: { request: string; }; query: {}; body: undefined; answer: unknown };
  /** Log lines of a background request. */
  getBackgroundLogs: { path: {}; query: { requestId?: string; }; body: undefined; answer: types.Logs };
  /** A branch. */
  getBranch: { path: { branch: string; repo: string; }; query: {}; body: undefined; answer: types.Ref };
  /** One bucket. */
  getBucket: { path: { bucket: string; }; query: {}; body: undefined; answer: types.Bucket };
  /** One build: a VM or snapshot being made from a spec. */
  getBuild: { path: { build: string; }; query: {}; body: undefined; answer: types.Build };
  /** The build that made the VM. */
  getBuildOfVM: { path: { vm: string; }; query: {}; body: undefined; answer: types.Build };
  /** The phases of a build. */
  getBuildPhases: { path: { build: string; }; query: {}; body: undefined; answer: types.BuildPhases };
  /** The fingerprint of the key that signs this server's bundles and backups. */
  getBundleSigner: { path: {}; query: {}; body: undefined; answer: types.Signer };
  /** The certificate of the CA that signs preview names, as PEM. */
  getCA: { path: {}; query: {}; body: undefined; answer: unknown };
  /** One commit, by its id, a branch or a tag. */
  getCommit: { path: { repo: string; sha: string; }; query: {}; body: undefined; answer: types.GitCommit };
  /** Effective settings with their origin. */
  getConfig: { path: {}; query: {}; body: undefined; answer: unknown };
  /** The console's log. */
  getConsoleLog: { path: { vm: string; }; query: { follow?: boolean; from?: number; source?: string; }; body: undefined; answer: unknown };
  /** A file, or a directory's entries, at a revision. */
  getContents: { path: { path: string; repo: string; }; query: { recursive?: boolean; rev?: string; }; body: undefined; answer: types.RepoContent };
  /** The branch that a clone checks out. */
  getDefaultBranch: { path: { repo: string; }; query: {}; body: undefined; answer: types.DefaultBranch };
  /** What differs between two states of VMs: a generation, a snapshot, a turn, image, parent, vm:NAME or now. An identity needs a permission for root. */
  getDiff: { path: { vm: string; }; query: { all?: boolean; from?: string; hunks?: boolean; patch?: boolean; path?: string; to?: string; }; body: undefined; answer: types.Diff };
  /** The difference as a patch that `git apply` takes, with what it leaves out as comments. */
  getDiffPatch: { path: { vm: string; }; query: { from?: string; path?: string; to?: string; }; body: undefined; answer: unknown };
  /** A file's content, or a directory's entries. */
  getFile: { path: { path: string; vm: string; }; query: {}; body: undefined; answer: types.FileContent };
  /** The content of a blob. */
  getGitBlob: { path: { repo: string; sha: string; }; query: {}; body: undefined; answer: types.GitBlob };
  /** GitHub sync: not configured, 404 with plain text, as the SDK wants it. */
  getGitHubSync: { path: { repo: string; }; query: {}; body: undefined; answer: unknown };
  /** The entries of a tree. */
  getGitTree: { path: { repo: string; sha: string; }; query: { recursive?: boolean; }; body: undefined; answer: types.GitTree };
  /** The state of the guest: processes, terminals, ports with their answer to a request, services, mounts, roles; what the last start lost. */
  getGuestState: { path: { vm: string; }; query: {}; body: undefined; answer: types.GuestState };
  /** The process runs. */
  getHealth: { path: {}; query: {}; body: undefined; answer: types.Health };
  /** Platform, capacity and VMs of this host. */
  getHost: { path: {}; query: {}; body: undefined; answer: types.Host };
  /** Since when the VM is idle, what keeps it awake, when it falls asleep; does not wake it. */
  getIdle: { path: { vm: string; }; query: {}; body: undefined; answer: types.Idle };
  /** Every VM and generation of the account. */
  getLineage: { path: {}; query: {}; body: undefined; answer: types.Lineage };
  /** The ancestors and descendants of the VM. */
  getLineageOfVM: { path: { vm: string; }; query: {}; body: undefined; answer: types.Lineage };
  /** The agent's memory of the VM: repository, branch, newest commit, what is left out. */
  getMemory: { path: { vm: string; }; query: {}; body: undefined; answer: types.Memory };
  /** What a commit of the memory changed, as a patch; with path, that file as it was. */
  getMemoryCommit: { path: { commit: string; vm: string; }; query: { path?: string; }; body: undefined; answer: unknown };
  /** Commits of the memory, newest first. */
  getMemoryLog: { path: { vm: string; }; query: { limit?: number; }; body: undefined; answer: types.MemoryLog };
  /** What the guest may reach. */
  getNetwork: { path: { vm: string; }; query: {}; body: undefined; answer: types.Network };
  /** The bytes of a version, or a range of them; Warren-Object describes it. */
  getObject: { path: { bucket: string; key: string; }; query: { refused?: boolean; version?: string; }; body: undefined; answer: unknown };
  /** What each bucket holds. */
  getObjectUsage: { path: {}; query: {}; body: undefined; answer: types.BucketUseList };
  /** This description. */
  getOpenAPI: { path: {}; query: {}; body: undefined; answer: unknown };
  /** The quota and use of the caller's account. */
  getOwnQuota: { path: {}; query: {}; body: undefined; answer: types.QuotaState };
  /** The path rules of a VM, in order, with the places where each holds and where root in the guest makes it void. */
  getPathRules: { path: { vm: string; }; query: {}; body: undefined; answer: types.PathRules };
  /** One network policy, with the VMs that use it. */
  getPolicy: { path: { policy: string; }; query: {}; body: undefined; answer: types.Policy };
  /** One port at the preview gateway. */
  getPreview: { path: { port: number; vm: string; }; query: {}; body: undefined; answer: types.Preview };
  /** One process. */
  getProcess: { path: { process: string; vm: string; }; query: {}; body: undefined; answer: types.Process };
  /** Its output. */
  getProcessLog: { path: { process: string; vm: string; }; query: { follow?: boolean; from?: number; }; body: undefined; answer: unknown };
  /** The quota and use of an account. */
  getQuota: { path: { account: string; }; query: {}; body: undefined; answer: types.QuotaState };
  /** The server accepts requests. */
  getReady: { path: {}; query: {}; body: undefined; answer: types.Health };
  /** The signed receipt of a VM, which may be deleted: its audit records with proofs. */
  getReceipt: { path: { vm: string; }; query: {}; body: undefined; answer: types.Receipt };
  /** What this host holds of a VM: files, snapshots, forks, copies taken out, audit records; a deleted VM is found by its id. */
  getRemains: { path: { vm: string; }; query: {}; body: undefined; answer: types.Remaining };
  /** One repository. */
  getRepo: { path: { repo: string; }; query: {}; body: undefined; answer: types.GitRepo };
  /** The changes of a commit, or from base to head, as a unified diff. */
  getRepoPatch: { path: { repo: string; }; query: { base: string; head: string; }; body: undefined; answer: unknown };
  /** What an identity may do with a repository; null: nothing. */
  getRepoPermission: { path: { identity: string; repo: string; }; query: {}; body: undefined; answer: types.RepoPermission };
  /** The files of a revision as a tar. */
  getRepoTarball: { path: { repo: string; }; query: { rev?: string; }; body: undefined; answer: unknown };
  /** Whether everybody may read a repository. */
  getRepoVisibility: { path: { repo: string; }; query: {}; body: undefined; answer: types.RepoVisibility };
  /** The files of a revision as a zip. */
  getRepoZip: { path: { repo: string; }; query: { rev?: string; }; body: undefined; answer: unknown };
  /** Where the SSH gateway listens, and its host key. */
  getSSHInfo: { path: {}; query: {}; body: undefined; answer: types.SSHInfo };
  /** What the screen of the VM shows, as PNG. */
  getScreenshot: { path: { vm: string; }; query: {}; body: undefined; answer: unknown };
  /** One secret without its value, and the VMs that may use it. */
  getSecret: { path: { secret: string; }; query: {}; body: undefined; answer: types.Secret };
  /** The last lines of a service's journal, oldest first; with follow, as JSON lines as they arrive. */
  getServiceLogs: { path: { service: string; vm: string; }; query: { follow?: boolean; lines?: number; since?: string; }; body: undefined; answer: types.ServiceLogs };
  /** The state of a service. */
  getServiceStatus: { path: { service: string; vm: string; }; query: {}; body: undefined; answer: types.UnitStatus };
  /** One snapshot. */
  getSnapshot: { path: { snapshot: string; }; query: {}; body: undefined; answer: types.Snapshot };
  /** CPU, memory, disk, processes and ports of the guest. */
  getStats: { path: { vm: string; }; query: {}; body: undefined; answer: types.Stats };
  /** The use of the disk, and what would be removed next; accounts that are not admins see their own. */
  getStorage: { path: {}; query: {}; body: undefined; answer: types.Storage };
  /** A tag. */
  getTag: { path: { repo: string; tag: string; }; query: {}; body: undefined; answer: types.Tag };
  /** An annotated tag by its object id. */
  getTagObject: { path: { repo: string; sha: string; }; query: {}; body: undefined; answer: types.Tag };
  /** A terminal's screen, as text or, with format=json, with colours and cursor. */
  getTerminalScreen: { path: { session: string; vm: string; }; query: { format?: string; }; body: undefined; answer: types.PtyScreen };
  /** A terminal's output from an offset on, as text; raw=true: as it is. */
  getTerminalScrollback: { path: { session: string; vm: string; }; query: { raw?: boolean; since?: number; }; body: undefined; answer: unknown };
  /** What the guest does now: processes, what blocked ones wait for, ports, services, last log lines; with seconds, shares of the CPU. */
  getTop: { path: { vm: string; }; query: { brief?: boolean; seconds?: string; }; body: undefined; answer: types.Top };
  /** A tree's entries with digests, as lines of JSON, with an end mark. */
  getTree: { path: { vm: string; }; query: { exclude?: Array<string>; from?: number; pair?: string; path?: string; }; body: undefined; answer: unknown };
  /** Where the authoritative copy of each tree of a VM is (the machine, a repository, a volume), what differs between the copies, and what exists nowhere else. An identity needs a permission for root. */
  getTruth: { path: { vm: string; }; query: {}; body: undefined; answer: types.Truth };
  /** The usage of one VM; a deleted VM is found by its id. */
  getUsage: { path: { vm: string; }; query: {}; body: undefined; answer: types.Usage };
  /** One VM. */
  getVM: { path: { vm: string; }; query: {}; body: undefined; answer: types.VM };
  /** An identity's permission for a VM. */
  getVMPermission: { path: { identity: string; vm: string; }; query: {}; body: undefined; answer: types.VMPermission };
  /** One volume, with the ways to unlock it. */
  getVolume: { path: { volume: string; }; query: { project?: string; }; body: undefined; answer: types.Volume };
  /** The refs of a repository, for git. */
  gitInfoRefs: { path: { repo: string; }; query: { service?: string; }; body: undefined; answer: unknown };
  /** What git pushes. */
  gitReceivePack: { path: { repo: string; }; query: {}; body: undefined; answer: unknown };
  /** What git fetches. */
  gitUploadPack: { path: { repo: string; }; query: {}; body: undefined; answer: unknown };
  /** Let an identity or a VM use the keys with a prefix. */
  grantBucket: { path: { bucket: string; }; query: {}; body: types.BucketGrant; answer: types.BucketGrant };
  /** Let an identity read, or read and write, a repository. */
  grantRepo: { path: { identity: string; repo: string; }; query: {}; body: types.GrantRepo; answer: types.Done };
  /** Let a VM use a repository, or change what it may do with it. */
  grantRepoToVM: { path: { repo: string; vm: string; }; query: {}; body: types.GrantVMRepo; answer: types.VMRepo };
  /** Let a VM use a secret. */
  grantSecret: { path: { secret: string; vm: string; }; query: {}; body: undefined; answer: types.SecretVM };
  /** Let an identity use a VM; allowedUsers null: as any Linux user. */
  grantVM: { path: { identity: string; vm: string; }; query: {}; body: types.GrantVM; answer: types.VMPermission };
  /** One version without its bytes. */
  headObject: { path: { bucket: string; key: string; }; query: { version?: string; }; body: undefined; answer: types.Object };
  /** Keep the VM awake for a while. */
  holdVM: { path: { vm: string; }; query: {}; body: types.NewHold; answer: types.Hold };
  /** All details of a VM and its machine. */
  inspectVM: { path: { vm: string; }; query: {}; body: undefined; answer: types.Inspection };
  /** Take another VM's name and place. */
  keepVM: { path: { vm: string; }; query: {}; body: types.KeepVM; answer: types.KeptVM };
  /** Press a key, or several together. */
  keyScreen: { path: { vm: string; }; query: {}; body: types.KeyScreen; answer: types.ScreenSize };
  /** End the machine at once; the disk is as of its last sync. */
  killVM: { path: { vm: string; }; query: {}; body: undefined; answer: types.KilledVM };
  /** Set and remove labels of a VM. */
  labelVM: { path: { vm: string; }; query: {}; body: types.LabelVM; answer: types.VM };
  /** Accounts. */
  listAccounts: { path: {}; query: {}; body: undefined; answer: types.AccountList };
  /** What waits for a decision and what was decided lately, the newest first. An identity gets its own. */
  listAsks: { path: {}; query: { kind?: string; state?: string; vm?: string; }; body: undefined; answer: types.AskList };
  /** Audit records, newest first. */
  listAudit: { path: {}; query: { actor?: string; after?: number; id?: string; limit?: number; op?: string; since?: string; until?: string; vm?: string; }; body: undefined; answer: types.AuditList };
  /** Every branch. */
  listBranches: { path: { repo: string; }; query: {}; body: undefined; answer: types.BranchList };
  /** Identities and VMs that may use a bucket. */
  listBucketGrants: { path: { bucket: string; }; query: {}; body: undefined; answer: types.BucketGrantList };
  /** Buckets that the caller may use, by name. */
  listBuckets: { path: {}; query: {}; body: undefined; answer: types.BucketList };
  /** Commits of a branch. since is the older end, left out; until the newer end, included. */
  listCommits: { path: { repo: string; }; query: { branch?: string; disableTotalCount?: boolean; limit?: number; offset?: number; order?: string; path?: string; since?: string; until?: string; }; body: undefined; answer: types.CommitList };
  /** The guest's latest outbound connections, with the verdict of its network policy. */
  listConnections: { path: { vm: string; }; query: {}; body: undefined; answer: types.Connections };
  /** DNS records of a domain: none, since this server serves no DNS. */
  listDNSRecords: { path: {}; query: { domain?: string; }; body: undefined; answer: types.DNSRecords };
  /** The last calls of a webhook, newest first. */
  listDeliveries: { path: { repo: string; trigger: string; }; query: {}; body: undefined; answer: types.DeliveryList };
  /** Verified domains, and names claimed below the preview domain. */
  listDomains: { path: {}; query: { implicitlyOwned?: boolean; limit?: number; offset?: number; }; body: undefined; answer: Array<types.OwnedDomain> };
  /** A directory's entries. */
  listFiles: { path: { vm: string; }; query: { path: string; }; body: undefined; answer: types.FileList };
  /** The holds that keep the VM awake. */
  listHolds: { path: { vm: string; }; query: {}; body: undefined; answer: types.HoldList };
  /** Identities of the account, oldest first. */
  listIdentities: { path: {}; query: { includeManaged?: boolean; limit?: number; offset?: number; }; body: undefined; answer: types.IdentityList };
  /** Images of this host. */
  listImages: { path: {}; query: {}; body: undefined; answer: types.ImageList };
  /** The last two hundred finished jobs, newest first. */
  listJobs: { path: {}; query: {}; body: undefined; answer: types.JobList };
  /** API keys, without their secrets; admins: of any account. */
  listKeys: { path: {}; query: { account?: string; }; body: undefined; answer: types.KeyList };
  /** Legacy terminals: none. */
  listLegacyTerminals: { path: { vm: string; }; query: {}; body: undefined; answer: unknown };
  /** Mapped names. */
  listMappings: { path: {}; query: { domain?: string; domainOwnership?: string; limit?: number; offset?: number; }; body: undefined; answer: Array<types.Mapping> };
  /** Volumes and directories of the host that a VM has mounted. */
  listMounts: { path: { vm: string; }; query: {}; body: undefined; answer: types.MountList };
  /** What the policy refused lately, with the rule that would allow it. */
  listNetworkRefusals: { path: { vm: string; }; query: {}; body: undefined; answer: types.NetRefusals };
  /** Versions and delete markers by key, the newest of each key first. */
  listObjectVersions: { path: { bucket: string; }; query: { after?: string; afterVersion?: string; delimiter?: string; limit?: number; prefix?: string; }; body: undefined; answer: types.ObjectList };
  /** Objects by key; tag=NAME=VALUE, which may repeat, selects by tags. */
  listObjects: { path: { bucket: string; }; query: { after?: string; delimiter?: string; limit?: number; prefix?: string; tag?: Array<string>; }; body: undefined; answer: types.ObjectList };
  /** Network policies: those that come with Warren, then the account's own. */
  listPolicies: { path: {}; query: {}; body: undefined; answer: types.PolicyList };
  /** Listening ports of the guest. */
  listPorts: { path: { vm: string; }; query: {}; body: undefined; answer: types.Ports };
  /** Ports that were made public, or private again. */
  listPreviews: { path: { vm: string; }; query: {}; body: undefined; answer: types.PreviewList };
  /** Commands started by exec, running or ended. */
  listProcesses: { path: { vm: string; }; query: {}; body: undefined; answer: types.ProcessList };
  /** Patterns of branches that nobody deletes or rewinds. */
  listProtectedBranches: { path: { repo: string; }; query: {}; body: undefined; answer: types.ProtectedBranches };
  /** Repositories that an identity may use. */
  listRepoPermissions: { path: { identity: string; }; query: { limit?: number; offset?: number; }; body: undefined; answer: types.GrantedRepoList };
  /** Repositories that the caller may read, newest first. */
  listRepos: { path: {}; query: { limit?: number; offset?: number; search?: string; }; body: undefined; answer: types.RepoList };
  /** The repositories that a VM's programs may use as the VM itself. */
  listReposOfVM: { path: { vm: string; }; query: {}; body: undefined; answer: types.VMRepos };
  /** Access keys for S3 clients, without their secrets. */
  listS3Keys: { path: {}; query: {}; body: undefined; answer: types.S3KeyList };
  /** SSH keys of an identity. */
  listSSHKeys: { path: { identity: string; }; query: {}; body: undefined; answer: types.SSHKeyList };
  /** Secrets by name, without their values. */
  listSecrets: { path: {}; query: {}; body: undefined; answer: types.SecretList };
  /** Services of the guest's systemd. */
  listServices: { path: { vm: string; }; query: {}; body: undefined; answer: types.ServiceList };
  /** Snapshots of the images and of the account. */
  listSnapshots: { path: {}; query: { includeBuilding?: boolean; includeCancelled?: boolean; includeDeleted?: boolean; includeFailed?: boolean; includeLost?: boolean; }; body: undefined; answer: types.SnapshotList };
  /** Every tag. */
  listTags: { path: { repo: string; }; query: {}; body: undefined; answer: types.TagList };
  /** Terminals, running or recently ended. */
  listTerminals: { path: { vm: string; }; query: {}; body: undefined; answer: types.PtySessionList };
  /** Tokens of an identity, without their secrets. */
  listTokens: { path: { identity: string; }; query: {}; body: undefined; answer: types.TokenList };
  /** Webhooks of a repository, without their secrets. */
  listTriggers: { path: { repo: string; }; query: {}; body: undefined; answer: types.TriggerList };
  /** The turns of the VM, oldest first; with compare what changed in each. */
  listTurns: { path: { vm: string; }; query: { compare?: boolean; }; body: undefined; answer: types.TurnList };
  /** The usage of the account's VMs, including deleted ones; for admins with all=true of every account. */
  listUsage: { path: {}; query: { all?: boolean; }; body: undefined; answer: types.UsageList };
  /** An identity's permissions for VMs, oldest first. */
  listVMPermissions: { path: { identity: string; }; query: { limit?: number; offset?: number; }; body: undefined; answer: types.VMPermissionList };
  /** VMs, oldest first. */
  listVMs: { path: {}; query: { all?: boolean; label?: Array<string>; limit?: number; offset?: number; search?: string; vmState?: Array<string>; }; body: undefined; answer: types.VMList };
  /** Verifications in progress. */
  listVerifications: { path: {}; query: {}; body: undefined; answer: Array<types.Verification> };
  /** Managed volumes: all, those of a project, or those that a VM has mounted. */
  listVolumes: { path: {}; query: { project?: string; vm?: string; }; body: undefined; answer: types.VolumeList };
  /** Lock a volume: remove its key from memory. */
  lockVolume: { path: { volume: string; }; query: { project?: string; }; body: types.LockVolume; answer: types.Volume };
  /** Make a directory. */
  makeDirectory: { path: { vm: string; }; query: {}; body: types.FileOp; answer: types.Done };
  /** Make a symlink. */
  makeSymlink: { path: { vm: string; }; query: {}; body: types.FileOp; answer: types.Done };
  /** Mark a turn: a state of memory and disk to which undo returns. */
  markTurn: { path: { vm: string; }; query: {}; body: types.MarkTurn; answer: types.Turn };
  /** Mount an unlocked volume, a directory of the host, or objects of a bucket, in a VM; a sleeping VM is woken. An identity may mount a volume if its permission asks for it. */
  mountInVM: { path: { vm: string; }; query: {}; body: types.NewMount; answer: types.Mount };
  /** Move the pointer. */
  moveScreen: { path: { vm: string; }; query: {}; body: types.MoveScreen; answer: types.ScreenSize };
  /** Open an uploaded bundle: verify all of it, then make its repositories, a bucket with its objects and receipts, and its VM. trust names a signer's fingerprint. */
  openBundle: { path: {}; query: { name?: string; trust?: string; }; body: Blob | ArrayBuffer | Uint8Array | string; answer: types.OpenedBundle };
  /** Run a command over a WebSocket. */
  openExec: { path: { vm: string; }; query: {}; body: undefined; answer: unknown };
  /** SSH over a WebSocket: its binary messages are the bytes of a connection to the gateway, which needs no further login; the SSH user is the Linux user. */
  openSSH: { path: { vm: string; }; query: {}; body: undefined; answer: unknown };
  /** Open a terminal over a WebSocket; exec runs a command line in place of the login shell. */
  openTerminal: { path: { vm: string; }; query: { cols?: number; cwd?: string; env?: Array<string>; exec?: string; rows?: number; sessionId?: string; }; body: undefined; answer: unknown };
  /** Nothing to do in this version. */
  optimizeVM: { path: { vm: string; }; query: {}; body: undefined; answer: unknown };
  /** The contents of many files below a directory. */
  pickFiles: { path: { vm: string; }; query: { path?: string; }; body: types.TreePick; answer: unknown };
  /** Make many changes below a directory, each only if the path is as expected. */
  placeFiles: { path: { vm: string; }; query: { mark?: string; pair?: string; path?: string; }; body: Blob | ArrayBuffer | Uint8Array | string; answer: types.TreePlaced };
  /** A message of an MCP client (streamable HTTP). */
  postMCP: { path: {}; query: {}; body: undefined; answer: unknown };
  /** Protect the branches that a pattern matches. */
  protectBranch: { path: { branch: string; repo: string; }; query: {}; body: undefined; answer: types.ProtectedBranches };
  /** Remove old audit records; the chain still verifies. */
  pruneAudit: { path: {}; query: {}; body: types.PruneAudit; answer: types.AuditPruned };
  /** Free what the budget requires plus the requested bytes: layers first, then sticky VMs that do not run; accounts that are not admins prune their own. */
  pruneStorage: { path: {}; query: {}; body: types.Prune; answer: types.Pruned };
  /** Store a file, or a directory as tar.zst, as a new version of an object, from a frozen state of the disk. An identity needs a permission for root, and a grant to write the key. */
  publishFromVM: { path: { vm: string; }; query: {}; body: types.PublishRequest; answer: types.Published };
  /** Write a file. */
  putFile: { path: { path: string; vm: string; }; query: {}; body: types.FileContent; answer: types.Done };
  /** Write a new version of a key. */
  putObject: { path: { bucket: string; key: string; }; query: { tag?: Array<string>; }; body: Blob | ArrayBuffer | Uint8Array | string; answer: types.Object };
  /** Paths of a state of the VM's disk as tar, with an end mark. */
  readContent: { path: { vm: string; }; query: {}; body: types.ContentOf; answer: unknown };
  /** A file's bytes, with length and digest. */
  readFile: { path: { path: string; vm: string; }; query: { maxBytes?: number; }; body: undefined; answer: unknown };
  /** A tree as tar, with an end mark. */
  readTar: { path: { path: string; vm: string; }; query: {}; body: undefined; answer: unknown };
  /** End a hold early. */
  releaseHold: { path: { hold: string; vm: string; }; query: {}; body: undefined; answer: types.Done };
  /** Remove an account; with force also its VMs. */
  removeAccount: { path: { account: string; }; query: { force?: boolean; }; body: undefined; answer: types.Done };
  /** Remove an empty bucket; with force=true with everything in it that is not retained. */
  removeBucket: { path: { bucket: string; }; query: { force?: boolean; }; body: undefined; answer: types.Done };
  /** Refused: this server serves no DNS. */
  removeDNSRecord: { path: {}; query: { domain?: string; record?: string; }; body: undefined; answer: unknown };
  /** Remove. */
  removeFile: { path: { vm: string; }; query: {}; body: types.FileOp; answer: types.Done };
  /** GitHub sync is not available. */
  removeGitHubSync: { path: { repo: string; }; query: {}; body: undefined; answer: unknown };
  /** End a mapping. */
  removeMapping: { path: { domain: string; }; query: {}; body: undefined; answer: types.Done };
  /** Write a delete marker, or remove a version. */
  removeObject: { path: { bucket: string; key: string; }; query: { bypass?: boolean; version?: string; }; body: undefined; answer: types.Object };
  /** Remove the path rule with an id or a pattern. */
  removePathRule: { path: { vm: string; }; query: { mount?: string; rule?: string; }; body: undefined; answer: types.PathRules };
  /** Remove a network policy that no VM uses. */
  removePolicy: { path: { policy: string; }; query: {}; body: undefined; answer: types.Done };
  /** Delete a repository with its history. */
  removeRepo: { path: { repo: string; }; query: {}; body: undefined; answer: types.Done };
  /** Remove an SSH key, named by id, name or fingerprint; connections that use it are closed. */
  removeSSHKey: { path: { identity: string; key: string; }; query: {}; body: undefined; answer: types.Done };
  /** Remove a secret; no VM can use it any more. */
  removeSecret: { path: { secret: string; }; query: {}; body: undefined; answer: types.Done };
  /** Stop and remove a service that was added. */
  removeService: { path: { service: string; vm: string; }; query: {}; body: undefined; answer: types.RemovedService };
  /** Remove a webhook. */
  removeTrigger: { path: { repo: string; trigger: string; }; query: {}; body: undefined; answer: types.Done };
  /** Remove a verification, and a verified domain with its mappings. */
  removeVerification: { path: {}; query: {}; body: types.Domain; answer: types.Domain };
  /** Erase a volume that no VM has mounted. */
  removeVolume: { path: { volume: string; }; query: { project?: string; }; body: undefined; answer: types.Done };
  /** Remove a way to unlock a volume. */
  removeVolumeKey: { path: { slot: string; volume: string; }; query: { project?: string; }; body: undefined; answer: types.Done };
  /** Remove a snapshot of a volume. */
  removeVolumeSnapshot: { path: { volume: string; volumesnapshot: string; }; query: { project?: string; }; body: undefined; answer: types.Done };
  /** Rename. */
  renameFile: { path: { vm: string; }; query: {}; body: types.FileOp; answer: types.Done };
  /** Rename a snapshot. */
  renameSnapshot: { path: { snapshot: string; }; query: {}; body: types.NameSnapshot; answer: types.ChangedSnapshot };
  /** Give a VM another name, which no other VM of the account has. */
  renameVM: { path: { vm: string; }; query: {}; body: types.RenameVM; answer: types.VM };
  /** Change the size: while the VM runs if the guest supports it, else by a stop and a start. */
  resizeVM: { path: { vm: string; }; query: {}; body: types.Sizes; answer: types.ResizedVM };
  /** Grow an unlocked volume that no VM has mounted. */
  resizeVolume: { path: { volume: string; }; query: { project?: string; }; body: types.ResizeVolume; answer: types.Volume };
  /** Restart services. */
  restartServices: { path: { vm: string; }; query: {}; body: types.ServiceIDs; answer: types.ServiceResults };
  /** Bring one path back from an older state; the VM keeps running. */
  restorePaths: { path: { vm: string; }; query: {}; body: types.RestoreRequest; answer: types.Restored };
  /** Set retention or legal hold of a version. */
  retainObject: { path: { bucket: string; key: string; }; query: { version?: string; }; body: types.RetainObject; answer: types.Object };
  /** End a grant. */
  revokeBucket: { path: { bucket: string; }; query: { identity?: string; prefix?: string; vm?: string; }; body: undefined; answer: types.Done };
  /** Revoke a key. */
  revokeKey: { path: { key: string; }; query: {}; body: undefined; answer: types.Done };
  /** Remove a permission for a repository. */
  revokeRepo: { path: { identity: string; repo: string; }; query: {}; body: undefined; answer: types.Done };
  /** End a VM's use of a repository, and its fetches and pushes in progress. */
  revokeRepoFromVM: { path: { repo: string; vm: string; }; query: {}; body: undefined; answer: Record<string, unknown> };
  /** End an access key and the links signed with it. */
  revokeS3Key: { path: { key: string; }; query: {}; body: undefined; answer: types.Done };
  /** End the use of a secret by a VM. */
  revokeSecret: { path: { secret: string; vm: string; }; query: {}; body: undefined; answer: types.Done };
  /** Revoke a token at once. */
  revokeToken: { path: { identity: string; token: string; }; query: {}; body: undefined; answer: types.Done };
  /** Remove a permission; connections that use it are closed. */
  revokeVM: { path: { identity: string; vm: string; }; query: {}; body: undefined; answer: types.Done };
  /** Put the files of an earlier commit back; what was there is committed first. Starts the VM. */
  rollbackMemory: { path: { vm: string; }; query: {}; body: types.RollbackMemory; answer: types.Memory };
  /** Restore a generation of the VM. */
  rollbackVM: { path: { vm: string; }; query: {}; body: types.RollbackVM; answer: types.RolledBackVM };
  /** Restore a snapshot of an unlocked volume that no VM has mounted. */
  rollbackVolume: { path: { volume: string; }; query: { project?: string; }; body: types.RollbackVolume; answer: types.RolledBackVolume };
  /** Let another key sign the audit log. */
  rotateAuditKey: { path: {}; query: {}; body: types.RotateAuditKey; answer: types.AuditKey };
  /** Replace a key's secret. */
  rotateKey: { path: { key: string; }; query: {}; body: undefined; answer: types.CreatedKey };
  /** Give a secret a new value at its service: by an OAuth refresh, or by its rotator. VMs use it from then on. */
  rotateSecret: { path: { secret: string; }; query: {}; body: undefined; answer: types.Secret };
  /** Give an unlocked volume that no VM has mounted another key. */
  rotateVolumeKey: { path: { volume: string; }; query: { project?: string; }; body: undefined; answer: types.Done };
  /** Run a shell command and wait for it. */
  runCommand: { path: { vm: string; }; query: {}; body: types.ExecAwait; answer: types.ExecResult };
  /** Turn the wheel of the pointer. */
  scrollScreen: { path: { vm: string; }; query: {}; body: types.ScrollScreen; answer: types.ScreenSize };
  /** Commits whose message matches. */
  searchCommits: { path: { repo: string; }; query: { caseSensitive?: boolean; excludePattern?: string; isRegex?: boolean; maxResults?: number; offset?: number; pathPattern?: string; query?: string; ref?: string; rev?: string; wholeWord?: boolean; }; body: undefined; answer: types.FoundCommits };
  /** Commits that added or removed lines that match. */
  searchDiffs: { path: { repo: string; }; query: { caseSensitive?: boolean; excludePattern?: string; isRegex?: boolean; maxResults?: number; offset?: number; pathPattern?: string; query?: string; ref?: string; rev?: string; wholeWord?: boolean; }; body: undefined; answer: types.FoundDiffs };
  /** Files whose path matches. */
  searchFiles: { path: { repo: string; }; query: { caseSensitive?: boolean; excludePattern?: string; isRegex?: boolean; maxResults?: number; offset?: number; pathPattern?: string; query?: string; ref?: string; rev?: string; wholeWord?: boolean; }; body: undefined; answer: types.RepoFiles };
  /** Lines that match, in the files of a revision. */
  searchText: { path: { repo: string; }; query: { caseSensitive?: boolean; excludePattern?: string; isRegex?: boolean; maxResults?: number; offset?: number; pathPattern?: string; query?: string; ref?: string; rev?: string; wholeWord?: boolean; }; body: undefined; answer: types.RepoSearch };
  /** Type into a terminal, wait until it is quiet, and return the output. */
  sendTerminal: { path: { session: string; vm: string; }; query: {}; body: types.PtyInput; answer: types.PtyOutput };
  /** Choose the branch that a clone checks out. */
  setDefaultBranch: { path: { repo: string; }; query: {}; body: types.DefaultBranch; answer: types.Done };
  /** Replace the guest's network policy, at once. Connections that it does not allow are closed. */
  setNetwork: { path: { vm: string; }; query: {}; body: types.SetNetwork; answer: types.ChangedNetwork };
  /** Set whether the VM resumes after the host has restarted. */
  setOnBoot: { path: { vm: string; }; query: {}; body: types.SetOnBoot; answer: types.VM };
  /** Set all path rules of a VM, in order. */
  setPathRules: { path: { vm: string; }; query: {}; body: types.SetPaths; answer: types.PathRules };
  /** Make or replace a network policy. VMs that use it get its rules at once. */
  setPolicy: { path: { policy: string; }; query: {}; body: types.SetPolicy; answer: types.ChangedPolicy };
  /** Make a port public, or private again. */
  setPreview: { path: { port: number; vm: string; }; query: {}; body: types.SetPreview; answer: types.Preview };
  /** Set the quota of an account; 0 or absent = no limit. */
  setQuota: { path: { account: string; }; query: {}; body: types.Quota; answer: types.QuotaState };
  /** Make a repository public or private. */
  setRepoVisibility: { path: { repo: string; }; query: {}; body: types.RepoVisibility; answer: types.RepoVisibility };
  /** Set the interval of automatic generations. */
  setSchedule: { path: { vm: string; }; query: {}; body: types.Schedule; answer: types.VM };
  /** Keep a secret, or replace the value of one. No answer shows a value. */
  setSecret: { path: {}; query: {}; body: types.SetSecret; answer: types.Secret };
  /** Make a link for one object that ends by itself. */
  signObject: { path: { bucket: string; key: string; }; query: {}; body: types.SignObject; answer: types.SignedObject };
  /** Send a signal to its group. */
  signalProcess: { path: { process: string; vm: string; }; query: {}; body: types.Signal; answer: types.Done };
  /** Take a snapshot of an unlocked volume. */
  snapshotVolume: { path: { volume: string; }; query: { project?: string; }; body: types.NewVolumeSnapshot; answer: types.VolumeSnapshot };
  /** Start a command in the background. */
  startProcess: { path: { vm: string; }; query: {}; body: types.ExecSpec; answer: types.StartedProcess };
  /** Start services. */
  startServices: { path: { vm: string; }; query: {}; body: types.ServiceIDs; answer: types.ServiceResults };
  /** Start a stopped VM; a running one does not change. */
  startVM: { path: { vm: string; }; query: {}; body: types.StartVM; answer: types.StartedVM };
  /** One entry. */
  statFile: { path: { vm: string; }; query: { path: string; }; body: undefined; answer: types.FileInfo };
  /** Stop services. */
  stopServices: { path: { vm: string; }; query: {}; body: types.ServiceIDs; answer: types.ServiceResults };
  /** Stop: the disk is kept, memory is not. */
  stopVM: { path: { vm: string; }; query: {}; body: undefined; answer: types.StoppedVM };
  /** Run a command; output as lines of JSON. */
  streamCommand: { path: { vm: string; }; query: {}; body: types.ExecChunked; answer: unknown };
  /** Events as they happen (SSE); resumed by Last-Event-ID. */
  streamEvents: { path: {}; query: { after?: string; types?: string; vm?: string; }; body: undefined; answer: unknown };
  /** Messages to an MCP client with a session, as they come (SSE). */
  streamMCP: { path: {}; query: {}; body: undefined; answer: unknown };
  /** Save memory and disk and end the machine; start resumes the same processes. */
  suspendVM: { path: { vm: string; }; query: {}; body: types.SuspendVM; answer: types.SuspendedVM };
  /** Carry out the lifecycle rules of all buckets now. */
  sweepObjects: { path: {}; query: {}; body: undefined; answer: types.SweptObjects };
  /** Replace the tags of a version. */
  tagObject: { path: { bucket: string; key: string; }; query: { version?: string; }; body: types.ObjectTags; answer: types.Object };
  /** Capture a snapshot; the VM keeps running. An identity needs a permission that asks for it. */
  takeSnapshot: { path: { vm: string; }; query: {}; body: types.TakeSnapshot; answer: types.TakenSnapshot };
  /** Type a text. */
  typeScreen: { path: { vm: string; }; query: {}; body: types.TypeScreen; answer: types.ScreenSize };
  /** Put memory, processes and disk back to a turn. */
  undoVM: { path: { vm: string; }; query: {}; body: types.UndoVM; answer: types.UndoneVM };
  /** End a drain: VMs may start again. */
  undrainHost: { path: {}; query: {}; body: undefined; answer: types.Undrained };
  /** Make a volume ready to be mounted. */
  unlockVolume: { path: { volume: string; }; query: { project?: string; }; body: types.UnlockVolume; answer: types.UnlockedVolume };
  /** Unmount a volume or a directory of the host: by its path in the guest, its name or its id. */
  unmountInVM: { path: { vm: string; }; query: { force?: boolean; path?: string; }; body: undefined; answer: types.Done };
  /** Remove a pattern of protected branches. */
  unprotectBranch: { path: { branch: string; repo: string; }; query: {}; body: undefined; answer: types.ProtectedBranches };
  /** Check the audit chain. */
  verifyAudit: { path: {}; query: {}; body: undefined; answer: types.AuditReport };
  /** Check the audit chain, and checkpoints that were kept outside against it. */
  verifyAuditAgainst: { path: {}; query: {}; body: types.VerifyAudit; answer: types.AuditReport };
  /** Begin to verify a domain: its owner sets a TXT record. */
  verifyDomain: { path: {}; query: {}; body: types.Domain; answer: types.Verification };
  /** Wait until a program in the guest accepts connections on a TCP port, on its network or loopback. */
  waitPort: { path: { port: number; vm: string; }; query: { timeoutMs?: number; }; body: undefined; answer: types.OpenPort };
  /** Wait for its end. */
  waitProcess: { path: { process: string; vm: string; }; query: { timeoutMs?: number; }; body: undefined; answer: types.Process };
  /** Changes below a directory, as lines of JSON. */
  watchDirectory: { path: { vm: string; }; query: { path: string; recursive?: boolean; }; body: undefined; answer: unknown };
  /** Changes below the paths, else below the working directory, as lines of JSON. */
  watchFiles: { path: { vm: string; }; query: { path?: Array<string>; }; body: undefined; answer: unknown };
  /** The account or identity of the caller. */
  whoAmI: { path: {}; query: {}; body: undefined; answer: types.WhoAmI };
  /** Write a file of any size. */
  writeFile: { path: { path: string; vm: string; }; query: { mode?: string; parents?: boolean; }; body: Blob | ArrayBuffer | Uint8Array | string; answer: types.WrittenFile };
  /** Unpack a tar below a directory. */
  writeTar: { path: { path: string; vm: string; }; query: {}; body: Blob | ArrayBuffer | Uint8Array | string; answer: types.Done };
}

/** The method and the path of each operation. */
export const operations: Record<keyof Operations, readonly [string, string]> = {
  addDNSRecord: ["POST", "/dns/v1/records"],
  addPathRule: ["POST", "/v1/vms/{vm}/paths"],
  addSSHKey: ["POST", "/identity/v1/identities/{identity}/keys"],
  addService: ["POST", "/v1/vms/{vm}/systemd/services"],
  addVolumeKey: ["POST", "/v1/volumes/{volume}/keys"],
  approveAsk: ["POST", "/v1/asks/{ask}/approve"],
  attachTerminal: ["GET", "/v1/vms/{vm}/pty/sessions/{session}"],
  awaitVM: ["POST", "/v1/vms/{vm}/await"],
  buildSnapshot: ["POST", "/v1/vms/snapshots"],
  bundleVM: ["POST", "/v1/vms/{vm}/bundle"],
  changeBucket: ["PATCH", "/v1/objects/buckets/{bucket}"],
  changeFileMode: ["POST", "/v1/vms/{vm}/fs/chmod"],
  changeNetwork: ["PATCH", "/v1/vms/{vm}/network"],
  changeRepoPermission: ["PUT", "/identity/v1/identities/{identity}/permissions/git/{repo}"],
  changeVMPermission: ["PUT", "/identity/v1/identities/{identity}/permissions/vm/{vm}"],
  checkDomain: ["PUT", "/domains/v1/verifications"],
  checkNetwork: ["POST", "/v1/vms/{vm}/network/check"],
  clickScreen: ["POST", "/v1/vms/{vm}/screen/click"],
  closePreview: ["DELETE", "/v1/vms/{vm}/previews/{port}"],
  closeTerminal: ["DELETE", "/v1/vms/{vm}/pty/sessions/{session}"],
  commitFiles: ["POST", "/git/v1/repo/{repo}/commits"],
  commitMemory: ["POST", "/v1/vms/{vm}/memory/commit"],
  commitVM: ["POST", "/v1/vms/{vm}/commit"],
  compareRevisions: ["GET", "/git/v1/repo/{repo}/compare"],
  compareVMs: ["POST", "/v1/compare"],
  createAccount: ["POST", "/v1/accounts"],
  createBackup: ["POST", "/v1/backups"],
  createBranch: ["POST", "/git/v1/repo/{repo}/git/refs/heads/{branch}"],
  createBucket: ["POST", "/v1/objects/buckets"],
  createCommit: ["POST", "/git/v1/repo/{repo}/git/commits"],
  createGitHubSync: ["POST", "/git/v1/repo/{repo}/github-sync"],
  createIdentity: ["POST", "/identity/v1/identities"],
  createKey: ["POST", "/v1/keys"],
  createMapping: ["POST", "/domains/v1/mappings/{domain}"],
  createPreviewLink: ["POST", "/v1/vms/{vm}/previews/{port}/links"],
  createPreviewTicket: ["POST", "/v1/vms/{vm}/previews/{port}/tickets"],
  createRepo: ["POST", "/git/v1/repo"],
  createS3Key: ["POST", "/v1/objects/keys"],
  createToken: ["POST", "/identity/v1/identities/{identity}/tokens"],
  createTrigger: ["POST", "/git/v1/repo/{repo}/trigger"],
  createVM: ["POST", "/v1/vms"],
  createVolume: ["POST", "/v1/volumes"],
  createWildcardCertificate: ["POST", "/domains/v1/certs/{domain}/wildcard"],
  deleteBranch: ["DELETE", "/git/v1/repo/{repo}/git/refs/heads/{branch}"],
  deleteIdentity: ["DELETE", "/identity/v1/identities/{identity}"],
  deleteSnapshot: ["DELETE", "/v1/vms/snapshots/{snapshot}"],
  deleteVM: ["DELETE", "/v1/vms/{vm}"],
  denyAsk: ["POST", "/v1/asks/{ask}/deny"],
  diagnoseVM: ["GET", "/v1/vms/{vm}/diagnose"],
  dialPort: ["GET", "/v1/vms/{vm}/dial/{port}"],
  diffVM: ["POST", "/v1/vms/{vm}/diff"],
  disableMemory: ["DELETE", "/v1/vms/{vm}/memory"],
  drainHost: ["POST", "/v1/drain"],
  enableMemory: ["POST", "/v1/vms/{vm}/memory"],
  endMCP: ["DELETE", "/mcp"],
  fetchIntoVM: ["POST", "/v1/vms/{vm}/fetch"],
  finishVM: ["POST", "/v1/vms/{vm}/done"],
  forgetProcess: ["DELETE", "/v1/vms/{vm}/processes/{process}"],
  forkVM: ["POST", "/v1/vms/{vm}/fork"],
  getAsk: ["GET", "/v1/asks/{ask}"],
  getBackgroundAnswer: ["GET", "/auth/v1/background-requests/{request}"],
  getBackgroundLogs: ["GET", "/observability/v1/logs"],
  getBranch: ["GET", "/git/v1/repo/{repo}/git/refs/heads/{branch}"],
  getBucket: ["GET", "/v1/objects/buckets/{bucket}"],
  getBuild: ["GET", "/v1/vms/builds/{build}"],
  getBuildOfVM: ["GET", "/v1/vms/{vm}/build"],
  getBuildPhases: ["GET", "/v1/vms/builds/{build}/phases"],
  getBundleSigner: ["GET", "/v1/bundles/signer"],
  getCA: ["GET", "/v1/ca"],
  getCommit: ["GET", "/git/v1/repo/{repo}/git/commits/{sha}"],
  getConfig: ["GET", "/v1/config"],
  getConsoleLog: ["GET", "/v1/vms/{vm}/logs"],
  getContents: ["GET", "/git/v1/repo/{repo}/contents/{path}"],
  getDefaultBranch: ["GET", "/git/v1/repo/{repo}/default-branch"],
  getDiff: ["GET", "/v1/vms/{vm}/diff"],
  getDiffPatch: ["GET", "/v1/vms/{vm}/diff/patch"],
  getFile: ["GET", "/v1/vms/{vm}/files/{path}"],
  getGitBlob: ["GET", "/git/v1/repo/{repo}/git/blobs/{sha}"],
  getGitHubSync: ["GET", "/git/v1/repo/{repo}/github-sync"],
  getGitTree: ["GET", "/git/v1/repo/{repo}/git/trees/{sha}"],
  getGuestState: ["GET", "/v1/vms/{vm}/state"],
  getHealth: ["GET", "/healthz"],
  getHost: ["GET", "/v1/host"],
  getIdle: ["GET", "/v1/vms/{vm}/idle"],
  getLineage: ["GET", "/v1/lineage"],
  getLineageOfVM: ["GET", "/v1/vms/{vm}/lineage"],
  getMemory: ["GET", "/v1/vms/{vm}/memory"],
  getMemoryCommit: ["GET", "/v1/vms/{vm}/memory/commits/{commit}"],
  getMemoryLog: ["GET", "/v1/vms/{vm}/memory/log"],
  getNetwork: ["GET", "/v1/vms/{vm}/network"],
  getObject: ["GET", "/v1/objects/buckets/{bucket}/raw/{key}"],
  getObjectUsage: ["GET", "/v1/objects/usage"],
  getOpenAPI: ["GET", "/openapi.json"],
  getOwnQuota: ["GET", "/v1/quota"],
  getPathRules: ["GET", "/v1/vms/{vm}/paths"],
  getPolicy: ["GET", "/v1/policies/{policy}"],
  getPreview: ["GET", "/v1/vms/{vm}/previews/{port}"],
  getProcess: ["GET", "/v1/vms/{vm}/processes/{process}"],
  getProcessLog: ["GET", "/v1/vms/{vm}/processes/{process}/log"],
  getQuota: ["GET", "/v1/accounts/{account}/quota"],
  getReady: ["GET", "/readyz"],
  getReceipt: ["GET", "/v1/receipts/{vm}"],
  getRemains: ["GET", "/v1/vms/{vm}/remains"],
  getRepo: ["GET", "/git/v1/repo/{repo}"],
  getRepoPatch: ["GET", "/git/v1/repo/{repo}/patch"],
  getRepoPermission: ["GET", "/identity/v1/identities/{identity}/permissions/git/{repo}"],
  getRepoTarball: ["GET", "/git/v1/repo/{repo}/tarball"],
  getRepoVisibility: ["GET", "/git/v1/repo/{repo}/visibility"],
  getRepoZip: ["GET", "/git/v1/repo/{repo}/zip"],
  getSSHInfo: ["GET", "/v1/ssh"],
  getScreenshot: ["GET", "/v1/vms/{vm}/screen/shot"],
  getSecret: ["GET", "/v1/secrets/{secret}"],
  getServiceLogs: ["GET", "/v1/vms/{vm}/systemd/services/{service}/logs"],
  getServiceStatus: ["GET", "/v1/vms/{vm}/systemd/services/{service}/status"],
  getSnapshot: ["GET", "/v1/vms/snapshots/{snapshot}"],
  getStats: ["GET", "/v1/vms/{vm}/stats"],
  getStorage: ["GET", "/v1/storage"],
  getTag: ["GET", "/git/v1/repo/{repo}/git/refs/tags/{tag}"],
  getTagObject: ["GET", "/git/v1/repo/{repo}/git/tags/{sha}"],
  getTerminalScreen: ["GET", "/v1/vms/{vm}/pty/sessions/{session}/screen"],
  getTerminalScrollback: ["GET", "/v1/vms/{vm}/pty/sessions/{session}/scrollback"],
  getTop: ["GET", "/v1/vms/{vm}/top"],
  getTree: ["GET", "/v1/vms/{vm}/fs/tree"],
  getTruth: ["GET", "/v1/vms/{vm}/truth"],
  getUsage: ["GET", "/v1/vms/{vm}/usage"],
  getVM: ["GET", "/v1/vms/{vm}"],
  getVMPermission: ["GET", "/identity/v1/identities/{identity}/permissions/vm/{vm}"],
  getVolume: ["GET", "/v1/volumes/{volume}"],
  gitInfoRefs: ["GET", "/{repo}/info/refs"],
  gitReceivePack: ["POST", "/{repo}/git-receive-pack"],
  gitUploadPack: ["POST", "/{repo}/git-upload-pack"],
  grantBucket: ["PUT", "/v1/objects/buckets/{bucket}/grants"],
  grantRepo: ["POST", "/identity/v1/identities/{identity}/permissions/git/{repo}"],
  grantRepoToVM: ["PUT", "/v1/vms/{vm}/repositories/{repo}"],
  grantSecret: ["PUT", "/v1/secrets/{secret}/vms/{vm}"],
  grantVM: ["POST", "/identity/v1/identities/{identity}/permissions/vm/{vm}"],
  headObject: ["GET", "/v1/objects/buckets/{bucket}/head/{key}"],
  holdVM: ["POST", "/v1/vms/{vm}/holds"],
  inspectVM: ["GET", "/v1/vms/{vm}/inspect"],
  keepVM: ["POST", "/v1/vms/{vm}/keep"],
  keyScreen: ["POST", "/v1/vms/{vm}/screen/key"],
  killVM: ["POST", "/v1/vms/{vm}/kill"],
  labelVM: ["PATCH", "/v1/vms/{vm}/labels"],
  listAccounts: ["GET", "/v1/accounts"],
  listAsks: ["GET", "/v1/asks"],
  listAudit: ["GET", "/v1/audit"],
  listBranches: ["GET", "/git/v1/repo/{repo}/git/refs/heads/"],
  listBucketGrants: ["GET", "/v1/objects/buckets/{bucket}/grants"],
  listBuckets: ["GET", "/v1/objects/buckets"],
  listCommits: ["GET", "/git/v1/repo/{repo}/git/commits"],
  listConnections: ["GET", "/v1/vms/{vm}/connections"],
  listDNSRecords: ["GET", "/dns/v1/records"],
  listDeliveries: ["GET", "/git/v1/repo/{repo}/trigger/{trigger}/deliveries"],
  listDomains: ["GET", "/domains/v1/domains"],
  listFiles: ["GET", "/v1/vms/{vm}/fs/list"],
  listHolds: ["GET", "/v1/vms/{vm}/holds"],
  listIdentities: ["GET", "/identity/v1/identities"],
  listImages: ["GET", "/v1/images"],
  listJobs: ["GET", "/v1/jobs"],
  listKeys: ["GET", "/v1/keys"],
  listLegacyTerminals: ["GET", "/v1/vms/{vm}/terminals"],
  listMappings: ["GET", "/domains/v1/mappings"],
  listMounts: ["GET", "/v1/vms/{vm}/mounts"],
  listNetworkRefusals: ["GET", "/v1/vms/{vm}/network/refusals"],
  listObjectVersions: ["GET", "/v1/objects/buckets/{bucket}/versions"],
  listObjects: ["GET", "/v1/objects/buckets/{bucket}/objects"],
  listPolicies: ["GET", "/v1/policies"],
  listPorts: ["GET", "/v1/vms/{vm}/ports"],
  listPreviews: ["GET", "/v1/vms/{vm}/previews"],
  listProcesses: ["GET", "/v1/vms/{vm}/processes"],
  listProtectedBranches: ["GET", "/git/v1/repo/{repo}/protected-branches"],
  listRepoPermissions: ["GET", "/identity/v1/identities/{identity}/permissions/git"],
  listRepos: ["GET", "/git/v1/repo"],
  listReposOfVM: ["GET", "/v1/vms/{vm}/repositories"],
  listS3Keys: ["GET", "/v1/objects/keys"],
  listSSHKeys: ["GET", "/identity/v1/identities/{identity}/keys"],
  listSecrets: ["GET", "/v1/secrets"],
  listServices: ["GET", "/v1/vms/{vm}/systemd/services"],
  listSnapshots: ["GET", "/v1/vms/snapshots"],
  listTags: ["GET", "/git/v1/repo/{repo}/git/refs/tags/"],
  listTerminals: ["GET", "/v1/vms/{vm}/pty/sessions"],
  listTokens: ["GET", "/identity/v1/identities/{identity}/tokens"],
  listTriggers: ["GET", "/git/v1/repo/{repo}/trigger"],
  listTurns: ["GET", "/v1/vms/{vm}/turns"],
  listUsage: ["GET", "/v1/usage"],
  listVMPermissions: ["GET", "/identity/v1/identities/{identity}/permissions/vm"],
  listVMs: ["GET", "/v1/vms"],
  listVerifications: ["GET", "/domains/v1/verifications"],
  listVolumes: ["GET", "/v1/volumes"],
  lockVolume: ["POST", "/v1/volumes/{volume}/lock"],
  makeDirectory: ["POST", "/v1/vms/{vm}/fs/mkdir"],
  makeSymlink: ["POST", "/v1/vms/{vm}/fs/symlink"],
  markTurn: ["POST", "/v1/vms/{vm}/turns"],
  mountInVM: ["POST", "/v1/vms/{vm}/mounts"],
  moveScreen: ["POST", "/v1/vms/{vm}/screen/move"],
  openBundle: ["PUT", "/v1/bundles"],
  openExec: ["GET", "/v1/vms/{vm}/exec"],
  openSSH: ["GET", "/v1/vms/{vm}/ssh"],
  openTerminal: ["GET", "/v1/vms/{vm}/pty"],
  optimizeVM: ["POST", "/v1/vms/{vm}/optimize"],
  pickFiles: ["POST", "/v1/vms/{vm}/fs/pick"],
  placeFiles: ["PUT", "/v1/vms/{vm}/fs/place"],
  postMCP: ["POST", "/mcp"],
  protectBranch: ["PUT", "/git/v1/repo/{repo}/protected-branches/{branch}"],
  pruneAudit: ["POST", "/v1/audit/prune"],
  pruneStorage: ["POST", "/v1/storage/prune"],
  publishFromVM: ["POST", "/v1/vms/{vm}/publish"],
  putFile: ["PUT", "/v1/vms/{vm}/files/{path}"],
  putObject: ["PUT", "/v1/objects/buckets/{bucket}/raw/{key}"],
  readContent: ["POST", "/v1/vms/{vm}/content"],
  readFile: ["GET", "/v1/vms/{vm}/raw/{path}"],
  readTar: ["GET", "/v1/vms/{vm}/tar/{path}"],
  releaseHold: ["DELETE", "/v1/vms/{vm}/holds/{hold}"],
  removeAccount: ["DELETE", "/v1/accounts/{account}"],
  removeBucket: ["DELETE", "/v1/objects/buckets/{bucket}"],
  removeDNSRecord: ["DELETE", "/dns/v1/records"],
  removeFile: ["POST", "/v1/vms/{vm}/fs/remove"],
  removeGitHubSync: ["DELETE", "/git/v1/repo/{repo}/github-sync"],
  removeMapping: ["DELETE", "/domains/v1/mappings/{domain}"],
  removeObject: ["DELETE", "/v1/objects/buckets/{bucket}/raw/{key}"],
  removePathRule: ["DELETE", "/v1/vms/{vm}/paths"],
  removePolicy: ["DELETE", "/v1/policies/{policy}"],
  removeRepo: ["DELETE", "/git/v1/repo/{repo}"],
  removeSSHKey: ["DELETE", "/identity/v1/identities/{identity}/keys/{key}"],
  removeSecret: ["DELETE", "/v1/secrets/{secret}"],
  removeService: ["DELETE", "/v1/vms/{vm}/systemd/services/{service}"],
  removeTrigger: ["DELETE", "/git/v1/repo/{repo}/trigger/{trigger}"],
  removeVerification: ["DELETE", "/domains/v1/verifications"],
  removeVolume: ["DELETE", "/v1/volumes/{volume}"],
  removeVolumeKey: ["DELETE", "/v1/volumes/{volume}/keys/{slot}"],
  removeVolumeSnapshot: ["DELETE", "/v1/volumes/{volume}/snapshots/{volumesnapshot}"],
  renameFile: ["POST", "/v1/vms/{vm}/fs/rename"],
  renameSnapshot: ["PATCH", "/v1/vms/snapshots/{snapshot}"],
  renameVM: ["POST", "/v1/vms/{vm}/rename"],
  resizeVM: ["POST", "/v1/vms/{vm}/resize"],
  resizeVolume: ["POST", "/v1/volumes/{volume}/resize"],
  restartServices: ["POST", "/v1/vms/{vm}/systemd/restart"],
  restorePaths: ["POST", "/v1/vms/{vm}/restore"],
  retainObject: ["PUT", "/v1/objects/buckets/{bucket}/retain/{key}"],
  revokeBucket: ["DELETE", "/v1/objects/buckets/{bucket}/grants"],
  revokeKey: ["DELETE", "/v1/keys/{key}"],
  revokeRepo: ["DELETE", "/identity/v1/identities/{identity}/permissions/git/{repo}"],
  revokeRepoFromVM: ["DELETE", "/v1/vms/{vm}/repositories/{repo}"],
  revokeS3Key: ["DELETE", "/v1/objects/keys/{key}"],
  revokeSecret: ["DELETE", "/v1/secrets/{secret}/vms/{vm}"],
  revokeToken: ["DELETE", "/identity/v1/identities/{identity}/tokens/{token}"],
  revokeVM: ["DELETE", "/identity/v1/identities/{identity}/permissions/vm/{vm}"],
  rollbackMemory: ["POST", "/v1/vms/{vm}/memory/rollback"],
  rollbackVM: ["POST", "/v1/vms/{vm}/rollback"],
  rollbackVolume: ["POST", "/v1/volumes/{volume}/rollback"],
  rotateAuditKey: ["POST", "/v1/audit/key"],
  rotateKey: ["POST", "/v1/keys/{key}/rotate"],
  rotateSecret: ["POST", "/v1/secrets/{secret}/rotate"],
  rotateVolumeKey: ["POST", "/v1/volumes/{volume}/rotate"],
  runCommand: ["POST", "/v1/vms/{vm}/exec-await"],
  scrollScreen: ["POST", "/v1/vms/{vm}/screen/scroll"],
  searchCommits: ["GET", "/git/v1/repo/{repo}/search/commits"],
  searchDiffs: ["GET", "/git/v1/repo/{repo}/search/diffs"],
  searchFiles: ["GET", "/git/v1/repo/{repo}/search/files"],
  searchText: ["GET", "/git/v1/repo/{repo}/search"],
  sendTerminal: ["POST", "/v1/vms/{vm}/pty/sessions/{session}/input"],
  setDefaultBranch: ["PUT", "/git/v1/repo/{repo}/default-branch"],
  setNetwork: ["PUT", "/v1/vms/{vm}/network"],
  setOnBoot: ["PUT", "/v1/vms/{vm}/on-boot"],
  setPathRules: ["PUT", "/v1/vms/{vm}/paths"],
  setPolicy: ["PUT", "/v1/policies/{policy}"],
  setPreview: ["PUT", "/v1/vms/{vm}/previews/{port}"],
  setQuota: ["PUT", "/v1/accounts/{account}/quota"],
  setRepoVisibility: ["PUT", "/git/v1/repo/{repo}/visibility"],
  setSchedule: ["PUT", "/v1/vms/{vm}/schedule"],
  setSecret: ["POST", "/v1/secrets"],
  signObject: ["POST", "/v1/objects/buckets/{bucket}/sign/{key}"],
  signalProcess: ["POST", "/v1/vms/{vm}/processes/{process}/signal"],
  snapshotVolume: ["POST", "/v1/volumes/{volume}/snapshots"],
  startProcess: ["POST", "/v1/vms/{vm}/processes"],
  startServices: ["POST", "/v1/vms/{vm}/systemd/start"],
  startVM: ["POST", "/v1/vms/{vm}/start"],
  statFile: ["GET", "/v1/vms/{vm}/fs/stat"],
  stopServices: ["POST", "/v1/vms/{vm}/systemd/stop"],
  stopVM: ["POST", "/v1/vms/{vm}/stop"],
  streamCommand: ["POST", "/v1/vms/{vm}/exec"],
  streamEvents: ["GET", "/v1/events"],
  streamMCP: ["GET", "/mcp"],
  suspendVM: ["POST", "/v1/vms/{vm}/suspend"],
  sweepObjects: ["POST", "/v1/objects/sweep"],
  tagObject: ["PUT", "/v1/objects/buckets/{bucket}/tags/{key}"],
  takeSnapshot: ["POST", "/v1/vms/{vm}/snapshot"],
  typeScreen: ["POST", "/v1/vms/{vm}/screen/type"],
  undoVM: ["POST", "/v1/vms/{vm}/undo"],
  undrainHost: ["DELETE", "/v1/drain"],
  unlockVolume: ["POST", "/v1/volumes/{volume}/unlock"],
  unmountInVM: ["DELETE", "/v1/vms/{vm}/mounts"],
  unprotectBranch: ["DELETE", "/git/v1/repo/{repo}/protected-branches/{branch}"],
  verifyAudit: ["GET", "/v1/audit/verify"],
  verifyAuditAgainst: ["POST", "/v1/audit/verify"],
  verifyDomain: ["POST", "/domains/v1/verifications"],
  waitPort: ["POST", "/v1/vms/{vm}/ports/{port}/wait"],
  waitProcess: ["POST", "/v1/vms/{vm}/processes/{process}/wait"],
  watchDirectory: ["GET", "/v1/vms/{vm}/fs/watch"],
  watchFiles: ["POST", "/v1/vms/{vm}/watch-files"],
  whoAmI: ["GET", "/auth/v1/whoami"],
  writeFile: ["PUT", "/v1/vms/{vm}/raw/{path}"],
  writeTar: ["PUT", "/v1/vms/{vm}/tar/{path}"],
};
