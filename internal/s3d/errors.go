// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d

import (
	"net/http"
	"strings"

	"github.com/versity/versitygw/s3err"

	"github.com/warren-vm/warren/vm"
)

// byCode are the errors of S3 for the room's codes.
var byCode = map[string]s3err.ErrorCode{
	"BUCKET_NOT_FOUND":          s3err.ErrNoSuchBucket,
	"BUCKET_NOT_EMPTY":          s3err.ErrVersionedBucketNotEmpty,
	"BUCKET_INVALID_NAME":       s3err.ErrInvalidBucketName,
	"OBJECT_NOT_FOUND":          s3err.ErrNoSuchKey,
	"OBJECT_DELETED":            s3err.ErrNoSuchKey,
	"OBJECT_VERSION_NOT_FOUND":  s3err.ErrNoSuchVersion,
	"OBJECT_RETAINED":           s3err.ErrObjectLocked,
	"OBJECT_CONDITION_FAILED":   s3err.ErrPreconditionFailed,
	"OBJECT_TOO_LARGE":          s3err.ErrEntityTooLarge,
	"OBJECT_QUOTA_EXCEEDED":     s3err.ErrQuotaExceeded,
	"UPLOAD_NOT_FOUND":          s3err.ErrNoSuchUpload,
	"OBJECT_INVALID_PART":       s3err.ErrInvalidPart,
	"OBJECT_INVALID_PART_ORDER": s3err.ErrInvalidPartOrder,
	"OBJECT_PART_TOO_SMALL":     s3err.ErrEntityTooSmall,
	"OBJECT_INCOMPLETE":         s3err.ErrIncompleteBody,
}

// ownCodes are errors that S3 has no more exact code for. Their texts are the room's.
var ownCodes = map[vm.Kind]s3err.APIError{
	vm.Denied:          {Code: "AccessDenied", HTTPStatusCode: http.StatusForbidden},
	vm.Unauthenticated: {Code: "AccessDenied", HTTPStatusCode: http.StatusForbidden},
	vm.Invalid:         {Code: "InvalidArgument", HTTPStatusCode: http.StatusBadRequest},
	vm.NotFound:        {Code: "NoSuchKey", HTTPStatusCode: http.StatusNotFound},
	vm.Exists:          {Code: "OperationAborted", HTTPStatusCode: http.StatusConflict},
	vm.Busy:            {Code: "OperationAborted", HTTPStatusCode: http.StatusConflict},
	vm.Limit:           {Code: "TooManyBuckets", HTTPStatusCode: http.StatusBadRequest},
	vm.NoSpace:         {Code: "InsufficientStorage", HTTPStatusCode: http.StatusInsufficientStorage},
	vm.Unavailable:     {Code: "SlowDown", HTTPStatusCode: http.StatusServiceUnavailable},
	vm.Timeout:         {Code: "SlowDown", HTTPStatusCode: http.StatusServiceUnavailable},
	vm.Unsupported:     {Code: "NotImplemented", HTTPStatusCode: http.StatusNotImplemented},
}

// fail turns an error of the room into one of S3. It logs those that no request explains.
func (s *store) fail(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := err.(s3err.S3Error); ok { //nolint:errorlint // the front compares so, too
		return known
	}
	e := vm.AsError(err)
	if cause, ok := e.Err.(s3err.S3Error); ok { //nolint:errorlint // see above
		return cause
	}
	if known := s3Cause(err); known != nil {
		return known
	}
	switch e.Code {
	case "BUCKET_EXISTS":
		if owned, _ := e.Fields["owned"].(bool); owned {
			return s3err.GetBucketErr(s3err.ErrBucketAlreadyOwnedByYou, e.Subject)
		}
		return s3err.GetBucketErr(s3err.ErrBucketAlreadyExists, e.Subject)
	case "BUCKET_NOT_FOUND":
		return s3err.GetBucketErr(s3err.ErrNoSuchBucket, e.Subject)
	case "OBJECT_RETAINED":
		return s3err.APIError{Code: "AccessDenied", Description: sentence(e), HTTPStatusCode: http.StatusForbidden}
	}
	if code, ok := byCode[e.Code]; ok {
		return s3err.GetAPIError(code)
	}
	if own, ok := ownCodes[e.Kind]; ok {
		own.Description = sentence(e)
		return own
	}
	s.log.Warn("a request for objects failed", "err", err)
	return s3err.GetAPIError(s3err.ErrInternalError)
}

// sentence is the text of an error with its hint. It has no path of the host.
func sentence(e *vm.Error) string {
	text := strings.TrimPrefix(e.Msg, e.Subject+": ")
	if e.Subject != "" && strings.HasPrefix(e.Subject, "s3://") {
		text = e.Subject + ": " + text
	}
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}
