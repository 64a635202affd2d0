package middleware

import (
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Client returns who sent a request, as far as limits are concerned: the IP
// address of the peer, or its IPv6 network. A proxy is one client, and so is a Unix socket.
func Client(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip := peer.Addr().Unmap().WithZone("")
	if ip.Is6() { // of which one client has a network of at least this size
		const network = 64
		if prefix, err := ip.Prefix(network); err == nil {
			return prefix.String()
		}
	}
	return ip.String()
}

// Limit gives to busy what is in flight, of whichever clients, beyond a number of
// requests.
func Limit(most int, busy http.HandlerFunc) func(http.Handler) http.Handler {
	var inFlight atomic.Int64
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if inFlight.Add(1) > int64(most) {
				inFlight.Add(-1) // or many that do not read their refusal would keep the others out
				busy(w, r)
				return
			}
			defer inFlight.Add(-1)
			next.ServeHTTP(w, r)
		})
	}
}

// ClientLimit gives to tooMany what one client has in flight beyond a number of
// requests.
func ClientLimit(most int, tooMany http.HandlerFunc) func(http.Handler) http.Handler {
	var mu sync.Mutex
	inFlight := map[string]int{}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			client := Client(r)
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
