// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// KindRow is how one kind of failure appears on the wire and to users.
type KindRow struct {
	Kind   vm.Kind
	Status int    // HTTP status of the code
	Code   string // contract code when the error names none; known to the SDKs
	Exit   int    // exit status of the command line
	Retry  bool   // the same request may succeed later
	Means  string // for help texts
}

// Kinds is the table of failures for server, client and command line.
var Kinds = []KindRow{
	{vm.Internal, 500, "INTERNAL_ERROR", 1, false, "a bug in Warren"},
	{vm.Invalid, 400, "INVALID_REQUEST", 2, false, "the request is malformed or contradicts itself"},
	{vm.NotFound, 404, "NOT_FOUND", 3, false, "no such VM, image, process or path"},
	{vm.Unauthenticated, 401, "UNAUTHORIZED_ERROR", 4, false, "no or unknown API key or token"},
	{vm.Denied, 403, "FORBIDDEN", 4, false, "this key or token may not do that"},
	{vm.Exists, 409, "CONFLICT", 5, false, "the name or id is taken"},
	{vm.WrongState, 409, "CONFLICT", 6, false, "not possible in the VM's state"},
	{vm.Busy, 409, "VM_OPERATION_DENIED_DURING_TRANSACTION", 7, true, "another operation is in progress"},
	{vm.Limit, 403, "VM_LIMIT_EXCEEDED", 8, false, "a limit or the host's memory is reached"},
	{vm.NoSpace, 503, "NO_LOCAL_STORAGE_CAPACITY", 8, false, "no disk space"},
	{vm.Unsupported, 400, "BAD_REQUEST", 9, false, "this host, image or version cannot do that"},
	{vm.Unavailable, 503, "SERVICE_UNAVAILABLE", 10, true, "the server is not running or not ready"},
	{vm.Timeout, 500, "RESUMED_VM_NON_RESPONSIVE", 11, true, "a deadline has passed"},
	{vm.GuestFault, 500, "RESUMED_VM_NON_RESPONSIVE", 12, false, "the guest does not answer or answers wrongly"},
	{vm.Corrupt, 500, "CORRUPT_VM_RECORD", 13, false, "data failed its check"},
	{vm.Cancelled, 500, "INTERNAL_ERROR", 130, true, "interrupted"},
}

