package loadtest

import (
	"fmt"
	"slices"
	"strings"

	"texttax/encoding"
)

// A Format is a way to write bodies.
type Format struct {
	Name      string // in reports and metrics
	MediaType string // the Content-Type that asks for it, in both directions
	Codec     encoding.Codec
}

var formats = []Format{
	{"json", "application/json", encoding.JSON},
	{"json-std", "application/json; codec=std", encoding.JSONStd},
	{"msgpack", "application/vnd.msgpack", encoding.MessagePack},
	{"msgpack-bin", "application/vnd.msgpack; numbers=bin", encoding.MessagePackBin},
	{"arrow", "application/vnd.apache.arrow.stream", encoding.Arrow},
	{"octet", "application/octet-stream", encoding.Octet},
}

// Formats lists all formats, from text to raw bytes.
func Formats() []Format { return slices.Clone(formats) }

// FormatNames lists the names of all formats.
func FormatNames() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.Name
	}
	return names
}

// FormatByName returns the format of that name.
func FormatByName(name string) (Format, error) {
	for _, f := range formats {
		if f.Name == name {
			return f, nil
		}
	}
	return Format{}, fmt.Errorf("there is no format %q; there are %s", name, strings.Join(FormatNames(), ", "))
}
