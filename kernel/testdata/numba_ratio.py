"""Times the Go kernels against the same kernel in numba."""

import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

DESCRIPTION = """\
Runs the golden grid (80 combos over the 150,000 bars of gbm42) in numba and in
each Go kernel that this machine has, one thread each, in turn within one run,
so that all meet the same machine in the same mood. Prints the medians and
their ratios. Before that it checks that numba gives the golden profits and
trade counts, bit for bit; the Go tests check the same of Go.

With --hostile it also times the Go kernels on series that are hard on them.
Their ratios are to numba on gbm42: its work does not depend on the series.

Run it from the root of the repository, on an otherwise idle machine:

    python kernel/testdata/numba_ratio.py

It needs numpy, numba and the go command, and writes nothing but a temporary
directory, which it removes.
"""

TESTDATA = pathlib.Path(__file__).resolve().parent
KERNEL = TESTDATA.parent
FEE = 0.0009


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def parse_args():
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=positive, default=5, help="runs of each side (default: %(default)s)"
    )
    parser.add_argument("--hostile", action="store_true", help="time hostile series, too")
    return parser.parse_args()


def numba_sweep(np, njit):
    """Returns the kernel of the Go package's comment, written in numba."""

    @njit
    def wma(x, p):
        n = len(x)
        out = np.full(n, np.nan)
        divisor = p * (p + 1) / 2
        for i in range(p - 1, n):
            total = 0.0
            for j in range(p):
                total += x[i - p + 1 + j] * (j + 1)
            out[i] = total / divisor
        return out

    @njit
    def backtest(close, w, fee):
        hma = wma(2 * wma(close, w[0]) - wma(close, w[1]), w[2])
        hma3 = wma(3 * wma(close, w[3]) - wma(close, w[4]) - wma(close, w[5]), w[5])
        pnl, trades, side, entry = 0.0, 0, 0, 0.0
        for i in range(len(close)):
            if np.isnan(hma[i]) or np.isnan(hma3[i]):
                continue
            new = side
            if hma3[i] > hma[i]:
                new = 1
            elif hma3[i] < hma[i]:
                new = -1
            if new != side:
                if side != 0:
                    pnl += side * (close[i] / entry - 1) * 100 - fee * 100
                    trades += 1
                side, entry = new, close[i]
        return pnl, trades

    @njit
    def sweep(close, windows, fee):
        n = len(windows)
        pnl, trades = np.empty(n), np.empty(n, np.int64)
        for c in range(n):
            pnl[c], trades[c] = backtest(close, windows[c], fee)
        return pnl, trades

    return sweep


def check(pnl, trades, golden):
    for i, want in enumerate(golden):
        if float(pnl[i]).hex() != float(want["pnl"]).hex() or trades[i] != want["trades"]:
            sys.exit(
                f"numba disagrees with the golden file at length {want['length']}: "
                f"{pnl[i]!r} on {trades[i]} trades, not {want['pnl']!r} on {want['trades']}"
            )


def run(command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def go_seconds(binary, series):
    """Returns the seconds of a sweep by (series, kernel)."""
    output = run(
        [
            binary,
            "-test.run", "^$",
            "-test.bench", f"^BenchmarkSweep$/^series={series}$/^kernel=/^combos=80$/^workers=1$",
            "-test.benchtime", "300ms",
            "-test.cpu", "1",
        ],
        cwd=KERNEL,  # where go test would run it
    )  # fmt: skip
    found = re.findall(
        r"^BenchmarkSweep/series=(\S+)/kernel=(\S+)/combos=80/workers=1\s+\d+\s+([0-9.]+) ns/op", output, re.MULTILINE
    )
    if not found:
        sys.exit(f"no benchmark in the output:\n{output}")
    return {(name, kernel): float(ns) / 1e9 for name, kernel, ns in found}


def cpu_model():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def main():
    args = parse_args()
    # Before numba is imported: it reads this once.
    os.environ["NUMBA_NUM_THREADS"] = "1"
    try:
        import numpy as np
        from numba import njit
    except ImportError as error:
        sys.exit(f"{error}. This needs numpy and numba: pip install numpy numba")
    if not shutil.which("go"):
        sys.exit("no go command in PATH. This needs Go: https://go.dev/dl/")

    golden = json.loads((TESTDATA / "sweep_gbm42.json").read_text())
    close = np.fromfile(KERNEL / "gbm42" / "close.f64", dtype="<f8")
    windows = np.array([combo["windows"] for combo in golden], dtype=np.int64)
    sweep = numba_sweep(np, njit)
    check(*sweep(close, windows, FEE), golden)  # compiles it, too
    print(f"numba gives the golden file's bits for all {len(golden)} combos")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("numba", "llvmlite", "numpy")]
    print(f"{cpu_model()}; Python {platform.python_version()}, {', '.join(versions)}")

    numba, go = [], {}
    with tempfile.TemporaryDirectory() as directory:
        binary = pathlib.Path(directory) / "kernel.test"
        run(["go", "test", "-c", "-o", binary, "."], cwd=KERNEL)
        built_by = run(["go", "version", binary]).rpartition(":")[2].strip()
        print(f"{built_by}, GOAMD64={run(['go', 'env', 'GOAMD64']).strip() or '-'}")
        for i in range(args.rounds):
            start = time.perf_counter()
            pnl, trades = sweep(close, windows, FEE)
            numba.append(time.perf_counter() - start)
            check(pnl, trades, golden)
            for key, seconds in go_seconds(binary, ".*" if args.hostile else "gbm42").items():
                go.setdefault(key, []).append(seconds)
            print(f"round {i + 1} of {args.rounds}: numba {numba[-1]:.3f} s", file=sys.stderr)

    base = statistics.median(numba)
    print(f"{'series':24} {'kernel':12} {'seconds':>9} {'against numba':>14}")
    print(f"{'gbm42':24} {'numba':12} {base:9.4f} {1:13.1f}x")
    for (series, kernel), seconds in go.items():
        median = statistics.median(seconds)
        print(f"{series:24} {kernel:12} {median:9.4f} {base / median:13.1f}x")


if __name__ == "__main__":
    main()
