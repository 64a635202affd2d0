package loadtest

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"texttax/encoding"
	"texttax/encoding/ring"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// serveCall is what a server for tests does: echoes and sweeps in all formats.
func serveCall(w http.ResponseWriter, r *http.Request) {
	codec, err := encoding.ForContentType(r.Header.Get("Content-Type"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := answerTo(codec, r.URL.Path == "/echo", r.URL.Query().Get("dataset"), body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer)
}

func answerTo(codec encoding.Codec, echo bool, dataset string, body []byte) ([]byte, error) {
	var req encoding.Request
	if err := codec.Decode(body, &req); err != nil {
		return nil, err
	}
	if echo {
		return codec.Append(nil, &encoding.Request{Close: req.Close, Packed: req.Packed})
	}
	series := req.Close
	if req.Dataset == gbm42.ID || dataset == gbm42.ID {
		series = gbm42.Close()
	}
	var res kernel.Results
	if err := kernel.Sweep(context.Background(), series, req.Params, kernel.DefaultFee, 0, &res); err != nil {
		return nil, err
	}
	return codec.AppendResults(nil, &res)
}

// serve starts an HTTP server and returns the boundary in front of it.
func serve(t testing.TB, h http.HandlerFunc) *HTTP {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return boundary(t, server.URL)
}

func boundary(t testing.TB, address string) *HTTP {
	t.Helper()
	b, err := ParseBoundary(address)
	if err != nil {
		t.Fatal(err)
	}
	return b.(*HTTP)
}

// serveFrames answers frames from in until it ends.
func serveFrames(in io.Reader, out io.Writer) error {
	buffered := bufio.NewReader(in)
	for {
		var length [4]byte
		if _, err := io.ReadFull(buffered, length[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		body := make([]byte, binary.LittleEndian.Uint32(length[:]))
		if _, err := io.ReadFull(buffered, body); err != nil {
			return err
		}
		answer, err := answerTo(encoding.Octet, body[0] == 1, "", body)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(answer))), answer...)); err != nil {
			return err
		}
	}
}

// listenFrames starts a server of frames.
func listenFrames(t *testing.T, network, address string) string {
	t.Helper()
	overRings := network == "shm"
	if overRings {
		network = "unix"
	}
	l, err := net.Listen(network, address)
	if err == nil && overRings {
		l, err = ring.NewListener(l, ring.Size)
	}
	if err != nil {
		t.Fatal(err)
	}
	serveEach(t, l, func(conn net.Conn) { _ = serveFrames(conn, conn) })
	return l.Addr().String()
}

// serveEach serves each connection in a goroutine and closes it after that, until
// the test ends.
func serveEach(t *testing.T, l net.Listener, serve func(net.Conn)) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
}

// role is the variable that makes a process of this test binary something
// else than tests.
const role = "TEXTTAX_LOADTEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "frame":
		if err := serveFrames(os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		os.Exit(0)
	case "refuse":
		_, _ = io.WriteString(os.Stderr, "no sweep today\n")
		os.Exit(3)
	case "spin":
		//lint:ignore SA5002 it keeps a core busy until it is killed
		for {
		}
	case "generate":
		generate()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// addressVariable tells a generator of its own process where the server is.
const addressVariable = "TEXTTAX_LOADTEST_ADDRESS"

// generate is the generator of TestAGeneratorWithoutACoreSaysSo.
func generate() {
	octet, _ := FormatByName("octet")
	b, err := ParseBoundary(os.Getenv(addressVariable))
	if err != nil {
		panic(err)
	}
	work, err := Demo(2)
	if err != nil {
		panic(err)
	}
	r, err := Run(context.Background(), Plan{
		Scenario: Scenario{b, octet, PerBar, false}, Work: work,
		Connections: 16, Pacer: Constant(20_000), Duration: 2 * time.Second, Timeout: 10 * time.Second,
	})
	if err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		panic(err)
	}
}

// small is work that takes no time.
func small(t testing.TB) Work {
	t.Helper()
	return Work{Close: gbm42.Close()[:2000], Combos: []kernel.Params{kernel.Expand(6), kernel.Expand(20), kernel.Expand(50)}}
}

func format(t testing.TB, name string) Format {
	t.Helper()
	f, err := FormatByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tiny is a plan of echoes of one close.
func tiny(t testing.TB, b Boundary) Plan {
	return Plan{Scenario: Scenario{Boundary: b, Format: format(t, "octet"), Granularity: PerBar}, Work: small(t)}
}
