// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// uploadSize is the buffer of an upload.
const uploadSize = 256 << 10

// upload sends a body of size bytes (-1 = until the end of body) and returns the
// answer. It returns as soon as the answer arrives, the context ends or the link
// breaks, even while body blocks in Read; the reading goroutine then ends when its
// Read returns. (net/http's client would wait for that Read, possibly for ever.)
func (c *Client) upload(ctx context.Context, path string, q url.Values, body io.Reader, size int64) ([]byte, error) {
	path, q = c.ruled(path, q)
	if size == 0 { // the guest will not wait for an empty body's reader
		if _, err := body.Read(nil); !errors.Is(err, io.EOF) {
			return nil, broken(ctx, err)
		}
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, broken(ctx, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	failed := make(chan error, 1)
	go func() {
		err := sendBody(conn, "PUT "+path+"?"+q.Encode(), body, size)
		var own *sourceError
		if errors.As(err, &own) {
			failed <- own.err
			_ = conn.Close() // the guest sees an incomplete body
		}
	}()
	b, err := readShort(conn, path)
	if err == nil {
		return b, nil
	}
	select { // ignore the guest's complaint about a body that we cut
	case err = <-failed:
		return nil, err
	default:
		return nil, broken(ctx, err)
	}
}

// readShort reads a short answer to a request for path.
func readShort(stream net.Conn, path string) ([]byte, error) {
	conn := newHeadReader(stream)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	conn.lift()
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(path, b)
	}
	return b, nil
}

// sendBody writes a request with its body.
func sendBody(conn net.Conn, request string, body io.Reader, size int64) error {
	how := "Transfer-Encoding: chunked"
	if size >= 0 {
		how = fmt.Sprintf("Content-Length: %d", size)
	}
	if _, err := io.WriteString(conn, request+" HTTP/1.1\r\nHost: agent\r\n"+how+"\r\n\r\n"); err != nil {
		return err
	}
	const head = 10 // length of a chunk's head: eight digits and a line end
	buf := make([]byte, head+uploadSize+2)
	for {
		n, err := body.Read(buf[head : head+uploadSize])
		if n > 0 {
			part := buf[head : head+n]
			if size < 0 {
				copy(buf, fmt.Sprintf("%08x\r\n", n))
				copy(buf[head+n:], "\r\n")
				part = buf[:head+n+2]
			}
			if _, err := conn.Write(part); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if size < 0 {
		_, err := io.WriteString(conn, "0\r\n\r\n")
		return err
	}
	return nil
}
