package encoding

import (
	"mime"
	"strconv"
	"strings"
)

// mediaTypes are the media types of requests, each with the codec it stands
// for. Among the types of one codec the first is the one that is sent.
var mediaTypes = []struct {
	name  string
	codec Codec
}{
	{"application/json", JSON},
	{"application/vnd.msgpack", MessagePack},
	{"application/msgpack", MessagePack},
	{"application/x-msgpack", MessagePack},
	{"application/vnd.apache.arrow.stream", Arrow},
	{"application/octet-stream", Octet},
}

// variants are codecs that a parameter of the media type chooses.
var variants = []struct {
	base             Codec
	parameter, value string
	codec            Codec
}{
	{JSON, "codec", "std", JSONStd},
	{MessagePack, "numbers", "bin", MessagePackBin},
}

// offered are all codecs that an answer can be in. Where a client likes
// several alike and none is the request's own, the first wins.
var offered = []Codec{JSON, MessagePack, Arrow, Octet, JSONStd, MessagePackBin}

// Names are the names of all formats: the closed set of the format label.
func Names() []string {
	return []string{JSON.Name(), JSONStd.Name(), MessagePack.Name(), Arrow.Name(), Octet.Name()}
}

// Supported lists the media types that are accepted, in the syntax of the
// Accept-Post header.
func Supported() string {
	names := make([]string, len(mediaTypes))
	for i, m := range mediaTypes {
		names[i] = m.name
	}
	return strings.Join(names, ", ")
}

// NegotiationError says why no codec fits a Content-Type or Accept header.
type NegotiationError struct{ Detail string }

func (e *NegotiationError) Error() string { return e.Detail }

// ForContentType returns the codec that a Content-Type header names, or a
// *NegotiationError. A missing header means application/octet-stream, as
// RFC 9110 section 8.3 allows: Python's requests sends raw bytes so.
func ForContentType(header string) (Codec, error) {
	if header == "" {
		return Octet, nil
	}
	// The common case needs no parsing and no allocation.
	for i := range mediaTypes {
		if mediaTypes[i].name == header {
			return mediaTypes[i].codec, nil
		}
	}
	name, parameters, err := mime.ParseMediaType(header)
	if err != nil {
		return nil, unsupportedType("the Content-Type can't be parsed")
	}
	base := forName(name)
	if base == nil {
		hint := ""
		if name == "application/x-www-form-urlencoded" {
			hint = ` (curl sends that by itself: say what it is, with -H 'Content-Type: application/json' or -H 'Content-Type: application/octet-stream')`
		}
		return nil, unsupportedType(strconv.Quote(truncate(name)) + " is not supported" + hint)
	}
	codec := base
	for key, value := range parameters {
		switch variant := forParameter(base, key, value); {
		case variant != nil:
			codec = variant
		case key == "charset" && base == JSON:
			// RFC 8259 knows only UTF-8, of which ASCII is a part.
			if !strings.EqualFold(value, "utf-8") && !strings.EqualFold(value, "us-ascii") {
				return nil, unsupportedType("JSON must be UTF-8, not " + strconv.Quote(truncate(value)))
			}
		case definesVariant(base, key):
			return nil, unsupportedType("the parameter " + key + "=" + strconv.Quote(truncate(value)) + " is not supported")
		}
	}
	return codec, nil
}

func unsupportedType(what string) *NegotiationError {
	return &NegotiationError{what + "; supported are " + Supported() +
		", with the parameters codec=std for JSON and numbers=bin for MessagePack"}
}

// ForAccept returns the codec that the Accept headers like best, with the
// request's own codec first among equals, or a *NegotiationError if they
// exclude all. No header at all means the request's codec.
func ForAccept(accept []string, request Codec) (Codec, error) {
	if len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == "") {
		return request, nil
	}
	var ranges []mediaRange
	for _, e := range ParseAccept(accept) {
		if r, ok := rangeOf(e); ok {
			ranges = append(ranges, r)
		}
	}
	best, bestQuality := Codec(nil), 0.0
	if q := quality(ranges, request); q > 0 {
		best, bestQuality = request, q
	}
	for _, codec := range offered {
		if q := quality(ranges, codec); q > bestQuality {
			best, bestQuality = codec, q
		}
	}
	if best == nil {
		return nil, &NegotiationError{"no format of the Accept header can be sent; supported are " + Supported()}
	}
	return best, nil
}

