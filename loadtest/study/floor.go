package study

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"

	"texttax/loadtest"
)

// An echoer makes one 8-byte echo.
type echoer interface {
	echo() error
	close()
}

// minimalClient is the least that a client of HTTP can do: it sends the same
// bytes again and again, and takes what one read gives for the answer, which
// is small enough to come in one piece.
type minimalClient struct {
	conn    net.Conn
	request []byte
	answer  []byte
}

func newMinimalClient(h *loadtest.HTTP, body []byte) (*minimalClient, error) {
	conn, err := net.Dial(h.Network, h.Address)
	if err != nil {
		return nil, err
	}
	c := &minimalClient{conn: conn, answer: make([]byte, 4096)}
	c.request = append(fmt.Appendf(nil, "POST %s/echo HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", h.Prefix, h.Host, len(body)), body...)
	return c, nil
}

func (c *minimalClient) echo() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	_, err := c.conn.Read(c.answer)
	return err
}

func (c *minimalClient) close() { _ = c.conn.Close() }

// standardClient is net/http's.
type standardClient struct {
	client *http.Client
	url    string
	body   []byte
}

func newStandardClient(h *loadtest.HTTP, body []byte) *standardClient {
	return &standardClient{&http.Client{Transport: &http.Transport{DisableCompression: true}}, "http://" + h.Address + h.Prefix + "/echo", body}
}

func (c *standardClient) echo() error {
	answer, err := c.client.Post(c.url, "application/octet-stream", bytes.NewReader(c.body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func (c *standardClient) close() { c.client.CloseIdleConnections() }
