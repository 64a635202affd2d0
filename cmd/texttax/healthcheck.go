package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

type healthcheckCommand struct {
	URL     string        `arg:"" default:"http://127.0.0.1:8080" help:"Where the server, or its admin address, is. Default: ${default}." env:"-"`
	Timeout time.Duration `default:"3s" help:"Longest time to wait for the answer." env:"-"`
}

// Help is shown by texttax healthcheck --help.
func (*healthcheckCommand) Help() string {
	return `Exits with 0 if GET /readyz is answered with 200, and with 1 if not: for containers, in which there is no other program to ask with.`
}

// Run asks once.
func (c *healthcheckCommand) Run(ctx context.Context, out streams) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.URL, "/")+"/readyz", nil)
	if err != nil {
		return err
	}
	// Without a proxy: the server is next door.
	answer, err := (&http.Transport{}).RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(said))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", r.URL, answer.Status, text)
	}
	fmt.Fprintln(out.stdout, text)
	return nil
}
