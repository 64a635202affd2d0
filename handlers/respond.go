package handlers

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	kgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"texttax/encoding"
	"texttax/middleware"
)

// Compression says which answers may be compressed, for clients that ask for
// it in Accept-Encoding.
type Compression string

const (
	CompressNone Compression = "off"
	CompressText Compression = "text" // JSON only
	CompressAll  Compression = "all"  // the binary formats too
)

// smallestCompressed is the size below which compression saves no packet.
const smallestCompressed = 1400

// send answers with body in the format of codec, compressed if the server and
// the client agree on it.
func (a *API) send(w http.ResponseWriter, r *http.Request, codec encoding.Codec, body []byte) {
	coding := a.answerCoding(r, codec, len(body))
	if coding == "" {
		a.write(w, codec.MediaType(), http.StatusOK, body)
		return
	}
	middleware.From(w).Clock.Enter(middleware.Compress)
	packed := newBuffer(len(body) / 2)
	defer packed.release()
	packed.set(compress(packed.empty(), body, coding))
	w.Header().Set("Content-Encoding", coding)
	a.write(w, codec.MediaType(), http.StatusOK, packed.bytes)
}

// answerCoding returns the content encoding for an answer, "" for none.
func (a *API) answerCoding(r *http.Request, codec encoding.Codec, length int) string {
	text := codec.MediaType() == encoding.JSON.MediaType()
	if !a.config.Compression.covers(text) || length < smallestCompressed {
		return ""
	}
	return chooseCoding(r.Header["Accept-Encoding"])
}

// covers tells whether answers of text, or else of bytes, may be compressed.
func (c Compression) covers(text bool) bool { return c == CompressAll || c == CompressText && text }

func (a *API) compresses() bool {
	return a.config.Compression.covers(true)
}

// write sends one whole answer and waits until the operating system has it. An
// answer without a body has no mediaType.
func (a *API) write(w http.ResponseWriter, mediaType string, status int, body []byte) {
	ex := middleware.From(w)
	// First, so that the phases before it end with what the header says.
	ex.Clock.Enter(middleware.TransitOut)
	control := http.NewResponseController(w)
	if d := a.config.Deadlines; d.Grace > 0 {
		// A connection that has no deadlines can't be held to one.
		_ = control.SetWriteDeadline(time.Now().Add(d.Grace + d.allowance(int64(len(body)))))
		defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	}
	header := w.Header()
	// One allocation for the three, in each the room for just its own value.
	values := []string{mediaType, strconv.Itoa(len(body)), ex.Clock.ServerTiming()}
	if mediaType != "" {
		header["Content-Type"] = values[0:1:1]
	}
	if status != http.StatusNoContent && status != http.StatusNotModified { // which have no body to tell the length of
		header["Content-Length"] = values[1:2:2]
	}
	header["Server-Timing"] = values[2:3:3]
	w.WriteHeader(status)
	var err error
	if len(body) > 0 { // HTTP/2 refuses even nothing where there must be no body
		_, err = w.Write(body)
	}
	if err == nil {
		// Without it a small answer leaves after the handler has returned, and
		// transit_out would not see it.
		err = control.Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		// The answer broke off: so must the connection.
		ex.Rejection, ex.Status = string(clientGone), middleware.StatusClientGone
		panic(http.ErrAbortHandler)
	}
}

// negotiated says in the answer, whatever it will be, which headers of the
// request it depends on.
func (a *API) negotiated(w http.ResponseWriter) {
	vary := varyAccept
	if a.compresses() {
		vary = varyBoth
	}
	if others := w.Header()["Vary"]; len(others) > 0 { // such as Origin
		vary = append(others, vary...)
	}
	w.Header()["Vary"] = vary
}

// Values of the Vary header. net/http only reads them.
var (
	varyAccept = []string{"Accept"}
	varyBoth   = []string{"Accept, Accept-Encoding"}
)

// chooseCoding returns the content encoding that the client likes best: zstd
// or gzip, or "" for none. Among equals zstd wins, which is the faster, and
// any wins over none.
func chooseCoding(accept []string) string {
	quality := map[string]float64{}
	for _, e := range encoding.ParseAccept(accept) {
		quality[e.Name] = e.Quality
	}
	of := func(coding string) float64 {
		if q, named := quality[coding]; named {
			return q
		}
		return quality["*"]
	}
	switch zstd, gzip, identity := of("zstd"), of("gzip"), quality["identity"]; {
	case zstd > 0 && zstd >= gzip && zstd >= identity:
		return "zstd"
	case gzip > 0 && gzip >= identity:
		return "gzip"
	}
	return ""
}

var (
	gzipWriters sync.Pool
	// zstdWriter has no state between calls of EncodeAll.
	zstdWriter = sync.OnceValue(func() *zstd.Encoder {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			panic(fmt.Sprintf("zstd refuses constant options: %v", err))
		}
		return z
	})
)

// compress appends body to dst in a content encoding.
func compress(dst, body []byte, coding string) []byte {
	if coding == "zstd" {
		return zstdWriter().EncodeAll(body, dst)
	}
	out := bytes.NewBuffer(dst)
	z, ok := gzipWriters.Get().(*kgzip.Writer)
	if !ok {
		z, _ = kgzip.NewWriterLevel(out, kgzip.BestSpeed) // a constant level is valid
	}
	z.Reset(out)
	// Writing to memory does not fail.
	_, _ = z.Write(body)
	_ = z.Close()
	gzipWriters.Put(z)
	return out.Bytes()
}