// Codes holds every contract code that Warren sends, with its HTTP status. The SDK
// finds its error class by the code, and repeats some requests for ever on an unknown
// code, so an error with another code is sent with the code of its kind. EVENTS_GONE
// and the codes of mounts, volumes, buckets, objects, networks, policies and screens are Warren's own, for routes that no SDK calls.
var Codes = map[string]int{
	"ACCESS_DENIED":                          403,
	"AFTER_ARRAY_CONTAINS_EMPTY":             400,
	"AMBIGUOUS":                              400,
	"APPROVAL_REQUIRED":                      403,
	"ASK_DECIDED":                            409,
	"ASK_DENIED":                             403,
	"ASK_ENDED":                              409,
	"ASK_EXPIRED":                            409,
	"ASK_NEEDLESS":                           409,
	"ASK_NOT_FOUND":                          404,
	"BAD_REQUEST":                            400,
	"BLOB_NOT_FOUND":                         404,
	"BRANCH_ALREADY_EXISTS":                  409,
	"BRANCH_NAME_EMPTY":                      400,
	"BRANCH_NOT_FOUND":                       404,
	"BUCKET_EXISTS":                          409,
	"BUCKET_INVALID_NAME":                    400,
	"BUCKET_LIMIT_EXCEEDED":                  403,
	"BUCKET_NOT_EMPTY":                       409,
	"BUCKET_NOT_FOUND":                       404,
	"BUILD_BUDGET_EXCEEDED":                  500,
	"BUILD_FAILED":                           400,
	"BUILD_NOT_FOUND":                        404,
	"BUILD_NOT_FOUND_FOR_VM":                 404,
	"BUNDLE_DAMAGED":                         422,
	"COMMIT_EMPTY_QUERY":                     400,
	"COMMIT_INVALID_REGEX":                   400,
	"COMMIT_NOT_FOUND":                       404,
	"COMMIT_NOT_IN_BRANCH":                   400,
	"CONFLICT":                               409,
	"CONFLICTING_PARENT":                     409,
	"CONFLICTING_SPEC_SOURCES_ERROR":         400,
	"CONTENT_NOT_FOUND":                      404,
	"CORRUPT_VM_RECORD":                      500,
	"CREATE_REPOSITORY_FAILED":               500,
	"CREATE_SNAPSHOT_BAD_REQUEST":            400,
	"CREATE_VM_BAD_REQUEST":                  400,
	"CREATE_VM_MEM_NOT_POWER_OF_TWO":         400,
	"CREATE_VM_MEM_OUT_OF_RANGE":             400,
	"CREATE_VM_ROOTFS_OUT_OF_RANGE":          400,
	"CREATE_VM_VCPU_NOT_POWER_OF_TWO":        400,
	"CREATE_VM_VCPU_OUT_OF_RANGE":            400,
	"DELETE_REPOSITORY_FAILED":               500,
	"DIFF_EMPTY_QUERY":                       400,
	"DIFF_INVALID_PATH_PATTERN":              400,
	"DIFF_INVALID_REGEX":                     400,
	"DOCKERFILE_FAILED":                      400,
	"DOCKERFILE_INVALID":                     400,
	"DOMAIN_ALREADY_EXISTS":                  400,
	"DOMAIN_OWNERSHIP_ERROR":                 403,
	"DOMAIN_OWNERSHIP_NOT_VERIFIED":          401,
	"DUPLICATE_GROUP_NAME":                   400,
	"DUPLICATE_USER_NAME":                    400,
	"EMPTY_QUERY":                            400,
	"EMPTY_TAG":                              400,
	"AUDIT_CHANGED":                          422,
	"AUDIT_CUT":                              422,
	"AUDIT_KEY":                              422,
	"AUDIT_FOREIGN":                          422,
	"AUDIT_PRUNED":                           422,
	"RECEIPT_BROKEN":                         422,
	"RECEIPT_KEY":                            403,
	"ENV_KEY_CONTAINS_EQUALS":                400,
	"ENV_KEY_EMPTY":                          400,
	"ERROR_CREATING_RECORD":                  500,
	"ERROR_DELETING_RECORD":                  500,
	"EVENTS_GONE":                            410,
	"EXEC_EMPTY":                             400,
	"EXEC_TIMED_OUT":                         408,
	"EXPECTED_SERVICE":                       403,
	"FAILED_PERMISSIONS_CHECK":               401,
	"FAILED_TO_PROVISION_CERTIFICATE":        422,
	"FILENAME_EMPTY_QUERY":                   400,
	"FILENAME_INVALID_PATTERN":               400,
	"FILES_BAD_REQUEST":                      400,
	"FILE_NOT_FOUND":                         404,
	"FORBIDDEN":                              403,
	"GIT_ERROR":                              500,
	"GIT_HUB_SYNC_CONFLICT":                  409,
	"GIT_HUB_SYNC_FAILED":                    500,
	"GIT_INVALID_REQUEST":                    400,
	"GIT_REPOSITORY_ACCESS_DENIED":           403,
	"GIT_REPOSITORY_NOT_FOUND":               404,
	"GIT_REPO_LIMIT_EXCEEDED":                403,
	"GIT_SERVER_ERROR":                       500,
	"GROUP_EMPTY":                            400,
	"GROUP_NAME_EMPTY":                       400,
	"GROUP_NAME_INVALID_CHARS":               400,
	"GROUP_NAME_RESERVED":                    400,
	"GROUP_NAME_TOO_LONG":                    400,
	"HOST_PATH_INVALID":                      400,
	"HOST_PATH_NOT_ENCRYPTED":                403,
	"IDENTITY_ACCESS_DENIED":                 403,
	"IDENTITY_NOT_FOUND":                     404,
	"IMPORT_SUBDIR_NOT_FOUND":                400,
	"INTERNAL_ERROR":                         500,
	"INVALID":                                400,
	"INVALID_BASE64_CONTENT":                 400,
	"INVALID_DOMAIN":                         400,
	"INVALID_FILE_CHANGE":                    400,
	"INVALID_FILE_PATH":                      400,
	"INVALID_GIT_REPO_SPEC_ERROR":            400,
	"INVALID_OBJECT_ID":                      400,
	"INVALID_PARAMETERS":                     400,
	"INVALID_PATH_PATTERN":                   400,
	"INVALID_RANGE":                          400,
	"INVALID_REGEX":                          400,
	"INVALID_REQUEST":                        400,
	"INVALID_REVISION":                       400,
	"INVALID_SERVICE":                        403,
	"INVALID_SESSION_ID":                     400,
	"INVALID_SNAPSHOT_ID":                    400,
	"INVALID_VM_ID":                          400,
	"KEY_LIMIT_EXCEEDED":                     403,
	"LIMIT_EXCEEDED":                         403,
	"LIST_REPOSITORIES_FAILED":               500,
	"MACHINE_MOVED":                          409,
	"MEMORY_STORAGE_QUOTA_EXCEEDED":          403,
	"MEM_OVER_PLAN_LIMIT":                    403,
	"MOUNT_NOT_FOUND":                        404,
	"MOUNT_PATH_INVALID":                     400,
	"MOUNT_PATH_NOT_EMPTY":                   409,
	"NETWORK_CUTS_CALLER":                    409,
	"NETWORK_NEEDS_ADMIN":                    403,
	"NETWORK_RULE_NAMED":                     403,
	"NETWORK_RULE_NOT_FOUND":                 404,
	"NETWORK_RULE_SHADOWED":                  409,
	"NETWORK_WIDER":                          403,
	"NON_LEAF_LAYER_FIELD_ERROR":             400,
	"NOT_FOUND":                              404,
	"NO_DEFAULT_BRANCH":                      404,
	"NO_DEFAULT_SNAPSHOT_AVAILABLE":          404,
	"NO_SCREEN":                              400,
	"NO_LOCAL_STORAGE_CAPACITY":              503,
	"OBJECT_ACCESS_DENIED":                   403,
	"OBJECT_BAD_ARCHIVE":                     400,
	"OBJECT_BAD_DIGEST":                      400,
	"OBJECT_CONDITION_FAILED":                412,
	"OBJECT_DELETED":                         404,
	"OBJECT_INCOMPLETE":                      400,
	"OBJECT_INVALID_KEY":                     400,
	"OBJECT_INVALID_PART":                    400,
	"OBJECT_INVALID_PART_ORDER":              400,
	"OBJECT_INVALID_RANGE":                   416,
	"OBJECT_INVALID_REQUEST":                 400,
	"OBJECT_INVALID_TAG":                     400,
	"OBJECT_INVALID_VERSION":                 400,
	"OBJECT_NOT_FOUND":                       404,
	"OBJECT_PART_TOO_SMALL":                  400,
	"OBJECT_QUOTA_EXCEEDED":                  403,
	"OBJECT_REFUSED":                         403,
	"OBJECT_RETAINED":                        403,
	"OBJECT_TOO_LARGE":                       413,
	"OBJECT_UNSCANNED":                       503,
	"OBJECT_VERSION_NOT_FOUND":               404,
	"OCI_BAD_REFERENCE":                      400,
	"OCI_DIGEST_MISMATCH":                    502,
	"OCI_INVALID":                            400,
	"OCI_NOT_FOUND":                          404,
	"OCI_NO_KERNEL":                          404,
	"OCI_TOO_LARGE":                          413,
	"OCI_UNAUTHORIZED":                       403,
	"OCI_UNREACHABLE":                        503,
	"OCI_WRONG_PLATFORM":                     400,
	"OFFSET_WITH_SELECTOR":                   400,
	"ON_FAILURE_ARRAY_CONTAINS_EMPTY":        400,
	"PARENT_NOT_FOUND":                       404,
	"PATH_ASK":                               403,
	"PATH_DENIED":                            403,
	"PATH_NOT_FOUND":                         404,
	"PATH_READ_ONLY":                         403,
	"PATH_RULE_INVALID":                      400,
	"PATH_RULE_NOT_FOUND":                    404,
	"PERMISSION_ALREADY_EXISTS":              409,
	"PERMISSION_NOT_FOUND":                   404,
	"POLICY_IN_USE":                          409,
	"POLICY_NAME_INVALID":                    400,
	"POLICY_NOT_FOUND":                       404,
	"POLICY_SHIPPED":                         403,
	"REFERENCE_NOT_FOUND":                    404,
	"REPOSITORY_ACCESS_DENIED":               403,
	"REPOSITORY_NOT_FOUND":                   404,
	"REPO_ALREADY_EXISTS":                    409,
	"REPO_NOT_FOUND":                         404,
	"REQUIRES_ARRAY_CONTAINS_EMPTY":          400,
	"RESIZE_FAILED":                          500,
	"RESIZE_VM_EMPTY_REQUEST":                400,
	"RESIZE_VM_MEM_NOT_POWER_OF_TWO":         400,
	"RESIZE_VM_MEM_OUT_OF_RANGE":             400,
	"RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED":  400,
	"RESIZE_VM_VCPU_NOT_POWER_OF_TWO":        400,
	"RESIZE_VM_VCPU_OUT_OF_RANGE":            400,
	"RESUMED_VM_NON_RESPONSIVE":              500,
	"ROOTFS_STORAGE_QUOTA_EXCEEDED":          403,
	"SECRETS_FOUND":                          403,
	"SERVICE_ALREADY_EXISTS":                 409,
	"SERVICE_NAME_EMPTY":                     400,
	"SERVICE_NAME_INVALID_CHARS":             400,
	"SERVICE_NAME_INVALID_PREFIX":            400,
	"SERVICE_NAME_TOO_LONG":                  400,
	"SERVICE_NOT_FOUND":                      404,
	"SERVICE_UNAVAILABLE":                    503,
	"SESSION_ALREADY_EXISTS":                 409,
	"SESSION_CAP_REACHED":                    429,
	"SESSION_EXPIRED":                        410,
	"SESSION_NOT_FOUND":                      404,
	"SESSION_USER_MISMATCH":                  403,
	"SNAPSHOT_ALREADY_DELETED":               409,
	"SNAPSHOT_IS_ACCOUNT_DEFAULT":            409,
	"SNAPSHOT_LIMIT_EXCEEDED":                403,
	"SNAPSHOT_NOT_FOUND":                     404,
	"SNAPSHOT_VM_BAD_REQUEST":                400,
	"SOURCE_IMPORT_CONFLICT":                 400,
	"SOURCE_NOT_FOUND":                       400,
	"SOURCE_SNAPSHOT_BUILDING":               409,
	"SOURCE_SNAPSHOT_DELETED":                410,
	"SOURCE_SNAPSHOT_LOST":                   409,
	"SOURCE_UNAUTHORIZED":                    400,
	"STILL_CREATING":                         409,
	"SUSPEND_FAILED_AND_STOPPED":             500,
	"SUSPEND_FAILED_AND_STOP_FAILED":         500,
	"SUSPEND_FAILED_VM_RESUMED":              500,
	"TAG_NOT_FOUND":                          404,
	"TOTAL_VM_LIMIT_EXCEEDED":                403,
	"TREE_NOT_FOUND":                         404,
	"TRIGGER_ERROR":                          500,
	"UNAUTHORIZED_ERROR":                     401,
	"UNTRUSTED":                              403,
	"UNSUPPORTED_OS":                         400,
	"UPDATE_DEFAULT_BRANCH_FAILED":           500,
	"UPLOAD_NOT_FOUND":                       404,
	"USER_EMPTY":                             400,
	"USER_GROUP_EMPTY":                       400,
	"USER_HOME_INVALID":                      400,
	"USER_NOT_FOUND":                         404,
	"USER_SHELL_INVALID":                     400,
	"USER_SYSTEM_FLAG_MISMATCH":              400,
	"USER_UID_OUT_OF_RANGE":                  400,
	"VCPU_OVER_PLAN_LIMIT":                   403,
	"VERIFICATION_FAILED":                    400,
	"VERIFICATION_NOT_FOUND":                 404,
	"VM_ACCESS_DENIED":                       403,
	"VM_ACCESS_DENIED_FOR_MAPPING":           401,
	"VM_DELETED":                             410,
	"VM_LIMIT_EXCEEDED":                      403,
	"VM_NOT_FOUND":                           404,
	"VM_NOT_RUNNING":                         400,
	"VM_OPERATION_DENIED_DURING_TRANSACTION": 409,
	"VM_PERMISSION_NOT_FOUND":                404,
	"VM_SETUP_FAILED":                        500,
	"VM_START_TIMEOUT":                       504,
	"SCREEN_KEY_UNKNOWN":                     400,
	"SCREEN_OUTSIDE":                         400,
	"SCREEN_TEXT_INVALID":                    400,
	"SECRET_EXISTS":                          409,
	"SECRET_NOT_FOUND":                       404,
	"SECRET_NOT_ROTATED":                     503,
	"SECRET_NO_ROTATOR":                      400,
	"SECRET_ROTATING":                        409,
	"VOLUME_BUSY":                            409,
	"VOLUME_DAMAGED":                         500,
	"VOLUME_EXISTS":                          409,
	"VOLUME_IN_USE":                          409,
	"VOLUME_LIMIT_EXCEEDED":                  403,
	"VOLUME_LOCKED":                          409,
	"VOLUME_NAME_INVALID":                    400,
	"VOLUME_NOT_FOUND":                       404,
	"VOLUME_NOT_READY":                       409,
	"VOLUME_SECRET_NEEDED":                   403,
	"VOLUME_SECRET_REFUSED":                  403,
	"VOLUME_SIZE_INVALID":                    400,
	"VOLUME_SLOT_NOT_FOUND":                  404,
	"VOLUME_UNLOCK_RATE_LIMITED":             429,
	"WANTED_BY_EMPTY":                        400,
	"WORKDIR_EMPTY":                          400,
}

