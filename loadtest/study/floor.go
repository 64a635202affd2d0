package study

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"texttax/encoding"
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

// planFloor adds what the generator itself costs, over the first boundary that
// is HTTP over TCP.
func (s *study) planFloor(series []float64) error {
	var http *loadtest.HTTP
	for _, b := range s.Boundaries {
		if h, ok := b.(*loadtest.HTTP); ok && h.Network == "tcp" && !h.TLS {
			http = h
			break
		}
	}
	if http == nil {
		return nil
	}
	body, err := encoding.Octet.Append(nil, &encoding.Request{Close: series})
	if err != nil {
		return err
	}
	const calls = 300
	measure := func(c echoer, to *[]float64) error {
		defer c.close()
		for range calls / 10 {
			if err := c.echo(); err != nil {
				return err
			}
		}
		m, err := medianOf(calls, c.echo)
		if err == nil {
			*to = append(*to, m)
		}
		return err
	}
	g := &s.results.Generator
	s.add("8-byte echo, lean client", func(ctx context.Context) error {
		octet, err := loadtest.FormatByName("octet")
		if err != nil {
			return err
		}
		job, err := loadtest.Work{Close: series}.Cut(loadtest.PerBar, octet)
		if err != nil {
			return err
		}
		r, err := s.drive(ctx, loadtest.Scenario{Boundary: http, Format: octet, Granularity: loadtest.PerBar}, job, calls, nil)
		if err == nil {
			g.Lean = append(g.Lean, r.Latency.P50)
		}
		return err
	})
	s.add("8-byte echo, minimal client", func(context.Context) error {
		c, err := newMinimalClient(http, body)
		if err != nil {
			return err
		}
		return measure(c, &g.Minimal)
	})
	s.add("8-byte echo, net/http client", func(context.Context) error {
		return measure(newStandardClient(http, body), &g.Standard)
	})
	return nil
}
