//go:build readme

package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// block is a fenced block of the README.
type block struct {
	line     int
	language string // of the fence
	text     string
}

func readmeBlocks(t *testing.T) []block {
	t.Helper()
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	var open *block
	for i, line := range strings.Split(string(raw), "\n") {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{line: i + 1, language: language}
		case fence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return blocks
}

// TestREADME runs the README from top to bottom, as a reader would, in a clean
// clone: the server in the background, each other block after the one before,
// and compares what a block prints with the block of text that follows it,
// where ... stands for anything.
func TestREADME(t *testing.T) {
	const serve, test = "go run ./cmd/texttax serve\n", "go test ./...\n"
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if left := regexp.MustCompile(`[A-Z]{3,}_[A-Z]+`).FindAllString(strings.NewReplacer("TEXTTAX_LISTEN", "", killRounds, "", "TEXTTAX_FAULTS", "").Replace(string(raw)), -1); left != nil {
		t.Errorf("nobody has filled in %q", left)
	}
	printed, served, tested := "", false, false
	for _, b := range readmeBlocks(t) {
		switch {
		case b.text == serve:
			serveInBackground(t, root, b.text)
			served = true
		case b.text == test:
			// CI runs it by itself; here it would run itself.
			ci, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
			if err != nil || !strings.Contains(string(ci), "\n"+test) {
				t.Errorf("line %d: CI does not run the test command: %v", b.line, err)
			}
			tested = true
		case b.language == "sh":
			printed = runBlock(t, root, b, "bash", "-euo", "pipefail", "-c", b.text)
		case b.language == "python":
			printed = runBlock(t, root, b, filepath.Join(root, ".venv", "bin", "python"), "-c", b.text)
		case b.language == "text":
			if !matches(b.text, printed) {
				t.Errorf("line %d: the block before prints\n%s\nnot\n%s", b.line, printed, b.text)
			}
		case b.language != "": // without a language it is a picture
			t.Errorf("line %d: nobody runs blocks in %s", b.line, b.language)
		}
	}
	if !served || !tested {
		t.Error("the README does not tell how to serve, or how to test")
	}
}

func runBlock(t *testing.T, root string, b block, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = root
	var errors strings.Builder
	command.Stderr = &errors
	out, err := command.Output()
	t.Logf("line %d: %s%s", b.line, b.text, out)
	if err != nil {
		t.Fatalf("line %d: %v\n%s", b.line, err, errors.String())
	}
	return string(out)
}

func matches(pattern, text string) bool {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(pattern)), `\.\.\.`, `.*`)
	clean := strings.TrimSpace(strings.ReplaceAll(text, "\r", ""))
	return regexp.MustCompile(`^` + quoted + `$`).MatchString(clean)
}

// serveInBackground starts the README's server and waits until it listens. It
// stops it, with the processes that it has started, after the test.
func serveInBackground(t *testing.T, root, text string) {
	t.Helper()
	command := exec.Command("bash", "-c", text)
	command.Dir = root
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		_ = command.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "serving on http://127.0.0.1:8080\n" {
		t.Fatalf("the server says %q: %v", line, err)
	}
}