// RowOf returns the row of a kind, or the row of Internal for an unknown
// kind.
func RowOf(k vm.Kind) KindRow {
	for _, r := range Kinds {
		if r.Kind == k {
			return r
		}
	}
	return Kinds[0]
}

// CodeOf returns the code that err is sent with: its own if the contract has
// it, else the code of its kind.
func CodeOf(err error) string {
	e := vm.AsError(err)
	if _, ok := Codes[e.Code]; ok {
		return e.Code
	}
	return RowOf(e.Kind).Code
}

// Status returns the HTTP status of the answer for err.
func Status(err error) int { return Codes[CodeOf(err)] }

// ExitCode returns the exit status of a command that ended with err; 0 for nil.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	return RowOf(vm.KindOf(err)).Exit
}

// ErrorBody is the body of every error answer: the contract's members, our
// members, and the error's own fields at the top level.
type ErrorBody struct {
	Code      string         `json:"code"`
	Error     string         `json:"error"`   // the code again, for older readers
	Message   string         `json:"message"` // the operation, its subject, the reason
	Kind      vm.Kind        `json:"kind"`
	Op        vm.Op          `json:"op,omitempty"`
	Subject   string         `json:"subject,omitempty"`
	Hint      string         `json:"hint,omitempty"`
	RequestID vm.RequestID   `json:"requestId,omitempty"`
	Fields    map[string]any `json:"-"`
}

