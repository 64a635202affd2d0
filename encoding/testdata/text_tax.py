"""Times what each body format costs, in Go and in Python, in one run."""

import argparse
import importlib.metadata
import json
import pathlib
import pickle
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

DESCRIPTION = """\
Turns the 150,000 closes of gbm42 into bytes and back, in every format of the
service and in Python's own, in turn within one run, so that all meet the same
machine in the same mood. Prints the medians, and how many times as long as a
copy of the 1.2 MB each takes: the copy of the same language in the same run.

Run it from the root of the repository, on an otherwise idle machine:

    python encoding/testdata/text_tax.py

It needs numpy and the go command, and writes nothing but a temporary
directory, which it removes.
"""

ENCODING = pathlib.Path(__file__).resolve().parent.parent
NAMES = {
    "json": "JSON, this service",
    "json-std": "JSON, Go's encoding/json",
    "msgpack": "MessagePack, array of numbers",
    "msgpack-bin": "MessagePack, block of bytes",
    "arrow": "Arrow IPC",
    "octet": "raw octets",
}


def run(command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def go_formats(binary):
    """Yields name, direction, body's bytes, microseconds and copies."""
    output = run(
        [binary, "-test.run", "^$", "-test.bench", "TextTax", "-test.benchtime", "200ms", "-test.cpu", "1"],
        cwd=ENCODING,  # where go test would run it
    )
    for line in output.splitlines():
        if found := re.match(r"BenchmarkTextTax/format=([\w-]+)/(\w+)", line):
            value = {unit: float(number) for number, unit in re.findall(r"([0-9.]+) (\S+)", line)}
            yield found[1], found[2], int(value["body-bytes"]), value["us"], value["copies"]


def median_us(call, runs):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def python_formats(np, close):
    """Yields name, direction, body's bytes, microseconds and copies."""
    copy = median_us(close.tobytes, 51)
    raw, pickled, text = close.tobytes(), pickle.dumps(close), json.dumps(close.tolist())
    for name, body, encode, decode, runs in (
        ("Python, tobytes and frombuffer", raw, close.tobytes, lambda: np.frombuffer(raw), 51),
        ("Python, pickle", pickled, lambda: pickle.dumps(close), lambda: pickle.loads(pickled), 51),
        ("Python, json", text, lambda: json.dumps(close.tolist()), lambda: np.array(json.loads(text)), 3),
    ):
        for direction, call in (("encode", encode), ("decode", decode)):
            us = median_us(call, runs)
            yield name, direction, len(body), us, us / copy


def cpu_model():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def main():
    parser = argparse.ArgumentParser(description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side (default: %(default)s)")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    try:
        import numpy as np
    except ImportError as error:
        sys.exit(f"{error}. This needs numpy: pip install numpy")
    if not shutil.which("go"):
        sys.exit("no go command in PATH. This needs Go: https://go.dev/dl/")

    close = np.fromfile(ENCODING.parent / "kernel" / "gbm42" / "close.f64", dtype="<f8")
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        binary = pathlib.Path(directory) / "encoding.test"
        run(["go", "test", "-c", "-o", binary, "."], cwd=ENCODING)
        built_by = run(["go", "version", binary]).rpartition(":")[2].strip()
        for i in range(args.rounds):
            for source in (go_formats(binary), python_formats(np, close)):
                for name, direction, size, us, copies in source:
                    row = found.setdefault(NAMES.get(name, name), {"bytes": size, "encode": [], "decode": [], "copies": []})
                    row[direction].append(us)
                    row["copies"].append((direction, copies))
            print(f"round {i + 1} of {args.rounds}", file=sys.stderr)
    print(f"{cpu_model()}; {built_by}; Python {platform.python_version()}, numpy {importlib.metadata.version('numpy')}")
    print("| format | body, bytes | encode, us | decode, us | against a copy |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, row in found.items():
        encode, decode = statistics.median(row["encode"]), statistics.median(row["decode"])
        both = sum(statistics.median(c for d, c in row["copies"] if d == wanted) for wanted in ("encode", "decode"))
        print(f"| {name} | {row['bytes']:,} | {encode:,.1f} | {decode:,.1f} | {both:,.1f}x |")


if __name__ == "__main__":
    main()
