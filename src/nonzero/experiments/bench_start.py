"""What a first search costs: seconds from the start of a process to its result, and the most memory it held.

A process of its own, because memory once held by a process is never missed from its peak, and what is
compiled stays.
"""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax

from nonzero.experiments.bench_planners import Setting, arguments, planner
from nonzero.types import NonZeroError


def measure_start(method: str, setting: Setting) -> dict[str, float]:
    """Start twice under a compilation cache that is empty the first time; the peak is the second's."""
    with tempfile.TemporaryDirectory() as folder:
        cold, _ = first_search(method, setting, Path(folder))
        warm, peak = first_search(method, setting, Path(folder))
    return {"seconds_to_first": cold, "seconds_to_first_cached": warm, "peak_process_megabytes": peak}


def first_search(method: str, setting: Setting, cache: Path) -> tuple[float, float]:
    """Seconds until a fresh process has planned once, and the most memory that it held, in megabytes."""
    words = [method, json.dumps(vars(setting))]
    variables = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    start = time.perf_counter()
    command = [sys.executable, "-m", "nonzero.experiments.bench_start", *words]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise NonZeroError(f"a fresh process could not plan: {done.stderr.strip().splitlines()[-1:]}")
    return seconds, float(done.stdout)


def main() -> None:
    """Plan once, as the words of the command line say, and print the peak memory in megabytes."""
    method, setting = sys.argv[1], Setting(**json.loads(sys.argv[2]))
    plan = jax.jit(planner(method, setting))
    jax.block_until_ready(plan(*arguments(setting), jax.random.key(0)))
    print(peak_memory() / 1e6)


def peak_memory() -> int:
    """The most bytes that this process held."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux getrusage counts what the parent held when it started this process.
        found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
        assert found is not None
        return 1024 * int(found[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
