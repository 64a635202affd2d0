package handlers

import (
	"encoding/json"
	"io"
	"net/http"
)

// healthz serves GET /healthz: the process lives.
func healthz(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") }

// readyz serves GET /readyz: the service takes requests. It fails while the
// service drains, so that a load balancer sends new requests elsewhere.
func (a *API) readyz(w http.ResponseWriter, _ *http.Request) {
	if a.config.Ready != nil && !a.config.Ready() {
		plain(w, http.StatusServiceUnavailable, "draining\n")
		return
	}
	plain(w, http.StatusOK, "ready\n")
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // who has gone needs no answer
}

// version serves GET /version.
func (a *API) version(w http.ResponseWriter, r *http.Request) {
	body, _ := json.Marshal(a.config.Build) // strings can always be written
	a.write(w, "application/json", http.StatusOK, append(body, '\n'))
}
