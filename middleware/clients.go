package middleware

import (
	"net"
	"net/http"
	"sync"
)

// ClientLimit gives to tooMany what one client has in flight beyond a number of
// requests. A client is an IP address; all of a Unix socket are one.
func ClientLimit(most int, tooMany http.HandlerFunc) func(http.Handler) http.Handler {
	var mu sync.Mutex
	inFlight := map[string]int{}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			client, _, err := net.SplitHostPort(r.RemoteAddr)
			if err != nil {
				client = r.RemoteAddr
			}
			mu.Lock()
			if inFlight[client] >= most {
				mu.Unlock()
				tooMany(w, r)
				return
			}
			inFlight[client]++
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				if inFlight[client]--; inFlight[client] == 0 {
					delete(inFlight, client)
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
}
