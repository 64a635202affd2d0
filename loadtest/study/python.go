package study

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"texttax/encoding"
)

//go:embed tax.py
var taxScript string

// python is a Python process that measures its own formats when asked.
type python struct {
	process *exec.Cmd
	ask     io.WriteCloser
	answers *bufio.Reader
	series  string // the file that the series is in
	Version struct {
		Python string `json:"python"`
		Numpy  string `json:"numpy"`
	}
}

// startPython starts the interpreter with the series. It fails if that has no
// numpy.
func startPython(ctx context.Context, interpreter string, series []float64) (*python, error) {
	path, err := exec.LookPath(interpreter)
	if err != nil {
		return nil, err
	}
	raw, err := encoding.Octet.Append(nil, &encoding.Request{Close: series})
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "texttax-*.f64")
	if err != nil {
		return nil, err
	}
	p := &python{series: file.Name()}
	_, err = file.Write(raw)
	if err = errors.Join(err, file.Close()); err == nil {
		err = p.start(ctx, path)
	}
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// start starts the interpreter and waits until it is ready.
func (p *python) start(ctx context.Context, path string) error {
	var complaint strings.Builder
	process := exec.CommandContext(ctx, path, "-c", taxScript, p.series)
	process.Stderr = &complaint
	ask, err := process.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	p.process, p.ask, p.answers = process, ask, bufio.NewReader(stdout)
	if err := p.answer(&p.Version); err != nil {
		_ = ask.Close()
		_ = process.Wait() // so that all of the complaint is there
		if lines := strings.Split(strings.TrimSpace(complaint.String()), "\n"); lines[0] != "" {
			err = errors.New(lines[len(lines)-1]) // which names the exception
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (p *python) answer(to any) error {
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, to)
}

// pythonRow is one format in one round.
type pythonRow struct {
	Name   string  `json:"name"`
	Bytes  int     `json:"bytes"`
	Encode float64 `json:"encode"`
	Decode float64 `json:"decode"`
}

// round measures all formats once.
func (p *python) round() (rows []pythonRow, err error) {
	if _, err := io.WriteString(p.ask, "\n"); err != nil {
		return nil, err
	}
	err = p.answer(&rows)
	return rows, err
}

// stop ends the process, if it has begun, and takes the file away.
func (p *python) stop() error {
	if p.process != nil {
		_ = p.ask.Close()
		_ = p.process.Wait() // its end is no matter
	}
	return os.Remove(p.series)
}
