package encoding

import (
	"errors"
	"strings"
	"testing"
)

func TestContentTypeChoosesTheCodec(t *testing.T) {
	for header, want := range map[string]Codec{
		"":                                              Octet, // as Python's requests sends raw bytes
		"application/json":                              JSON,
		"Application/JSON;charset=UTF-8":                JSON,
		`application/json; charset="utf-8"`:             JSON,
		"application/json; charset=us-ascii":            JSON,
		"application/json; codec=std":                   JSONStd,
		"application/json;charset=utf-8;CODEC=STD":      JSONStd,
		"application/json; profile=x":                   JSON,
		"application/vnd.msgpack":                       MessagePack,
		"application/msgpack":                           MessagePack,
		"application/x-msgpack":                         MessagePack,
		"application/x-msgpack; numbers=bin":            MessagePackBin,
		"application/vnd.apache.arrow.stream":           Arrow,
		"application/octet-stream":                      Octet,
		" application/octet-stream ; charset=binary":    Octet,
		"APPLICATION/VND.APACHE.ARROW.STREAM":           Arrow,
		"application/vnd.apache.arrow.stream;codec=std": Arrow,
	} {
		if got, err := ForContentType(header); err != nil || got != want {
			t.Errorf("%q: %v, %v", header, got, err)
		}
	}
}

func TestOtherContentTypesAreRefusedWithAListOfTheSupported(t *testing.T) {
	for _, header := range []string{
		"multipart/form-data; boundary=application/json", "text/plain", "application/json2", "json", "*/*", "application/*",
		"application/json; charset=latin-1", "application/json; codec=fast", "application/msgpack; numbers=text",
		"application/x-www-form-urlencoded", "application/json;;", "application/json; a=1; a=2", ";", "\xff", strings.Repeat("a", 100_000),
		"application/vnd.apache.arrow.file",
	} {
		_, err := ForContentType(header)
		var refusal *NegotiationError
		if header == "application/json;;" && err == nil {
			continue // mime.ParseMediaType forgives it, and it is plain what is meant
		}
		if !errors.As(err, &refusal) || !strings.Contains(refusal.Detail, Supported()) || len(refusal.Detail) > 1000 {
			t.Errorf("%.100q: %v", header, err)
		}
	}
}

func TestAcceptChoosesTheAnswer(t *testing.T) {
	for _, test := range []struct {
		accept  string
		request Codec
		want    Codec
	}{
		{"*/*", MessagePack, MessagePack},
		{"", Arrow, Arrow},
		{"application/json;q=0.1, application/msgpack", Octet, MessagePack},
		{"application/json", Octet, JSON},
		{"application/json", JSONStd, JSONStd},
		{"application/json; codec=std", Octet, JSONStd},
		{"application/json; codec=std, application/json; q=0.5", Octet, JSONStd},
		{"application/json; codec=std; q=0.5, application/json", JSONStd, JSON},
		{"APPLICATION/JSON", Octet, JSON},
		{"application/json; charset=utf-8", Octet, JSON},
		{"application/x-msgpack", JSON, MessagePack},
		{"application/msgpack;numbers=bin", JSON, MessagePackBin},
		{"application/msgpack", MessagePackBin, MessagePackBin},
		{"application/*", Arrow, Arrow},
		{"application/*;q=0.5, application/octet-stream", JSON, Octet},
		{"text/html, */*;q=0.1", Octet, Octet},
		{"text/html, application/json;q=0.2, application/octet-stream;q=0.1", Arrow, JSON},
		{"application/json;q=0, */*", JSON, MessagePack},
		{"application/json;q=0, */*", Arrow, Arrow},
		{"*/*;q=0.1, application/json;q=0", JSON, MessagePack},
		{"application/json;q=1.000, application/msgpack;q=0.999", Octet, JSON},
		{`application/json;ext="a,b";q=0.1, application/msgpack;q=0.2`, Octet, MessagePack},
		{"application/json;q=2, application/msgpack;q=0.1", Octet, MessagePack},
		{"nonsense, application/vnd.apache.arrow.stream", JSON, Arrow},
	} {
		got, err := ForAccept([]string{test.accept}, test.request)
		if err != nil || got != test.want {
			t.Errorf("Accept %q of a request in %s: %v, %v; want %s", test.accept, codecName(test.request), got, err, codecName(test.want))
		}
	}
	if got, err := ForAccept(nil, Arrow); err != nil || got != Arrow {
		t.Errorf("no Accept: %v, %v", got, err)
	}
	if got, err := ForAccept([]string{"application/json;q=0.1", "application/msgpack"}, Arrow); err != nil || got != MessagePack {
		t.Errorf("two Accept headers: %v, %v", got, err)
	}
}

func TestAcceptThatExcludesAllIsRefused(t *testing.T) {
	for _, accept := range []string{
		"application/json2", "text/html", "application/json;q=0", "*/*;q=0", "nonsense", ",", "application/json;q=x", "application/json;q=NaN",
		"application/json;codec=fast",
	} {
		if got, err := ForAccept([]string{accept}, JSON); err == nil {
			t.Errorf("Accept %q gives %s", accept, codecName(got))
		}
	}
}

func FuzzNegotiation(f *testing.F) {
	for _, seed := range []string{"application/json;q=0.1, */*", `a/b;c="d,e"`, "application/json;codec=std", "*/*;q=0", "\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		codec, err := ForContentType(header)
		if (codec == nil) == (err == nil) {
			t.Fatalf("Content-Type %q: %v, %v", header, codec, err)
		}
		codec, err = ForAccept([]string{header}, JSON)
		if (codec == nil) == (err == nil) {
			t.Fatalf("Accept %q: %v, %v", header, codec, err)
		}
	})
}
