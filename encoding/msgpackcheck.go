package encoding

import (
	"encoding/binary"
	"math"
)

// The library reads the envelope of a MessagePack body, but it believes the
// lengths that it reads: six bytes make it allocate gigabytes, and nested
// arrays overflow its stack. So every body is walked here first, and reaches
// the library only if each length fits into the bytes that are left.

// maxMsgpackDepth bounds the nesting of values. What we read needs three.
const maxMsgpackDepth = 8

// msgpackKind is what a value is, as far as we tell values apart.
type msgpackKind uint8

const (
	msgpackNil msgpackKind = iota
	msgpackBool
	msgpackInt
	msgpackUint
	msgpackFloat32
	msgpackFloat64
	msgpackString
	msgpackBin
	msgpackArray
	msgpackMap
	msgpackExt
)

var msgpackKindWords = [...]string{
	"nil", "a boolean", "an integer", "an integer", "a number", "a number",
	"a string", "binary data", "an array", "a map", "an extension",
}

// msgpackNoNumber says of each kind that it is no number. The texts are made
// once, since a body can hold millions of such elements.
var msgpackNoNumber = func() (texts [len(msgpackKindWords)]string) {
	for kind, words := range msgpackKindWords {
		texts[kind] = "must be a number, not " + words
	}
	return texts
}()

// String returns the kind in words.
func (k msgpackKind) String() string { return msgpackKindWords[k] }

// msgpackHead is the first part of a value: its type, and a number or the
// length of what follows.
type msgpackHead struct {
	kind msgpackKind
	size int    // bytes of the head itself
	bits uint64 // of numbers: the value, sign-extended or as IEEE bits; else a length
}

// payload returns the number of bytes that belong to the value after its
// head, not counting the elements of arrays and maps.
func (h *msgpackHead) payload() uint64 {
	switch h.kind {
	case msgpackString, msgpackBin:
		return h.bits
	case msgpackExt:
		return h.bits + 1 // the type of the extension
	}
	return 0
}

// children returns the number of values that follow as elements.
func (h *msgpackHead) children() uint64 {
	switch h.kind {
	case msgpackArray:
		return h.bits
	case msgpackMap:
		return 2 * h.bits
	}
	return 0
}

// readMsgpackHead reads the head of the value that b begins with. It returns
// false if b is cut short or begins with the byte that MessagePack never uses.
func readMsgpackHead(b []byte) (msgpackHead, bool) {
	if len(b) == 0 {
		return msgpackHead{}, false
	}
	c := b[0]
	switch {
	case c <= 0x7f:
		return msgpackHead{msgpackUint, 1, uint64(c)}, true
	case c >= 0xe0:
		return msgpackHead{msgpackInt, 1, uint64(int64(int8(c)))}, true
	case c <= 0x8f:
		return msgpackHead{msgpackMap, 1, uint64(c & 0x0f)}, true
	case c <= 0x9f:
		return msgpackHead{msgpackArray, 1, uint64(c & 0x0f)}, true
	case c <= 0xbf:
		return msgpackHead{msgpackString, 1, uint64(c & 0x1f)}, true
	}
	form := msgpackForms[c-0xc0]
	if form.size == 0 || len(b) < form.size {
		return msgpackHead{}, false
	}
	h := msgpackHead{kind: form.kind, size: form.size, bits: form.fixed}
	switch form.size {
	case 2:
		h.bits = uint64(b[1])
	case 3:
		h.bits = uint64(binary.BigEndian.Uint16(b[1:]))
	case 5:
		h.bits = uint64(binary.BigEndian.Uint32(b[1:]))
	case 9:
		h.bits = binary.BigEndian.Uint64(b[1:])
	}
	if h.kind == msgpackInt { // extend the sign
		shift := 64 - 8*(form.size-1)
		h.bits = uint64(int64(h.bits<<shift) >> shift)
	}
	return h, true
}

// msgpackForms are the forms of the heads 0xc0 to 0xdf. A size of 0 marks the
// one that is never used.
var msgpackForms = [32]struct {
	kind  msgpackKind
	size  int
	fixed uint64 // the length, if the head does not carry it
}{
	0x00: {msgpackNil, 1, 0},
	0x02: {msgpackBool, 1, 0}, 0x03: {msgpackBool, 1, 1},
	0x04: {msgpackBin, 2, 0}, 0x05: {msgpackBin, 3, 0}, 0x06: {msgpackBin, 5, 0},
	0x07: {msgpackExt, 2, 0}, 0x08: {msgpackExt, 3, 0}, 0x09: {msgpackExt, 5, 0},
	0x0a: {msgpackFloat32, 5, 0}, 0x0b: {msgpackFloat64, 9, 0},
	0x0c: {msgpackUint, 2, 0}, 0x0d: {msgpackUint, 3, 0}, 0x0e: {msgpackUint, 5, 0}, 0x0f: {msgpackUint, 9, 0},
	0x10: {msgpackInt, 2, 0}, 0x11: {msgpackInt, 3, 0}, 0x12: {msgpackInt, 5, 0}, 0x13: {msgpackInt, 9, 0},
	0x14: {msgpackExt, 1, 1}, 0x15: {msgpackExt, 1, 2}, 0x16: {msgpackExt, 1, 4}, 0x17: {msgpackExt, 1, 8}, 0x18: {msgpackExt, 1, 16},
	0x19: {msgpackString, 2, 0}, 0x1a: {msgpackString, 3, 0}, 0x1b: {msgpackString, 5, 0},
	0x1c: {msgpackArray, 3, 0}, 0x1d: {msgpackArray, 5, 0},
	0x1e: {msgpackMap, 3, 0}, 0x1f: {msgpackMap, 5, 0},
}

