"""Times what Python's own formats cost, one round for each line on stdin.

Prints a line of JSON for each: name, bytes, and seconds of encode and decode.
"""

import json
import pickle
import statistics
import sys
import time

import numpy as np


def median(call, runs):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


close = np.fromfile(sys.argv[1], dtype="<f8")
raw, pickled, text = close.tobytes(), pickle.dumps(close), json.dumps(close.tolist())
formats = (
    ("Python, raw bytes", raw, close.tobytes, lambda: np.frombuffer(raw), 21),
    ("Python, pickle", pickled, lambda: pickle.dumps(close), lambda: pickle.loads(pickled), 21),
    ("Python, json", text, lambda: json.dumps(close.tolist()), lambda: np.array(json.loads(text)), 1),
)
print(json.dumps({"python": sys.version.split()[0], "numpy": np.__version__}), flush=True)
for _ in sys.stdin:
    rows = [
        {"name": name, "bytes": len(body), "encode": median(encode, runs), "decode": median(decode, runs)}
        for name, body, encode, decode, runs in formats
    ]
    print(json.dumps(rows), flush=True)
