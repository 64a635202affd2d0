package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	sweepToken   = "sweep-0123456789abcdef"
	writeToken   = "write-0123456789abcdef"
	metricsToken = "metrics-0123456789abcdef"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func tokenFile(t *testing.T) string {
	return writeFile(t, "tokens", "# of the tests\n"+sweepToken+" sweep\n\n"+writeToken+"\tsweep,datasets\n"+metricsToken+" metrics\n")
}

func TestTokensOpenWhatTheyAreFor(t *testing.T) {
	s := start(t, "--token-file", tokenFile(t))
	requests := []struct{ method, path, scope string }{
		{"POST", "/sweep?lengths=2", "sweep"},
		{"POST", "/echo", "sweep"},
		{"GET", "/datasets", "sweep"},
		{"GET", "/datasets/gbm42", "sweep"},
		{"PUT", "/datasets/mine", "datasets"},
		{"DELETE", "/datasets/mine", "datasets"},
		{"GET", "/metrics", "metrics"},
		{"GET", "/healthz", ""},
		{"GET", "/readyz", ""},
		{"GET", "/version", ""},
		{"GET", "/openapi.yaml", ""},
		{"GET", "/", ""},
	}
	for token, scopes := range map[string]string{
		"": "", "Bearer wrong-0123456789abcdef": "", "Basic " + sweepToken: "", "Bearer": "", "Bearer " + sweepToken + "x": "",
		"Bearer " + sweepToken: "sweep", "bearer  " + sweepToken: "sweep", "Bearer " + writeToken: "sweep,datasets", "Bearer " + metricsToken: "metrics",
	} {
		for _, q := range requests {
			var headers []string
			if token != "" {
				headers = []string{"Authorization", token}
			}
			r := ask(t, q.method, s.url+q.path, octets(100, 101), headers...)
			switch {
			case q.scope == "" || strings.Contains(scopes, q.scope):
				if r.status >= 400 {
					t.Errorf("%q, %s %s: %d %s", token, q.method, q.path, r.status, r.body)
				}
			case scopes == "":
				if wantProblem(t, r, 401, "", -1); r.header.Get("Www-Authenticate") != `Bearer realm="texttax"` {
					t.Errorf("%q, %s %s: WWW-Authenticate is %q", token, q.method, q.path, r.header.Get("Www-Authenticate"))
				}
			default:
				if wantProblem(t, r, 403, "", -1); !strings.Contains(r.header.Get("Www-Authenticate"), "insufficient_scope") {
					t.Errorf("%q, %s %s: WWW-Authenticate is %q", token, q.method, q.path, r.header.Get("Www-Authenticate"))
				}
			}
		}
	}
	if log := s.log.String(); strings.Contains(log, "0123456789abcdef") {
		t.Errorf("a token is in the log:\n%s", log)
	}
}

func TestTokenFilesThatSayNothingAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "no token",
		"# nothing":                         "no token",
		"short sweep":                       ":1: a token has 16 characters",
		sweepToken:                          ":1: a line is a token and its scopes",
		"\n" + sweepToken + " sweep,fly":    `:2: "fly" is no scope`,
		sweepToken + " sweep and no more":   ":1: a line is",
		sweepToken + " " + "sweep,,metrics": "no scope",
	} {
		err := run(context.Background(), []string{"serve", "--listen", "127.0.0.1:0", "--token-file", writeFile(t, "tokens", text)}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTokensAreReadAgainOnHangup(t *testing.T) {
	file := tokenFile(t)
	p := startProcess(t, buildBinary(t), "--token-file", file)
	const fresh = "fresh-0123456789abcdef"
	status := func(token string) int {
		return ask(t, "POST", p.url+"/echo", octets(1), "Authorization", "Bearer "+token).status
	}
	if status(sweepToken) != 200 || status(fresh) != 401 {
		t.Fatal("the first file is not in force")
	}
	reload := func(text, says string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.signal(t, syscall.SIGHUP)
		waitFor(t, says, func() bool { return strings.Contains(p.stderr.String(), says) })
	}
	reload("nonsense", "what was in force stays")
	if status(sweepToken) != 200 {
		t.Error("a broken file has taken the tokens away")
	}
	reload(fresh+" sweep", "reloaded")
	if status(sweepToken) != 401 || status(fresh) != 200 {
		t.Error("the new file is not in force")
	}
}

func TestAReloadTakesTokensAndCertificateOrNeither(t *testing.T) {
	file := tokenFile(t)
	flags, roots := serverCertificate(t)
	cert := flags[1]
	p := startProcess(t, buildBinary(t), append(flags, "--token-file", file)...)
	trust(t, roots)
	const fresh = "fresh-0123456789abcdef"
	status := func(token string) int {
		return ask(t, "GET", p.url+"/datasets", nil, "Authorization", "Bearer "+token).status
	}
	if err := errors.Join(os.WriteFile(file, []byte(fresh+" sweep"), 0o600), os.WriteFile(cert, []byte("nonsense"), 0o600)); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP)
	waitFor(t, "the reload", func() bool { return strings.Contains(p.stderr.String(), "what was in force stays") })
	if status(sweepToken) != 200 || status(fresh) != 401 {
		t.Error("the new tokens are in force without the certificate")
	}
}

func TestOtherHostsAreNotServedWithoutProtection(t *testing.T) {
	cert, key, _ := certificate(t, nil)
	for _, tc := range []struct {
		args []string
		ok   bool
	}{
		{[]string{"--listen", "0.0.0.0:0"}, false},
		{[]string{"--listen", ":0"}, false},
		{[]string{"--listen", "[::1]:0"}, true},
		{[]string{"--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"}, false},
		{[]string{"--listen", "127.0.0.1:0", "--frame-listen", "tcp:0.0.0.0:0"}, false},
		{[]string{"--listen", "0.0.0.0:0", "--insecure-bind"}, true},
		{[]string{"--listen", "0.0.0.0:0", "--token-file", tokenFile(t)}, true},
		{[]string{"--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key}, true},
		{[]string{"--listen", "127.0.0.1:0", "--token-file", tokenFile(t), "--frame-listen", "tcp:0.0.0.0:0"}, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		// It has ended before it has begun: either it may not bind, or it drains.
		cancel()
		err := run(ctx, append([]string{"serve", "--drain-delay", "0s"}, tc.args...), io.Discard, io.Discard)
		if refused := err != nil && strings.Contains(err.Error(), "--insecure-bind"); refused == tc.ok || err != nil && tc.ok {
			t.Errorf("%q: %v", tc.args, err)
		}
	}
}

// certificate makes a certificate for 127.0.0.1, signed by a parent or by
// itself, and returns the files and the pair.
func certificate(t *testing.T, parent *tls.Certificate) (cert, key string, pair tls.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "texttax test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: parent == nil,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer, signing := template, any(private)
	if parent != nil {
		signer, signing = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &private.PublicKey, signing)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	if pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "cert.pem", string(certPEM)), writeFile(t, "key.pem", string(keyPEM)), pair
}

// serverCertificate makes a certificate, and returns the flags that make a server
// use it, and what a client is to trust.
func serverCertificate(t *testing.T) (flags []string, roots *x509.CertPool) {
	t.Helper()
	cert, key, pair := certificate(t, nil)
	roots = x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	return []string{"--tls-cert", cert, "--tls-key", key}, roots
}

func httpsClient(t *testing.T, config *tls.Config) *http.Client {
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// trust makes all requests of the test over HTTP/2, to a server whose certificate
// is one of these, and returns a client of the same connections.
func trust(t *testing.T, roots *x509.CertPool) *http.Client {
	t.Helper()
	by := httpsClient(t, &tls.Config{RootCAs: roots})
	plain := client.Transport
	client.Transport = by.Transport
	t.Cleanup(func() { client.Transport = plain })
	return by
}

func TestHTTPSAndHTTP2(t *testing.T) {
	flags, roots := serverCertificate(t)
	s := start(t, flags...)
	if !strings.HasPrefix(s.url, "https://") {
		t.Fatalf("it serves on %s", s.url)
	}
	body := string(octets(100, 101, 102.5))
	r, err := httpsClient(t, &tls.Config{RootCAs: roots}).Post(s.url+"/echo", "application/octet-stream", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if r.ProtoMajor != 2 || string(answer) != body || r.Header.Get("Server-Timing") == "" {
		t.Errorf("%s, %q", r.Proto, answer)
	}
	// Answers without a body are whole answers too.
	etag := ""
	for _, tc := range []struct {
		method, body string
		headers      http.Header
		want         int
	}{
		{"PUT", body, nil, 201}, {"PUT", body, nil, 204}, {"GET", "", nil, 200}, {"HEAD", "", nil, 200},
		{"GET", "", http.Header{"If-None-Match": {"*"}}, 304}, {"DELETE", "", nil, 204}, {"GET", "", nil, 404},
	} {
		q, err := http.NewRequest(tc.method, s.url+"/datasets/mine", strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range tc.headers {
			q.Header[name] = values
		}
		r, err := httpsClient(t, &tls.Config{RootCAs: roots}).Do(q)
		if err != nil {
			t.Fatalf("%s: %v", tc.method, err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != tc.want || r.ProtoMajor != 2 {
			t.Errorf("%s: %s %d, %v; want %d", tc.method, r.Proto, r.StatusCode, err, tc.want)
		}
		_ = r.Body.Close()
		etag += r.Header.Get("Etag")
	}
	if etag == "" {
		t.Error("there was no ETag")
	}
	old := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if r, err := httpsClient(t, old).Get(s.url + "/healthz"); err == nil {
		_ = r.Body.Close()
		t.Error("TLS 1.1 is spoken")
	}
}

func TestClientsWithoutACertificateAreTurnedAway(t *testing.T) {
	caFile, _, ca := certificate(t, nil)
	cert, key, _ := certificate(t, &ca)
	_, _, own := certificate(t, &ca)
	s := start(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", caFile)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	if r, err := httpsClient(t, &tls.Config{RootCAs: roots}).Get(s.url + "/healthz"); err == nil {
		_ = r.Body.Close()
		t.Error("a client without a certificate is served")
	}
	_, _, stranger := certificate(t, nil)
	if r, err := httpsClient(t, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{stranger}}).Get(s.url + "/healthz"); err == nil {
		_ = r.Body.Close()
		t.Error("a client with a stranger's certificate is served")
	}
	r, err := httpsClient(t, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}).Get(s.url + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != 200 {
		t.Errorf("status %d", r.StatusCode)
	}
}

func TestBrowsersOfOtherOrigins(t *testing.T) {
	preflight := []string{"Origin", "https://example.org", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"}
	s := start(t)
	if r := ask(t, "OPTIONS", s.url+"/sweep", nil, preflight...); r.status != 405 {
		t.Errorf("without --cors-origin: %d", r.status)
	}
	s = start(t, "--cors-origin", "https://example.org")
	if r := ask(t, "OPTIONS", s.url+"/sweep", nil, preflight...); r.status != 204 || r.header.Get("Access-Control-Allow-Origin") != "https://example.org" {
		t.Errorf("preflight: %d %v", r.status, r.header)
	}
	r := ask(t, "POST", s.url+"/echo", octets(1), "Origin", "https://example.org")
	if r.status != 200 || r.header.Get("Access-Control-Allow-Origin") != "https://example.org" || !strings.Contains(r.header.Get("Access-Control-Expose-Headers"), "Server-Timing") {
		t.Errorf("request: %d %v", r.status, r.header)
	}
	if vary := strings.Join(r.header.Values("Vary"), ", "); !strings.Contains(vary, "Origin") || !strings.Contains(vary, "Accept") {
		t.Errorf("Vary is %q", vary)
	}
	if r := ask(t, "POST", s.url+"/echo", octets(1), "Origin", "https://evil.example"); r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin is let in: %v", r.header)
	}
	if r := ask(t, "OPTIONS", s.url+"/sweep", nil); r.status != 405 {
		t.Errorf("OPTIONS of no browser: %d", r.status)
	}
}

func TestOneClientMaySendOnlySoMuch(t *testing.T) {
	s := start(t, "--client-rate", "5")
	statuses := map[int]int{}
	for range 50 {
		r := ask(t, "POST", s.url+"/echo", octets(1))
		if statuses[r.status]++; r.status == 429 {
			if wantProblem(t, r, 429, "", -1); r.header.Get("Retry-After") == "" {
				t.Error("there is no Retry-After")
			}
		}
	}
	if statuses[200] == 0 || statuses[429] == 0 || len(statuses) != 2 {
		t.Errorf("statuses %v", statuses)
	}

	s = start(t, "--client-concurrency", "1", "--admin-listen", "127.0.0.1:0")
	c := dial(t, s.url)
	if _, err := io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	admin := &server{url: s.admin}
	waitFor(t, "the first request", func() bool { return metric(t, admin, "texttax_requests_in_flight") > 1 })
	wantProblem(t, ask(t, "POST", s.url+"/echo", octets(1)), 429, "", -1)
	_ = c.Close()
	waitFor(t, "the end of the first", func() bool { return ask(t, "POST", s.url+"/echo", octets(1)).status == 200 })
}

// HTTP/2 has many requests on one connection; they are bounded as connections
// are.
func TestOnlySoManyRequestsAreInFlight(t *testing.T) {
	flags, roots := serverCertificate(t)
	admin := filepath.Join(t.TempDir(), "admin")
	s := start(t, append(flags, "--connections-max", "2", "--admin-listen", "unix:"+admin)...)
	operator := overSocket(t, admin)
	inFlight := func() int {
		_, body := get(t, operator, "http://admin/metrics")
		_, rest, _ := strings.Cut(string(body), "\ntexttax_requests_in_flight ")
		n := 0
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatal(err)
		}
		return n - 1 // without the one that asks
	}
	by := httpsClient(t, &tls.Config{RootCAs: roots})
	for i := range 2 {
		body, rest := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if answer, err := by.Post(s.url+"/echo", "", body); err == nil {
				_ = answer.Body.Close()
			}
		}()
		defer func() {
			_ = rest.CloseWithError(errors.New("the test is over"))
			<-done
		}()
		waitFor(t, "the request", func() bool { return inFlight() == i+1 })
	}
	r, body := get(t, by, s.url+"/version")
	if p := wantProblem(t, reply{r.StatusCode, r.Header, body}, 503, "", -1); !strings.HasSuffix(p.Type, "too-many-in-flight") || r.Header.Get("Retry-After") == "" || r.ProtoMajor != 2 {
		t.Errorf("%s %v %s", r.Proto, r.Header, body)
	}
}

// get asks with a client of the test's own, and reads the answer.
func get(t *testing.T, by *http.Client, url string) (*http.Response, []byte) {
	t.Helper()
	r, err := by.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, body
}