// EncodeError returns the body for err.
func EncodeError(err error, request vm.RequestID) ErrorBody {
	e := vm.AsError(err)
	code := CodeOf(e)
	msg := e.Error()
	if e.Kind == vm.Internal {
		msg += fmt.Sprintf(" (report it with request %s)", request)
	}
	return ErrorBody{
		Code: code, Error: code, Message: msg, Kind: e.Kind, Op: e.Op, Subject: e.Subject,
		Hint: e.Hint, RequestID: request, Fields: e.Fields,
	}
}

// plainBody has ErrorBody's members without its methods.
type plainBody ErrorBody

// MarshalJSON puts the fields at the top level; the named members take precedence.
func (b ErrorBody) MarshalJSON() ([]byte, error) {
	named, err := json.Marshal(plainBody(b))
	if err != nil || len(b.Fields) == 0 {
		return named, err
	}
	all := maps.Clone(b.Fields)
	if err := json.Unmarshal(named, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// UnmarshalJSON keeps unknown members in Fields.
func (b *ErrorBody) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*plainBody)(b)); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &b.Fields); err != nil {
		return err
	}
	for _, name := range []string{"code", "error", "message", "kind", "op", "subject", "hint", "requestId"} {
		delete(b.Fields, name)
	}
	return nil
}

// remote is a server's message, shown unchanged.
type remote string

func (r remote) Error() string { return string(r) }

// DecodeError rebuilds the error that the server had, so that errors.Is works
// on both sides. The message is the server's own.
func DecodeError(b ErrorBody) *vm.Error {
	kind := b.Kind
	if kind == "" {
		kind = vm.Internal
	}
	e := &vm.Error{Kind: kind, Code: b.Code, Hint: b.Hint, Fields: b.Fields, Err: remote(b.Message)}
	if why, ok := strings.CutPrefix(b.Message, string(b.Op)+": "); ok && b.Op != "" {
		e.Op, e.Err = b.Op, remote(why) // the text stays the same
	}
	return e
}
