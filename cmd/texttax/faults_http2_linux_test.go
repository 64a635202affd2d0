package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"
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
	cert, key, pair := certificate(t, nil)
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	by := httpsClient(t, &tls.Config{RootCAs: roots})
	plain := client.Transport
	client.Transport = by.Transport // of the good requests too
	defer func() { client.Transport = plain }()
	x := startTarget(t, "--tls-cert", cert, "--tls-key", key, "--log-level", "error")
	good := goodRequests(t)
	n := times(t, 2000, 100_000)
	const workers = 8
	x.during(t, 2, func() {
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(10, uint64(w)))
				for range n / workers {
					if err := resetStream(by, x.url, rng, &good[rng.IntN(len(good))]); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	})
	x.recovers(t)
	t.Logf("%d requests that were given up: %v", n, x.metrics(t)[`texttax_rejected_total{reason="client-gone"}`])
}
