package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	kgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"texttax/encoding"
	"texttax/middleware"
)

// acceptedEncodings are the content encodings of requests.
const acceptedEncodings = "gzip, zstd"

// maxZstdWindow bounds what a zstd frame can make its decoder allocate. It is
// what RFC 8878 tells decoders to support at least.
const maxZstdWindow = 8 << 20

// readBody reads the request's body into memory, its content encoding undone,
// to where codec can decode it in place. It gives up when ctx ends.
func (a *API) readBody(ctx context.Context, w http.ResponseWriter, r *http.Request, ex *middleware.Exchange, codec encoding.Codec, c *call) error {
	c.wire = wireReader{body: r.Body, exchange: ex}
	wire := &c.wire
	// Of no bytes in HTTP/1 nothing is awaited, and to set a deadline and lift it
	// costs more than all else here. In HTTP/2 the end of them may be.
	if r.ContentLength != 0 || r.ProtoMajor != 1 {
		wire.pace = pace{Deadlines: a.config.Deadlines, control: http.NewResponseController(w)}
		wire.pace.end, _ = ctx.Deadline()
	}
	defer wire.pace.done()
	in, length := io.Reader(wire), r.ContentLength
	coding := contentCoding(r.Header)
	switch coding {
	case "":
	case "gzip", "x-gzip":
		z := &gzipReader{wire: wire}
		defer z.release()
		in, length = z, -1
	case "zstd":
		z := &zstdReader{wire: wire}
		defer z.release()
		in, length = z, -1
	default:
		return refuse(unsupportedCoding, fmt.Sprintf("content encoding %.64q is not supported; supported is one of %s", coding, acceptedEncodings))
	}
	decoding := coding != ""
	if decoding {
		// The clock goes back to where it was when the body has been read.
		defer ex.Clock.Enter(ex.Clock.Enter(middleware.Decompress))
	}
	err := c.in.read(in, length, a.config.Limits.BodyBytes, encoding.BodyOffset(codec, length), func(n int) error {
		return c.reserved.grow(ctx, n, ex)
	})
	if err != nil {
		return a.bodyError(err, wire, r, decoding)
	}
	return nil
}

// contentCoding returns the request's content encoding in lower case, "" for
// none. Several are given as they are, joined by commas.
func contentCoding(header http.Header) string {
	values := header["Content-Encoding"]
	if len(values) == 0 {
		return ""
	}
	var codings []string
	for element := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if coding := strings.ToLower(strings.TrimSpace(element)); coding != "" && coding != "identity" {
			codings = append(codings, coding)
		}
	}
	return strings.Join(codings, ", ")
}

// bodyError says why a body could not be read.
func (a *API) bodyError(err error, wire *wireReader, r *http.Request, decoding bool) error {
	var tooLarge *http.MaxBytesError
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return refused
	// In the trailer of a body in chunks net/http has other words for it.
	case errors.Is(wire.failure, os.ErrDeadlineExceeded), wire.failure != nil && wire.pace.passed():
		if wire.pace.ended() { // the context tells no cause: net/http has ended it too
			return tooLate()
		}
		return refuse(bodyTooSlow, fmt.Sprintf("beyond the first %v, a body must come at %d bytes a second", a.config.Deadlines.Grace, a.config.Deadlines.Rate))
	case errors.Is(err, errOverLimit):
		undone := ""
		if decoding {
			undone = " once its content encoding is undone"
		}
		return refuse(bodyTooLarge, fmt.Sprintf("the body is over the limit of %d bytes%s", a.config.Limits.BodyBytes, undone))
	case errors.As(err, &tooLarge):
		return tooLarge
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return refuse(unsupportedCoding, fmt.Sprintf("the zstd frame needs a window of more than %d bytes, which levels above 19 do", maxZstdWindow))
	case wire.failure == nil && decoding:
		return refuse(malformedBody, "the body is not what its content encoding says, or is cut short")
	case errors.Is(wire.failure, io.ErrUnexpectedEOF) && r.ContentLength >= 0:
		return refuse(malformedBody, fmt.Sprintf("the body ended after %d of %d bytes", wire.exchange.BytesIn, r.ContentLength))
	case r.Context().Err() != nil:
		return &refusal{reason: clientGone, index: -1, cause: err}
	}
	// Bad chunks, or a broken connection: the server can't tell them apart
	// for certain, and an answer does no harm to who is gone.
	return refuse(malformedBody, "the body could not be read to its end")
}

// wireReader reads the body off the wire: its time is transit.
type wireReader struct {
	body     io.Reader
	exchange *middleware.Exchange
	failure  error // what ended the body, if that was not its end
	pace     pace
}

func (w *wireReader) Read(p []byte) (int, error) {
	w.pace.next(w.exchange.BytesIn)
	around := w.exchange.Clock.Enter(middleware.TransitIn)
	n, err := w.body.Read(p)
	w.exchange.Clock.Enter(around)
	w.exchange.BytesIn += int64(n)
	if errors.Is(err, io.EOF) {
		w.exchange.BodyRead = true
	} else if err != nil {
		w.failure = err
	}
	return n, err
}

var (
	gzipReaders sync.Pool
	zstdReaders sync.Pool
)

// gzipReader undoes gzip. Its decoder is made, or taken from the pool, at the
// first read, since that already reads from the wire.
type gzipReader struct {
	wire *wireReader
	z    *kgzip.Reader
}

func (g *gzipReader) Read(p []byte) (int, error) {
	if g.z == nil {
		pooled, ok := gzipReaders.Get().(*kgzip.Reader)
		if !ok {
			pooled = new(kgzip.Reader)
		}
		g.z = pooled
		if err := g.z.Reset(g.wire); err != nil {
			return 0, noEOF(err)
		}
	}
	return g.z.Read(p)
}

func (g *gzipReader) release() {
	if g.z != nil {
		_ = g.z.Reset(strings.NewReader("")) // fails, and lets go of the request
		gzipReaders.Put(g.z)
	}
}

// zstdReader undoes zstd, in the goroutine that reads.
type zstdReader struct {
	wire *wireReader
	z    *zstd.Decoder
}

func (s *zstdReader) Read(p []byte) (int, error) {
	if s.z == nil {
		pooled, ok := zstdReaders.Get().(*zstd.Decoder)
		if !ok {
			made, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
			if err != nil {
				return 0, err
			}
			pooled = made
		}
		s.z = pooled
		if err := s.z.Reset(s.wire); err != nil {
			return 0, noEOF(err)
		}
	}
	n, err := s.z.Read(p)
	if errors.Is(err, io.EOF) && s.wire.exchange.BytesIn == 0 {
		err = noEOF(err) // to zstd no frame at all is a stream too
	}
	return n, err
}

func (s *zstdReader) release() {
	if s.z == nil {
		return
	}
	// Let go of the request, whose body must not be read any more.
	if s.z.Reset(nil) == nil {
		zstdReaders.Put(s.z)
	}
}

// noEOF makes an empty compressed body an error: it is no empty gzip file.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
