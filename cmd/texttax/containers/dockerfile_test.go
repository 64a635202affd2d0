package containers

import (
	"bufio"
	"debug/elf"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// image is what the last stage of the Dockerfile makes.
type image struct {
	stages []instructions.Stage
	last   instructions.Stage
}

func readDockerfile(t *testing.T) image {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	parsed, err := parser.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range parsed.Warnings {
		t.Errorf("%s %v", w.Short, w.Detail)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	return image{stages, stages[len(stages)-1]}
}

// command returns the last command of a kind in the last stage.
func command[T instructions.Command](t *testing.T, i image) T {
	t.Helper()
	for _, c := range slices.Backward(i.last.Commands) {
		if found, ok := c.(T); ok {
			return found
		}
	}
	var none T
	t.Fatalf("there is no %T", none)
	return none
}

func TestTheImageIsOneBinaryThatRunsAsNobody(t *testing.T) {
	i := readDockerfile(t)
	if i.last.BaseName != "scratch" || len(i.stages) != 2 {
		t.Errorf("%d stages, the last one from %s", len(i.stages), i.last.BaseName)
	}
	if base := i.stages[0].BaseName; base != "golang:"+strings.TrimPrefix(runtime.Version(), "go") {
		t.Errorf("it is built by %s, and tested with %s", base, runtime.Version())
	}
	uid, _, _ := strings.Cut(command[*instructions.UserCommand](t, i).User, ":")
	if n, err := strconv.Atoi(uid); err != nil || n == 0 {
		t.Errorf("user %s, which scratch can't look up, or root", uid)
	}
	check := command[*instructions.HealthCheckCommand](t, i).Health
	if !slices.Equal(check.Test, []string{"CMD", "/texttax", "healthcheck"}) {
		t.Errorf("health is checked by %q: there is nothing else in the image", check.Test)
	}
	entry := command[*instructions.EntrypointCommand](t, i)
	if entry.PrependShell || !slices.Equal(entry.CmdLine, []string{"/texttax"}) {
		t.Errorf("entry point %q, with a shell: %v", entry.CmdLine, entry.PrependShell)
	}
	files := 0
	for _, c := range i.last.Commands {
		if copied, ok := c.(*instructions.CopyCommand); ok {
			files++
			if copied.From != i.stages[0].Name || !slices.Equal(copied.SourcePaths, []string{"/texttax"}) || copied.DestPath != "/texttax" {
				t.Errorf("%s", copied)
			}
		}
	}
	if files != 1 {
		t.Errorf("%d COPY commands", files)
	}
}

// buildCommand is the Dockerfile's own call of go build.
var buildCommand = regexp.MustCompile(`CGO_ENABLED=0 go build .*`)

// build runs the Dockerfile's build in the repository, to a root as empty as
// scratch, and returns that root.
func build(t *testing.T) string {
	t.Helper()
	text := ""
	for _, c := range readDockerfile(t).stages[0].Commands {
		if run, ok := c.(*instructions.RunCommand); ok {
			if found := buildCommand.FindString(strings.Join(run.CmdLine, " ")); found != "" {
				text = found
			}
		}
	}
	if !strings.Contains(text, "-o /texttax ") {
		t.Fatalf("the Dockerfile builds by %q", text)
	}
	scratch := t.TempDir()
	// Nobody must be able to go there, as in a container.
	for dir := scratch; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "bash", "-euc", strings.Replace(text, "-o /texttax ", "-o "+scratch+"/texttax ", 1))
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
	return scratch
}

// inContainer prepares a command as the image would run it: in a root with
// nothing but the binary, as the image's user, without an environment. Only
// root may do that; others run the binary where they are.
func inContainer(t *testing.T, i image, scratch string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Log("not root: without the empty root of a container")
		c := exec.Command(filepath.Join(scratch, "texttax"), args...)
		c.Env = []string{}
		return c
	}
	uid, gid, _ := strings.Cut(command[*instructions.UserCommand](t, i).User, ":")
	u, err := strconv.ParseUint(uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	g, err := strconv.ParseUint(gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &exec.Cmd{
		Path: "/texttax", Args: append([]string{"/texttax"}, args...), Dir: "/", Env: []string{},
		SysProcAttr: &syscall.SysProcAttr{Chroot: scratch, Credential: &syscall.Credential{Uid: uint32(u), Gid: uint32(g)}},
	}
}

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestTheBinaryOfTheImageServesInAnEmptyRootAndChecksItself(t *testing.T) {
	i := readDockerfile(t)
	scratch := build(t)
	file, err := elf.Open(filepath.Join(scratch, "texttax"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it is not static: it has a segment %s", p.Type)
		}
	}

	// By the image's own arguments, and by those of docker-compose.yml; only the
	// port is another, since others may use theirs.
	for from, args := range map[string][]string{
		"Dockerfile": command[*instructions.CmdCommand](t, i).CmdLine, "docker-compose.yml": load(t).Services["texttax"].Command,
	} {
		address := freeAddress(t)
		args = slices.Clone(args)
		port := slices.Index(args, ":8080")
		if port < 0 {
			t.Fatalf("%s: %q does not listen on :8080", from, args)
		}
		args[port] = address
		check := func() error {
			return inContainer(t, i, scratch, "healthcheck", "http://"+address).Run()
		}
		if check() == nil {
			t.Errorf("%s: healthy before it runs", from)
		}
		server := inContainer(t, i, scratch, args...)
		stdout, err := server.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Process.Kill() })
		if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
			t.Fatalf("%s: %q, %v", from, line, err)
		}
		if err := check(); err != nil {
			t.Errorf("%s: unhealthy: %v", from, err)
		}
		answer, err := http.Post("http://"+address+"/sweep?dataset=gbm42&lengths=6", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: a sweep is answered with %s", from, answer.Status)
		}
		// docker stop sends SIGTERM, and after ten seconds SIGKILL.
		stopping := time.Now()
		if err := server.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := server.Wait(); err != nil || time.Since(stopping) > 10*time.Second {
			t.Errorf("%s: it stops with %v after %v", from, err, time.Since(stopping))
		}
	}
}
