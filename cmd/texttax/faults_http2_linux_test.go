package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// resetStream sends a request over HTTP/2 and gives it up: before its answer
// comes, or after some of it. What comes whole must be right.
func resetStream(by *http.Client, url string, rng *rand.Rand, g *goodRequest) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", url+g.path, bytes.NewReader(g.body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", g.mediaType)
	if rng.IntN(2) == 0 {
		time.AfterFunc(time.Duration(rng.IntN(5000))*time.Microsecond, cancel)
	}
	answer, err := by.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			return err
		}
		return nil
	}
	defer answer.Body.Close()
	if answer.ProtoMajor != 2 {
		return fmt.Errorf("the answer is of %s", answer.Proto)
	}
	got, err := io.ReadAll(io.LimitReader(answer.Body, int64(rng.IntN(2*len(g.want)+1))))
	switch {
	case err != nil && ctx.Err() == nil:
		return err
	case answer.StatusCode == 200 && !bytes.HasPrefix(g.want, got):
		return fmt.Errorf("%s, %s: of %d bytes that came, some are wrong", g.path, g.mediaType, len(got))
	case answer.StatusCode != 200 && answer.StatusCode != 503:
		return fmt.Errorf("%s, %s: status %d: %.300s", g.path, g.mediaType, answer.StatusCode, got)
	}
	return nil
}

// TestFaultsStreamsThatAreResetLeaveNothing gives up requests of HTTP/2 at any
// point, beside others on the same connections that are answered.
func TestFaultsStreamsThatAreResetLeaveNothing(t *testing.T) {
	flags, roots := serverCertificate(t)
	by := trust(t, roots) // on whose connections the good requests go too
	x := startTarget(t, append(flags, "--log-level", "error")...)
	good := goodRequests(t)
	n := times(t, 2000, 100_000)
	const workers = 8
	x.during(t, 2, func() {
		atATime(t, workers, n, 10, func(rng *rand.Rand) error {
			return resetStream(by, x.url, rng, &good[rng.IntN(len(good))])
		})
	})
	x.recovers(t)
	t.Logf("%d requests that were given up: %v", n, x.metrics(t)[`texttax_rejected_total{reason="client-gone"}`])
}

// TestFaultsAConnectionOfHTTP2ThatTakesNothingEnds asks for much with windows
// that are wide open, and reads nothing: the connection is full, and so an end of
// its streams can't be sent either.
func TestFaultsAConnectionOfHTTP2ThatTakesNothingEnds(t *testing.T) {
	flags, roots := serverCertificate(t)
	trust(t, roots)
	x := startTarget(t, append(flags, "--log-level", "error", "--transfer-grace", "500ms", "--transfer-rate", "1GiB")...)
	c, err := tls.Dial("tcp", strings.TrimPrefix(x.url, "https://"), &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const wide, requests = 1<<31 - 1, 50 // of 1.2 MB, more than socket buffers hold
	var headers bytes.Buffer
	fields := hpack.NewEncoder(&headers)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "x"},
		{Name: ":path", Value: "/datasets/gbm42"}, {Name: "accept", Value: "application/octet-stream"},
	} {
		if err := fields.WriteField(f); err != nil {
			t.Fatal(err)
		}
	}
	var sent bytes.Buffer
	sent.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&sent, nil)
	err = errors.Join(
		framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: wide}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}),
		framer.WriteWindowUpdate(0, wide-65535),
	)
	for i := range requests {
		err = errors.Join(err, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: headers.Bytes(), EndStream: true, EndHeaders: true}))
	}
	if err != nil {
		t.Fatal(err)
	}
	x.during(t, 2, func() {
		if _, err := c.Write(sent.Bytes()); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the requests", func() bool { return x.metrics(t)["texttax_requests_in_flight"] > requests/2 })
		waitFor(t, "their end", func() bool { return x.metrics(t)["texttax_requests_in_flight"] < requests/2 })
	})
	x.recovers(t)
}

// TestFaultsMoreClientsThanConnectionsAreAllServed has clients of HTTP/1 and
// HTTP/2 that keep their connections, of which there may be fewer than clients.
// None waits between two requests for as long as would make it idle.
func TestFaultsMoreClientsThanConnectionsAreAllServed(t *testing.T) {
	flags, roots := serverCertificate(t)
	trust(t, roots)
	x := startTarget(t, append(flags, "--log-level", "error", "--connections-max", "8")...)
	good := smallGood(t, "")
	var all sync.WaitGroup
	for w := range 32 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(11, uint64(w)))
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: w%2 == 0}
			defer transport.CloseIdleConnections()
			by := &http.Client{Transport: transport}
			for range times(t, 10, 300) {
				if err := good[rng.IntN(len(good))].ask(x.url, by); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Duration(rng.IntN(3)*rng.IntN(50)) * time.Millisecond)
			}
		})
	}
	all.Wait()
	x.recovers(t)
}
