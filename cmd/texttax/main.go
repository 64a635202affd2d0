// Command texttax serves backtest parameter sweeps over HTTP in four body
// formats, and shows where each request's time goes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/alecthomas/kong"

	"texttax/kernel"
)

func main() {
	// After the first signal the default action is back, so that a second one
	// stops the process at once. It is back before the first one is acted on:
	// whoever sees that it was can count on it.
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals)
		cancel()
	}()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "texttax:", err)
	}
	os.Exit(exitStatus(err))
}

// exitStatus is 0 for success, 2 for a command line that can't be used, and 1
// for everything else.
func exitStatus(err error) int {
	var usage *kong.ParseError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return 2
	}
	return 1
}

type commandLine struct {
	Serve       serveCommand       `cmd:"" help:"Serve sweeps and echoes over HTTP, and the metrics of their phases."`
	Sweep       sweepCommand       `cmd:"" help:"Run one sweep over a file, a built-in series or a frame from standard input."`
	Load        loadCommand        `cmd:"" help:"Send sustained load to a server, and tell where its time goes."`
	Compare     compareCommand     `cmd:"" help:"Study on this machine what text, boundary and work cost."`
	Report      reportCommand      `cmd:"" help:"Compare two results of load or of compare."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask a server whether it is ready, and exit with 0 if it is."`
	Version     kong.VersionFlag   `help:"Print the version and exit." env:"-"`
}

const description = `texttax runs backtest parameter sweeps behind a REST boundary in four body formats (JSON, MessagePack, Arrow, raw octets) and shows, request by request, what the boundary costs.

Start a server, then run 80 combos over the built-in series of 150,000 bars:

  texttax serve
  curl -X POST 'localhost:8080/sweep?dataset=gbm42&lengths=6:200:80'

Or run them without a server:

  texttax sweep --dataset gbm42

Each flag of serve has a twin in the environment, shown beside it.`

// helpExit ends the parsing of a command line that asked for help.
type helpExit int

// run is the program. It returns when its work is done or ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			if _, ok := cause.(helpExit); !ok {
				panic(cause)
			}
			err = nil
		}
	}()
	var cli commandLine
	parser, err := kong.New(&cli,
		kong.Name("texttax"),
		kong.Description(description),
		kong.DefaultEnvars("TEXTTAX"),
		kong.ConfigureHelp(kong.HelpOptions{Tree: true}),
		kong.Vars{
			"version": buildInfo().String(),
			"lengths": defaultLengths,
			"fee":     strconv.FormatFloat(kernel.DefaultFee, 'g', -1, 64),
		},
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(helpExit(code)) }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(streams{stdout, stderr}),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return fmt.Errorf("%w; see texttax --help", err)
	}
	return command.Run()
}

// streams are where a command writes to.
type streams struct{ stdout, stderr io.Writer }