// A mediaRange is one element of an Accept header.
type mediaRange struct {
	any         bool  // */*
	application bool  // application/*
	codec       Codec // of a full media type; nil if it is none of ours
	variant     bool  // a parameter chose the codec
	quality     float64
}

// specificity orders ranges as RFC 9110 section 12.5.1 does. It is 0 if the
// range does not match codec.
func (r *mediaRange) specificity(codec Codec) int {
	switch {
	case r.any:
		return 1
	case r.application:
		return 2
	case r.codec == codec && r.variant:
		return 4
	case r.codec == codec || r.codec == baseOf(codec) && !r.variant:
		return 3
	}
	return 0
}

// quality returns the q-value of the most specific range that matches codec,
// 0 if none does.
func quality(ranges []mediaRange, codec Codec) float64 {
	q, top := 0.0, 0
	for i := range ranges {
		if s := ranges[i].specificity(codec); s > top || s == top && s > 0 && ranges[i].quality > q {
			q, top = ranges[i].quality, s
		}
	}
	return q
}

// rangeOf returns what an element of an Accept header asks for, and false if
// that is nothing of ours.
func rangeOf(e AcceptElement) (mediaRange, bool) {
	r := mediaRange{any: e.Name == "*/*", application: e.Name == "application/*", codec: forName(e.Name), quality: e.Quality}
	if r.codec == nil {
		return r, r.any || r.application
	}
	base := r.codec
	for key, value := range e.Parameters {
		if variant := forParameter(base, key, value); variant != nil {
			r.codec, r.variant = variant, true
		} else if definesVariant(base, key) {
			return mediaRange{}, false
		}
	}
	return r, true
}

// AcceptElement is one element of a header such as Accept or Accept-Encoding.
type AcceptElement struct {
	Name       string            // in lower case
	Parameters map[string]string // by name in lower case, without q
	Quality    float64           // 0 to 1
}

// ParseAccept reads headers of the syntax of RFC 9110 section 12.4: elements
// with parameters, of which q is the quality, 1 if it is not given. Elements
// that can't be parsed, or whose quality is no number from 0 to 1, are left
// out.
func ParseAccept(headers []string) []AcceptElement {
	var elements []AcceptElement
	for _, header := range headers {
		for text := range splitElements(header) {
			name, parameters, err := mime.ParseMediaType(text)
			if err != nil {
				continue
			}
			quality := 1.0
			if q, given := parameters["q"]; given {
				if quality, err = strconv.ParseFloat(q, 64); err != nil || !(quality >= 0 && quality <= 1) {
					continue
				}
				delete(parameters, "q")
			}
			elements = append(elements, AcceptElement{name, parameters, quality})
		}
	}
	return elements
}

func forName(name string) Codec {
	for i := range mediaTypes {
		if mediaTypes[i].name == name {
			return mediaTypes[i].codec
		}
	}
	return nil
}

func forParameter(base Codec, parameter, value string) Codec {
	for _, v := range variants {
		if v.base == base && v.parameter == parameter && strings.EqualFold(v.value, value) {
			return v.codec
		}
	}
	return nil
}

func definesVariant(base Codec, parameter string) bool {
	for _, v := range variants {
		if v.base == base && v.parameter == parameter {
			return true
		}
	}
	return false
}

func baseOf(codec Codec) Codec {
	for _, v := range variants {
		if v.codec == codec {
			return v.base
		}
	}
	return codec
}

// splitElements yields the comma-separated elements of a header value. Commas
// within quoted strings do not separate.
func splitElements(header string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, quoted := 0, false
		for i := 0; i < len(header); i++ {
			switch {
			case quoted && header[i] == '\\':
				i++
			case header[i] == '"':
				quoted = !quoted
			case header[i] == ',' && !quoted:
				if !yield(header[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(header[start:])
	}
}

// truncate shortens what a client sent, for use in an answer to it.
func truncate(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
