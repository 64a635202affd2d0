package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func healthcheck(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), append([]string{"healthcheck"}, args...), &out, &out)
	return out.String(), err
}

func TestHealthcheckSaysWhatReadyzSays(t *testing.T) {
	s := start(t)
	if out, err := healthcheck(t, s.url); err != nil || out != "ready\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := healthcheck(t, s.url+"/"); err != nil || out != "ready\n" {
		t.Errorf("%q, %v", out, err)
	}
	s = start(t, "--admin-listen", "127.0.0.1:0")
	if out, err := healthcheck(t, s.admin); err != nil || out != "ready\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := healthcheck(t, s.url); err == nil || exitStatus(err) != 1 || !strings.Contains(err.Error(), "404") {
		t.Errorf("where there is no /readyz: %v", err)
	}
}

func TestHealthcheckFailsWhenTheServerDrainsHangsOrIsGone(t *testing.T) {
	draining := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "draining", http.StatusServiceUnavailable)
	}))
	defer draining.Close()
	if _, err := healthcheck(t, draining.URL); err == nil || !strings.Contains(err.Error(), "503 Service Unavailable: draining") {
		t.Errorf("draining: %v", err)
	}
	release := make(chan bool)
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hanging.Close()
	defer close(release)
	began := time.Now()
	if _, err := healthcheck(t, hanging.URL, "--timeout", "50ms"); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("hanging: %v after %v", err, time.Since(began))
	}
	draining.Close()
	if _, err := healthcheck(t, draining.URL); err == nil || exitStatus(err) != 1 {
		t.Errorf("gone: %v", err)
	}
	// A proxy is not asked: it may be far away, and the server is not.
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	if out, err := healthcheck(t, start(t).url); err != nil {
		t.Errorf("%q, %v", out, err)
	}
}
