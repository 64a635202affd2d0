package encoding

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// maxJSONDepth bounds the nesting of values. What we read needs three.
const maxJSONDepth = 16

// jsonScanner walks JSON text by the grammar of RFC 8259 and no more: no
// comments, no trailing commas, no numbers like 01 or 1. or +1.
type jsonScanner struct {
	text []byte
	pos  int
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *jsonScanner) peek() byte {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// take consumes the next byte after white space if it is c.
func (s *jsonScanner) take(c byte) bool {
	if s.peek() != c || s.pos >= len(s.text) {
		return false
	}
	s.pos++
	return true
}

// unexpected is the error for text that the grammar does not allow here.
func (s *jsonScanner) unexpected(want string) *Error {
	if s.peek(); s.pos >= len(s.text) {
		return malformed("JSON ends where %s was expected", want)
	}
	r, _ := utf8.DecodeRune(s.text[s.pos:])
	return malformed("JSON has %s at byte %d where %s was expected", strconv.QuoteRune(r), s.pos, want)
}

// end checks that nothing but white space is left.
func (s *jsonScanner) end() error {
	if s.peek(); s.pos < len(s.text) {
		return s.unexpected("the end")
	}
	return nil
}

// object walks an object and calls member after each key; member must consume
// the value. Keys may come in any order, but only once, and only those in
// known: member gets the key's place there. At most 32 keys may be known.
func (s *jsonScanner) object(known []string, member func(key int) error) error {
	if s.peek() != '{' {
		return s.wrongType("", "an object")
	}
	s.pos++
	if s.take('}') {
		return nil
	}
	seen := uint32(0)
	for {
		if s.peek() != '"' {
			return s.unexpected("a key")
		}
		name, err := s.string()
		if err != nil {
			return err
		}
		key, err := knownKey(name, known, &seen)
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.unexpected("':'")
		}
		if err := member(key); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return s.unexpected("',' or '}'")
		}
	}
}

// array walks an array and calls element with each index; element must consume
// the element. field names the array in errors.
func (s *jsonScanner) array(field string, element func(index int) error) error {
	if s.peek() != '[' {
		return s.wrongType(field, "an array")
	}
	s.pos++
	if s.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		if err := element(i); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.unexpected("',' or ']' in " + field)
		}
	}
}

// floats walks an array as array does, and appends its elements to dst, no
// more than limit if that isn't 0. It calls element for those that fill leaves.
func (s *jsonScanner) floats(field string, dst []float64, limit int, element func(dst []float64) ([]float64, error)) ([]float64, error) {
	err := s.array(field, func(int) (err error) {
		if len(dst) == cap(dst) {
			more := s.elements()
			if limit > 0 {
				more = min(more, max(limit-len(dst), 1))
			}
			bigger := make([]float64, len(dst), len(dst)+max(more, len(dst)/4))
			copy(bigger, dst)
			dst = bigger
		}
		room := dst[len(dst):cap(dst)]
		if limit > 0 && len(room) > limit-len(dst) {
			room = room[:max(limit-len(dst), 0)]
		}
		dst = dst[:len(dst)+s.fill(room)]
		dst, err = element(dst)
		return err
	})
	return dst, err
}

// elements returns how many elements the array still has if they are numbers.
// A series that grows as it is read would take five times its memory.
func (s *jsonScanner) elements() int {
	rest := s.text[s.pos:]
	if end := bytes.IndexByte(rest, ']'); end >= 0 {
		rest = rest[:end]
	}
	return min(bytes.Count(rest, []byte{','}), len(rest)/2) + 1 // a number takes a byte, and a comma, where no string is full of these
}

// wrongType consumes a value that is not of the type that field must have, and
// returns the error that says so.
func (s *jsonScanner) wrongType(field, want string) error {
	got, err := s.skip(0)
	if err != nil {
		return err
	}
	return invalidAt(field, -1, "must be %s, not %s", want, got)
}

// number consumes a number and returns its text, which shares the body's
// memory. It returns "" and consumes nothing if the next value is none.
func (s *jsonScanner) number() (text string, err error) {
	switch c := s.peek(); {
	case c == '-', c >= '0' && c <= '9':
	default:
		return "", nil
	}
	start := s.pos
	p, t := s.pos, s.text
	digits := func() bool {
		first := p
		for p < len(t) && t[p] >= '0' && t[p] <= '9' {
			p++
		}
		return p > first
	}
	if t[p] == '-' {
		p++
	}
	switch {
	case p < len(t) && t[p] == '0':
		p++
	case !digits():
		s.pos = p
		return "", s.unexpected("a digit")
	}
	if p < len(t) && t[p] == '.' {
		p++
		if !digits() {
			s.pos = p
			return "", s.unexpected("a digit after the point")
		}
	}
	if p < len(t) && (t[p] == 'e' || t[p] == 'E') {
		p++
		if p < len(t) && (t[p] == '+' || t[p] == '-') {
			p++
		}
		if !digits() {
			s.pos = p
			return "", s.unexpected("a digit of the exponent")
		}
	}
	s.pos = p
	// The number is parsed before the body changes; no copy is needed.
	return unsafe.String(&t[start], p-start), nil
}

