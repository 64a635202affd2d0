package middleware

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	chimiddleware "github.com/go-chi/chi/v5/middleware"
)

// Recover turns a panic of a route into an answer by fail, or, if a part of
// the answer is already out, breaks the connection, so that no client takes
// the part for the whole. The panic and its stack go to the log only.
// http.ErrAbortHandler passes: it is how a route breaks the connection.
func Recover(log *slog.Logger, fail http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			writer, ok := w.(chimiddleware.WrapResponseWriter)
			if !ok {
				writer = chimiddleware.NewWrapResponseWriter(w, r.ProtoMajor)
			}
			defer func() {
				cause := recover()
				if cause == nil {
					return
				}
				if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
					panic(cause)
				}
				ex := From(r.Context())
				ex.Panicked = true
				log.Error("panic", "id", ex.ID, "method", r.Method, "path", clip(r.URL.Path), "cause", cause, "stack", string(debug.Stack()))
				if writer.Status() != 0 {
					panic(http.ErrAbortHandler)
				}
				fail(writer, r)
			}()
			next.ServeHTTP(writer, r)
		})
	}
}
