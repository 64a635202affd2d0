package middleware

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// Tokens are the bearer tokens of a file, each with the scopes that it opens. A
// line of the file is a token, white space, and its scopes joined by commas;
// what begins with # is a comment.
type Tokens struct {
	file   string
	scopes []string // that there are
	list   atomic.Pointer[[]token]
}

// token is kept as its digest: what is compared has one length, and what is in
// memory opens nothing.
type token struct {
	digest [sha256.Size]byte
	scopes []string
}

// minToken is the length below which a token can be guessed.
const minToken = 16

// LoadTokens reads the file. An error names the line.
func LoadTokens(file string, scopes []string) (*Tokens, error) {
	t := &Tokens{file: file, scopes: scopes}
	return t, t.Reload()
}

// Reload reads the file again. On an error the tokens stay what they were.
func (t *Tokens) Reload() error {
	f, err := os.Open(t.file)
	if err != nil {
		return err
	}
	defer f.Close()
	var list []token
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		fail := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s", t.file, n, fmt.Sprintf(format, args...)) // and never the token
		}
		if len(fields) != 2 {
			return fail("a line is a token and its scopes, joined by commas")
		}
		if len(fields[0]) < minToken {
			return fail("a token has %d characters at least", minToken)
		}
		scopes := strings.Split(fields[1], ",")
		for _, s := range scopes {
			if !slices.Contains(t.scopes, s) {
				return fail("%q is no scope; scopes are %s", s, strings.Join(t.scopes, ", "))
			}
		}
		if _, known := find(list, fields[0]); known {
			return fail("the token is in a line above, too")
		}
		list = append(list, token{sha256.Sum256([]byte(fields[0])), scopes})
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", t.file, err)
	}
	if len(list) == 0 {
		return fmt.Errorf("%s: there is no token in it", t.file)
	}
	t.list.Store(&list)
	return nil
}

// find returns the scopes of a token, and whether it is one. It takes as long
// for one as for another.
func find(list []token, presented string) (scopes []string, known bool) {
	digest := sha256.Sum256([]byte(presented))
	for _, each := range list {
		if subtle.ConstantTimeCompare(digest[:], each.digest[:]) == 1 {
			scopes, known = each.scopes, true
		}
	}
	return scopes, known
}

// Require lets through who presents a token of the scope, and gives the others
// to deny: known tells that the token is one, but not of the scope.
func (t *Tokens) Require(scope string, deny func(w http.ResponseWriter, r *http.Request, known bool)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			scheme, presented, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			var scopes []string
			known := false
			if strings.EqualFold(scheme, "Bearer") {
				scopes, known = find(*t.list.Load(), strings.TrimSpace(presented))
			}
			if !slices.Contains(scopes, scope) {
				deny(w, r, known)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
