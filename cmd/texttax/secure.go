package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"texttax/handlers"
	"texttax/middleware"
)

// security is who may reach the service, and how.
type security struct {
	TokenFile    string `type:"existingfile" placeholder:"FILE" help:"File of bearer tokens: a line is a token and its scopes (sweep, datasets, metrics) joined by commas. Read again on SIGHUP. Without it anyone who reaches the service can use it."`
	TLSCert      string `type:"existingfile" placeholder:"FILE" help:"Certificate chain (PEM), to serve HTTPS and HTTP/2 on TCP addresses. Read again on SIGHUP, as is the key."`
	TLSKey       string `type:"existingfile" placeholder:"FILE" help:"Private key (PEM) of --tls-cert."`
	TLSClientCA  string `type:"existingfile" placeholder:"FILE" help:"Certificates (PEM) that sign those of clients. With it a client without a certificate is turned away."`
	InsecureBind bool   `help:"Listen beyond this host although neither tokens nor TLS protect the address."`

	CORSOrigin        []string `placeholder:"ORIGIN" help:"Origin whose pages may use the service from a browser, such as https://example.org, or * for all; may be given several times."`
	ClientRate        int      `placeholder:"N" help:"Most requests of one IP address in a second; beyond it the answer is 429. 0 is no limit."`
	ClientConcurrency int      `placeholder:"N" help:"Most requests of one IP address in flight; beyond it the answer is 429. 0 is no limit."`
}

func (s *security) validate() error {
	switch {
	case (s.TLSCert == "") != (s.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case s.TLSClientCA != "" && s.TLSCert == "":
		return errors.New("--tls-client-ca needs --tls-cert")
	case s.ClientRate < 0 || s.ClientConcurrency < 0:
		return errors.New("--client-rate and --client-concurrency must not be negative")
	}
	return nil
}

// guards are what the security flags stand for.
type guards struct {
	tokens      *middleware.Tokens // nil without
	tls         *tls.Config        // nil without
	certificate atomic.Pointer[tls.Certificate]
	flags       *security
}

func (s *security) load() (*guards, error) {
	g := &guards{flags: s}
	if s.TokenFile != "" {
		tokens, err := middleware.LoadTokens(s.TokenFile, handlers.Scopes)
		if err != nil {
			return nil, err
		}
		g.tokens = tokens
	}
	if s.TLSCert == "" {
		return g, nil
	}
	pair, err := g.readCertificate()
	if err != nil {
		return nil, err
	}
	g.certificate.Store(pair)
	g.tls = &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return g.certificate.Load(), nil },
	}
	if s.TLSClientCA != "" {
		pem, err := os.ReadFile(s.TLSClientCA)
		if err != nil {
			return nil, err
		}
		g.tls.ClientCAs, g.tls.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !g.tls.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: there is no certificate in it", s.TLSClientCA)
		}
	}
	return g, nil
}

func (g *guards) readCertificate() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(g.flags.TLSCert, g.flags.TLSKey)
	return &pair, err
}

// reloadOnHangup reads tokens and certificate again on each SIGHUP, until stop
// is called. What can't be read stays what it was.
func (g *guards) reloadOnHangup(log *slog.Logger) (stop func()) {
	if g.tokens == nil && g.tls == nil {
		return func() {} // a closed terminal ends the server, as usual
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			g.reload(log)
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
	}
}

// reload reads tokens and certificate again, and takes both or neither.
func (g *guards) reload(log *slog.Logger) {
	var pair *tls.Certificate
	var err error
	if g.tls != nil {
		pair, err = g.readCertificate()
	}
	if err == nil && g.tokens != nil {
		err = g.tokens.Reload()
	}
	if err != nil {
		log.Error("reload: what was in force stays", "cause", err.Error())
		return
	}
	if pair != nil {
		g.certificate.Store(pair)
	}
	log.Info("reloaded")
}

// mayBind refuses an address that is open to others and protected by nothing.
func (g *guards) mayBind(at address, bound net.Addr, http bool) error {
	tcp, ok := bound.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() || g.flags.InsecureBind || http && (g.tokens != nil || g.tls != nil) {
		return nil
	}
	remedy := "--token-file, --tls-cert"
	if !http {
		remedy = "frames know neither tokens nor TLS: use unix:"
	}
	return fmt.Errorf("%s can be reached from other hosts, and nothing protects it: %s, or --insecure-bind if that is as it should be", at, remedy)
}