// float consumes the number at an index of field and returns the float64
// nearest to it. If the next value is no number it consumes nothing and
// returns false.
func (s *jsonScanner) float(field string, index int) (v float64, ok bool, err error) {
	s.peek()
	if v, end, ok := scanFloat(s.text, s.pos); ok {
		s.pos = end
		return v, true, nil
	}
	text, err := s.number()
	if err != nil || text == "" {
		return 0, false, err
	}
	v, err = parseFloat(text, field, index)
	return v, true, err
}

// parseFloat returns the float64 nearest to a number's text.
func parseFloat(text, field string, index int) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, malformedAt(field, index, "%s is beyond the range of float64", truncate(text))
	}
	return v, nil
}

// parseWhole returns a number's text as a whole number, which may be written
// like 10, 10.0 or 1e1. It looks at the decimals, so that nothing is rounded.
func parseWhole(text, field string, index int) (int64, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrSyntax) { // a point or an exponent
		v, err = parseDecimal(text)
	}
	if err != nil {
		return 0, invalidAt(field, index, "must be a whole number below 2^63, not %s", truncate(text))
	}
	return v, nil
}

// parseDecimal returns a number's text as a whole number, and strconv's errors
// if it is none.
func parseDecimal(text string) (int64, error) {
	mantissa, exponent := text, "0"
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		mantissa, exponent = text[:e], text[e+1:]
	}
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	before, after, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(before+after, "0")
	if digits == "" {
		return 0, nil
	}
	shift, err := strconv.Atoi(exponent)
	if err != nil {
		return 0, err
	}
	digits = strings.TrimRight(digits, "0")
	// The first digit that is not 0 stands this far before the point.
	integral := len(strings.TrimLeft(before, "0")) + shift
	if strings.Trim(before, "0") == "" {
		integral = shift - (len(after) - len(strings.TrimLeft(after, "0")))
	}
	if integral < len(digits) || integral > 19 {
		return 0, strconv.ErrRange
	}
	return strconv.ParseInt(sign+digits+strings.Repeat("0", integral-len(digits)), 10, 64)
}

// string consumes a string and returns what it stands for.
func (s *jsonScanner) string() (string, error) {
	start := s.pos
	escaped, err := s.skipString()
	if err != nil {
		return "", err
	}
	token := s.text[start:s.pos]
	if !escaped {
		return string(token[1 : len(token)-1]), nil
	}
	var value string
	if json.Unmarshal(token, &value) != nil {
		return "", malformed("JSON has a bad escape in the string at byte %d", start)
	}
	return value, nil
}

// skipString consumes a string, checks it, and tells whether it has escapes.
func (s *jsonScanner) skipString() (escaped bool, err error) {
	start := s.pos
	for p := start + 1; p < len(s.text); p++ {
		switch c := s.text[p]; {
		case c == '"':
			if !utf8.Valid(s.text[start:p]) {
				return false, malformed("JSON has a string at byte %d that is not UTF-8", start)
			}
			s.pos = p + 1
			return escaped, nil
		case c == '\\':
			escaped = true
			p++
		case c < ' ':
			return false, malformed("JSON has a control character in the string at byte %d", start)
		}
	}
	return false, malformed("JSON ends within the string at byte %d", start)
}

// skip consumes any value and returns what it is, in words.
func (s *jsonScanner) skip(depth int) (kind string, err error) {
	if depth > maxJSONDepth {
		return "", malformed("JSON is nested deeper than %d levels", maxJSONDepth)
	}
	switch c := s.peek(); c {
	case '"':
		_, err := s.string()
		return "a string", err
	case '[':
		return "an array", s.array("an array", func(int) error {
			_, err := s.skip(depth + 1)
			return err
		})
	case '{':
		s.pos++
		if s.take('}') {
			return "an object", nil
		}
		for {
			if s.peek() != '"' {
				return "", s.unexpected("a key")
			}
			if _, err := s.string(); err != nil {
				return "", err
			}
			if !s.take(':') {
				return "", s.unexpected("':'")
			}
			if _, err := s.skip(depth + 1); err != nil {
				return "", err
			}
			if s.take('}') {
				return "an object", nil
			}
			if !s.take(',') {
				return "", s.unexpected("',' or '}'")
			}
		}
	case 't', 'f', 'n':
		for _, word := range []string{"null", "true", "false"} {
			if rest := s.text[s.pos:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
				s.pos += len(word)
				return word, nil
			}
		}
		return "", s.unexpected("a value")
	}
	text, err := s.number()
	if err == nil && text == "" {
		err = s.unexpected("a value")
	}
	return "a number", err
}
