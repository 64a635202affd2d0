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
func startPython(ctx context.Context, interpreter string, series []float64) (p *python, err error) {
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
	p = &python{series: file.Name()}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if _, err := file.Write(raw); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	var complaint strings.Builder
	process := exec.CommandContext(ctx, path, "-c", taxScript, p.series)
	process.Stderr = &complaint
	if p.ask, err = process.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	p.process, p.answers = process, bufio.NewReader(stdout)
	if err := p.answer(&p.Version); err != nil {
		_ = process.Wait() // so that all of the complaint is there
		lines := strings.Split(strings.TrimSpace(complaint.String()), "\n")
		return nil, fmt.Errorf("%s: %s", path, lines[len(lines)-1])
	}
	return p, nil
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
