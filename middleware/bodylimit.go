package middleware

import "net/http"

// CloseWhile makes every answer the last of its connection while draining is
// true, so that clients with a pool of connections go elsewhere by themselves,
// before the connections are closed under them.
func CloseWhile(draining func() bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if draining() {
				w.Header().Set("Connection", "close")
			}
			next.ServeHTTP(w, r)
		})
	}
}

// BodyLimit refuses bodies that are longer than limit bytes: by tooLarge,
// before anything is read, if the length is declared, else by an
// *http.MaxBytesError from the body once the limit is passed.
func BodyLimit(limit int64, tooLarge http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > limit {
				tooLarge(w, r)
				return
			}
			if r.ContentLength < 0 { // net/http holds a body to its declared length
				r.Body = http.MaxBytesReader(w, r.Body, limit)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// CloseAfterChunks makes the answer to a request in chunks the last of its
// connection. net/http takes such a request by its chunks even if it has a
// Content-Length too, and does not tell. A proxy that goes by the length would
// take what follows for a part of the body, and the server for another request;
// RFC 9112, section 6.3, has the connection closed.
func CloseAfterChunks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
