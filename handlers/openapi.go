package handlers

import (
	_ "embed"
	"net/http"
	"strconv"
)

// openAPI describes all routes, as OpenAPI 3.1.
//
//go:embed openapi.yaml
var openAPI []byte

// serveOpenAPI serves GET /openapi.yaml. Its media type is that of RFC 9512.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "application/yaml")
	header.Set("Content-Length", strconv.Itoa(len(openAPI)))
	header.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openAPI) // who has gone needs no answer
}
