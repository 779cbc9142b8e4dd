// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d

import (
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"
)

// sums are the checksums of a body, by algorithm.
type sums struct {
	CRC32, CRC32C, SHA1, SHA256, CRC64NVME, SHA512, MD5, XXHASH64, XXHASH3, XXHASH128 *string
}

// of returns the checksum of an algorithm's name.
func (s *sums) of(algorithm string) **string {
	switch strings.ToLower(algorithm) {
	case "crc32":
		return &s.CRC32
	case "crc32c":
		return &s.CRC32C
	case "sha1":
		return &s.SHA1
	case "sha256":
		return &s.SHA256
	case "crc64nvme":
		return &s.CRC64NVME
	case "sha512":
		return &s.SHA512
	case "md5":
		return &s.MD5
	case "xxhash64":
		return &s.XXHASH64
	case "xxhash3":
		return &s.XXHASH3
	case "xxhash128":
		return &s.XXHASH128
	}
	return nil
}

// named returns the first algorithm for which the client has sent a checksum.
func (s *sums) named() (algorithm, value string) {
	for _, name := range []string{"crc32", "crc32c", "sha1", "sha256", "crc64nvme", "sha512", "md5", "xxhash64", "xxhash3", "xxhash128"} {
		if v := *s.of(name); v != nil {
			return name, *v
		}
	}
	return "", ""
}

// stored puts the checksums of a version into the form of an answer.
func stored(have map[string]string) (s sums) {
	for name, value := range have {
		if at := s.of(name); at != nil {
			*at = &value
		}
	}
	return s
}

// checked is a body whose checksum is computed while it is read.
type checked struct {
	io.Reader
	algorithm string // in lower case
	sum       func() string
}

// check reads a body with the checksum that the client named, in a header or after the
// body; CRC-64/NVME if it named none, as S3 does. A checksum that is not that of the body is
// an error of the reader at its end.
func check(body io.Reader, algorithm types.ChecksumAlgorithm, in sums) (*checked, error) {
	if trailing, ok := body.(middlewares.ChecksumReader); ok && trailing.Algorithm() != "" {
		return &checked{body, strings.ToLower(trailing.Algorithm()), trailing.Checksum}, nil
	}
	name, value := in.named()
	if name == "" {
		name = strings.ToLower(string(algorithm))
	}
	if name == "" {
		name = "crc64nvme"
	}
	r, err := utils.NewHashReader(body, value, utils.HashType(name))
	if err != nil {
		return nil, s3err.GetAPIError(s3err.ErrInvalidRequest)
	}
	return &checked{r, name, r.Sum}, nil
}
