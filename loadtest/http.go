package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HTTP is HTTP/1.1 over TCP, TLS or a Unix socket. Its client does no more
// than a call needs: net/http's moves each request through two goroutines,
// which costs more than a small echo does.
type HTTP struct {
	Network   string // tcp or unix
	Address   string // host:port, or the socket's path
	Host      string // of the Host header
	Prefix    string // that comes before /sweep and /echo; usually ""
	TLS       bool
	TLSConfig *tls.Config // nil means the system's roots
}

// Name implements Boundary.
func (h *HTTP) Name() string {
	if h.TLS {
		return "https-" + h.Network
	}
	return "http-" + h.Network
}

// Check implements Boundary: HTTP carries all calls in all formats.
func (h *HTTP) Check(_ *Call, f Format) error {
	if f.Codec == nil {
		return errors.New("HTTP needs a format")
	}
	return nil
}

// Dial implements Boundary.
func (h *HTTP) Dial(ctx context.Context) (Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, h.Network, h.Address)
	if err != nil {
		return nil, err
	}
	if h.TLS {
		config := h.TLSConfig.Clone()
		if config == nil {
			config = new(tls.Config)
		}
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(h.Address)
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("TLS with %s: %w", h.Address, err)
		}
		conn = secure
	}
	return &httpConn{Conn: conn, boundary: h, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

const (
	// maxJoined is the body's length below which a copy beside the header is
	// cheaper than a second piece.
	maxJoined = 16 << 10
	// maxAnswer bounds what a server can make us allocate.
	maxAnswer = 1 << 30
)

type httpConn struct {
	net.Conn
	boundary *HTTP
	in       *bufio.Reader
	head     []byte
}

// Exchange implements Conn.
func (c *httpConn) Exchange(m *Message, r *Reply) error {
	r.reset()
	head := append(c.head[:0], "POST "...)
	head = append(head, c.boundary.Prefix...)
	head = append(head, '/')
	head = append(head, m.Call.Endpoint...)
	if m.Call.Query != "" {
		head = append(head, '?')
		head = append(head, m.Call.Query...)
	}
	head = append(head, " HTTP/1.1\r\nHost: "...)
	head = append(head, c.boundary.Host...)
	head = append(head, "\r\nContent-Type: "...)
	head = append(head, m.Format.MediaType...)
	head = append(head, "\r\nContent-Length: "...)
	head = strconv.AppendInt(head, int64(len(m.Body)), 10)
	head = append(head, "\r\n\r\n"...)
	c.head = head
	if err := c.SetDeadline(time.Now().Add(m.Timeout)); err != nil {
		return err
	}
	r.Sent = Now()
	var sending error
	if len(m.Body) <= maxJoined {
		c.head = append(head, m.Body...)
		_, sending = c.Write(c.head)
	} else {
		pieces := net.Buffers{head, m.Body}
		_, sending = pieces.WriteTo(c.Conn)
	}
	// A server that refuses a body may answer and hang up before it has read
	// it all: the answer says more than the broken pipe.
	if err := c.read(r); err != nil {
		if sending != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return sending
		}
		return err
	}
	r.Done = Now()
	r.Close = r.Close || sending != nil
	return nil
}

// read reads an answer.
func (c *httpConn) read(r *Reply) error {
	if _, err := c.in.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the server closed the connection instead of an answer")
		}
		return err
	}
	r.FirstByte = Now()
	length, chunked := int64(-1), false
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		status, err := parseStatus(line)
		if err != nil {
			return err
		}
		r.Status = status
		r.Close = bytes.HasPrefix(line, []byte("HTTP/1.0"))
		if length, chunked, err = c.header(r); err != nil {
			return err
		}
		if status >= 200 {
			break
		}
	}
	switch {
	case r.Status == 204 || r.Status == 304:
		return nil
	case chunked:
		return c.readChunks(r)
	case length < 0:
		r.Close = true
		return readAll(c.in, r)
	case length > maxAnswer:
		return fmt.Errorf("the answer claims to have %d bytes", length)
	}
	r.Body = slices.Grow(r.Body, int(length))[:length]
	if n, err := io.ReadFull(c.in, r.Body); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		return fmt.Errorf("the answer broke off after %d of %d bytes: %w", n, length, err)
	}
	return nil
}

// line reads a line of a header, without its end.
func (c *httpConn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errors.New("the answer's header has a line without end")
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("the answer broke off in its header: %w", err)
	case err != nil:
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

func parseStatus(line []byte) (int, error) {
	if len(line) >= 12 && bytes.HasPrefix(line, []byte("HTTP/1.")) && line[8] == ' ' {
		if status, err := strconv.Atoi(string(line[9:12])); err == nil && status >= 100 {
			return status, nil
		}
	}
	return 0, fmt.Errorf("this is no HTTP/1.1 server: it answered %.40q", line)
}

// header reads the header's fields and returns the body's length, -1 if it is
// not told, and whether it comes in chunks.
func (c *httpConn) header(r *Reply) (length int64, chunked bool, err error) {
	length = -1
	for {
		line, err := c.line()
		if err != nil {
			return 0, false, err
		}
		if len(line) == 0 {
			return length, chunked, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "content-length"):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil || length < 0 {
				return 0, false, fmt.Errorf("the answer has a Content-Length of %.40q", value)
			}
		case is(name, "server-timing"):
			r.Timing.parse(string(value))
		case is(name, "transfer-encoding"):
			chunked = strings.EqualFold(string(value), "chunked")
		case is(name, "connection"):
			r.Close = r.Close || strings.EqualFold(string(value), "close")
		case is(name, "content-encoding"):
			return 0, false, fmt.Errorf("the answer is compressed (%.40q), which nobody asked for", value)
		}
	}
}

// is tells whether a header field has that name, which is in lower case.
func is(field []byte, name string) bool {
	return len(field) == len(name) && strings.EqualFold(string(field), name)
}

func (c *httpConn) readChunks(r *Reply) error {
	if err := readAll(httputil.NewChunkedReader(c.in), r); err != nil {
		return fmt.Errorf("the answer broke off within its chunks: %w", err)
	}
	for { // the trailer
		line, err := c.line()
		if err != nil || len(line) == 0 {
			return err
		}
	}
}

func readAll(in io.Reader, r *Reply) error {
	body := bytes.NewBuffer(r.Body)
	n, err := body.ReadFrom(io.LimitReader(in, maxAnswer))
	if err == nil && n == maxAnswer {
		err = fmt.Errorf("it has more than %d bytes", n)
	}
	r.Body = body.Bytes()
	return err
}
