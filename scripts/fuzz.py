"""Fuzz every reader with atheris, guided by coverage; write the counts to results/reliability/atheris.json.

    python scripts/fuzz.py --runs 10000 [READER ...]

Each reader runs in a process of its own, because libFuzzer ends the process when it is done.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

OUT = Path(__file__).parent.parent / "results" / "reliability" / "atheris.json"


def one(name: str, runs: int) -> None:
    """Fuzz one reader in this process; does not return."""
    import atheris

    with atheris.instrument_imports(include=["aon.lab.data", "aon.lab.experiment", "aon.lab.methods"]):
        from tests.fuzz.readers import READ, SEEDS

    with tempfile.TemporaryDirectory() as corpus:
        for i, seed in enumerate(SEEDS[name]):
            (Path(corpus) / f"seed{i}").write_bytes(seed)
        options = [f"-runs={runs}", "-max_len=20000", "-rss_limit_mb=8192", "-timeout=120", "-verbosity=0"]
        atheris.Setup([sys.argv[0], *options, corpus], lambda content: READ[name](content) and None)
        atheris.Fuzz()


def main() -> int:
    """Fuzz all readers, or those named; the status is 1 if one of them broke."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--here", action="store_true", help="fuzz the one reader that is named, in this process")
    args = parser.parse_args()
    if args.here:
        one(args.readers[0], args.runs)
    from tests.fuzz.readers import READ

    figures = json.loads(OUT.read_text()) if OUT.exists() else {"lost": [], "by_reader": {}}
    for name in args.readers or READ:
        began = time.monotonic()
        command = [sys.executable, __file__, name, "--runs", str(args.runs), "--here"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        figures["by_reader"][name] = {"inputs": args.runs if done.returncode == 0 else 0}
        figures["by_reader"][name]["seconds"] = round(time.monotonic() - began, 1)
        figures["lost"] += [f"{name}: {done.stderr[-1000:]}"] if done.returncode else []
        figures |= {"atheris": metadata.version("atheris"), "python": platform.python_version()}
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if figures["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