// checkMsgpack checks that body is exactly one value, with every length within
// the bytes that are left and no nesting deeper than maxMsgpackDepth.
func checkMsgpack(body []byte) error {
	rest, err := checkMsgpackValue(body, len(body), 0)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return malformed("MessagePack has %d bytes after its value", len(rest))
	}
	return nil
}

// checkMsgpackValue checks the value that b begins with and returns what
// follows it. total is the length of the body, for messages.
func checkMsgpackValue(b []byte, total, depth int) ([]byte, error) {
	h, ok := readMsgpackHead(b)
	if !ok {
		if len(b) > 0 && b[0] == 0xc1 {
			return nil, malformed("MessagePack has the unused byte 0xc1 at byte %d", total-len(b))
		}
		return nil, malformed("MessagePack ends within a value at byte %d", total-len(b))
	}
	at := total - len(b)
	b = b[h.size:]
	// Every element takes a byte at least.
	if h.payload() > uint64(len(b)) || h.children() > uint64(len(b)) {
		return nil, malformed("MessagePack has %s at byte %d that claims to be longer than the body", h.kind, at)
	}
	b = b[h.payload():]
	if h.children() == 0 {
		return b, nil
	}
	if depth >= maxMsgpackDepth {
		return nil, malformed("MessagePack is nested deeper than %d levels", maxMsgpackDepth)
	}
	for n := h.children(); n > 0; n-- {
		// Float64s, the common element, are passed over without a call for each.
		if len(b) >= 9 && b[0] == msgpackFloat64Tag {
			run := float64Run(b, n)
			b = b[9*run:]
			if n -= uint64(run); n == 0 {
				break
			}
		}
		var err error
		if b, err = checkMsgpackValue(b, total, depth+1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// msgpackFloat64Tag begins a float64: nine bytes with those of the number.
const msgpackFloat64Tag = 0xcb

// float64Run returns how many of the first n values of b are float64s, one
// after the other.
func float64Run(b []byte, n uint64) int {
	most := int(min(n, uint64(len(b)/9)))
	run := 0
	for ; run+8 <= most; run += 8 {
		// A branch for each would cost more than to look at all.
		v := (*[8 * 9]byte)(b[9*run:])
		if v[0]&v[9]&v[18]&v[27]&v[36]&v[45]&v[54]&v[63] != msgpackFloat64Tag ||
			v[0]|v[9]|v[18]|v[27]|v[36]|v[45]|v[54]|v[63] != msgpackFloat64Tag {
			break
		}
	}
	for run < most && b[9*run] == msgpackFloat64Tag {
		run++
	}
	return run
}

// float64 returns a number as a float64. detail says why that can't be, if so.
func (h *msgpackHead) float64() (v float64, detail string) {
	exact := true
	switch h.kind {
	case msgpackFloat64:
		return math.Float64frombits(h.bits), ""
	case msgpackFloat32:
		return widenFloat32(uint32(h.bits)), ""
	case msgpackInt:
		v, exact = exactInt64(int64(h.bits))
	case msgpackUint:
		v, exact = exactUint64(h.bits)
	default:
		return math.NaN(), msgpackNoNumber[h.kind]
	}
	if !exact {
		return math.NaN(), "is an integer that float64 can't hold exactly"
	}
	return v, ""
}

// whole returns a number as a whole number. detail says why that can't be, if
// so.
func (h *msgpackHead) whole() (v int64, detail string) {
	ok := true
	switch h.kind {
	case msgpackInt:
		return int64(h.bits), ""
	case msgpackUint:
		v, ok = int64(h.bits), h.bits <= math.MaxInt64
	case msgpackFloat32, msgpackFloat64:
		f, _ := h.float64()
		v, ok = wholeInt64(f)
	default:
		return 0, "must be a whole number, not " + h.kind.String()
	}
	if !ok {
		return 0, "must be a whole number below 2^63"
	}
	return v, ""
}
