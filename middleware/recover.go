package middleware

import (
	"log/slog"
	"net/http"
	"runtime/debug"
)

// Recover turns a panic of a route into an answer by fail, or, if a part of the
// answer is already out, breaks the connection, so that no client takes the
// part for the whole. It works within Track, which knows what is out. The panic and its stack go to the log only.
// http.ErrAbortHandler passes: it is how a route breaks the connection.
func Recover(log *slog.Logger, fail http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				cause := recover()
				if cause == nil {
					return
				}
				if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
					panic(cause)
				}
				ex := From(w)
				ex.Panicked = true
				log.Error("panic", "id", ex.ID, "method", r.Method, "path", clip(r.URL.Path), "cause", cause, "stack", string(debug.Stack()))
				if ex.Status != 0 {
					panic(http.ErrAbortHandler)
				}
				fail(w, r)
			}()
			next.ServeHTTP(w, r)
		})
	}
}
