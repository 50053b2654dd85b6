"""Run the study of results/study/PLAN.md and collect its records.

    python scripts/study.py run [OUT]        every plan in order, into OUT (runs/study); continues where it stopped
    python scripts/study.py collect [OUT]    copy the records of finished runs from OUT into results/study
    python scripts/study.py report           tables, figures and pages of these records and of results/quick

`run` does exploratory plans seed by seed, the follow-up last, and collects after every step. `make study` does all of
it, and the pages of the documentation. The runs take a day on two cores and need both data sets (`aon data fetch`).
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from PIL import Image

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.plans import plan_comparison
from aon.lab.report import output
from aon.lab.system.files import replacing, write_text

ROOT = Path(__file__).resolve().parents[1]
PLANS = ROOT / "results" / "study"
QUICK = ROOT / "results" / "quick"
WORKERS = 2
PALETTE = 128  # colours of a figure: lines, text and what lies between them and white


class Step(NamedTuple):
    """One call of `aon compare`.

    Attributes:
        plan: Name of a TOML file in results/study.
        folder: The comparison it belongs to.
        best: If given, the best of our maps behind this normaliser is run beside the plan's methods.
    """

    plan: str
    folder: str
    best: str = ""


MAPS = Step("cifar10-maps", "cifar10")
CORE = (
    Step("cifar10-main", "cifar10"),
    Step("cifar10-others", "cifar10"),
    Step("cifar100-main", "cifar100"),
    MAPS,
    Step("cifar10-polar", "cifar10"),
    Step("cifar10-main", "cifar10", best="bn"),
)
AGAIN = Step("cifar10-again", "cifar10-again")
TO_ZERO = Step("cifar10-linear", "cifar10-linear", best="bn")
EXPLORATORY = (
    AGAIN,
    TO_ZERO,
    Step("cifar10-rates", "cifar10-rates"),
    Step("cifar10-decay", "cifar10-decay"),
    Step("cifar10-resnet20", "cifar10-resnet20", best="bn"),
    Step("cifar10-vit", "cifar10-vit", best="ln"),
)
FOLLOW_UP = (Step("cifar10-fitted", "cifar10-fitted"),)
STEPS = (*CORE, *EXPLORATORY, *FOLLOW_UP)
# Comparisons that make one report, beside the report that each has of its own.
TOGETHER = {
    "both": ("cifar10", "cifar100"),
    "settings": ("cifar10", "cifar10-rates", "cifar10-linear", "cifar10-decay"),
}
TITLES = {
    "both": "The study on CIFAR-10 and CIFAR-100",
    "settings": "CIFAR-10 with other learning rates, schedules and weight decay",
    "cifar10": "The study on CIFAR-10",
    "cifar100": "The study on CIFAR-100",
    "cifar10-again": "CIFAR-10: runs of the main plan, repeated",
    "cifar10-rates": "CIFAR-10 at half and twice the learning rate",
    "cifar10-linear": "CIFAR-10 with a learning rate that falls to zero",
    "cifar10-decay": "CIFAR-10 with weight decay",
    "cifar10-resnet20": "ResNet-20 on CIFAR-10",
    "cifar10-vit": "A small transformer on CIFAR-10",
    "cifar10-fitted": "CIFAR-10 with training images fitted, follow-up",
}
# The folders that hypotheses of the plan are about.
TESTED = ("cifar10", "cifar100", *(step.folder for step in FOLLOW_UP))
NOTE = (
    "Here p-values are corrected over the comparisons of a table. The verdicts on the study's hypotheses, corrected "
    "within the families of its plan (results/study/PLAN.md), are in docs/reproducing.md."
)


def run(out: Path) -> None:
    """Do every step that is not done yet; a step that fails ends the study.

    Args:
        out: Where the runs go.
    """
    for step, seed in order():
        subprocess.run(command(step, out, seed), check=True, cwd=ROOT)
        collect(out)


def order() -> Iterator[tuple[Step, int | None]]:
    """Every step with the seed to run, None for all.

    The core is first, then one seed of every exploratory step at a time, then the follow-up. So each exploratory
    question has an answer from one seed before any has two.
    """
    yield from ((step, None) for step in CORE)
    seeds = {step: plan_comparison({}, _file(step.plan)).seeds for step in EXPLORATORY}
    for seed in sorted({seed for own in seeds.values() for seed in own}):
        yield from ((step, seed) for step in EXPLORATORY if seed in seeds[step])
    yield from ((step, None) for step in FOLLOW_UP)


def command(step: Step, out: Path, seed: int | None = None) -> list[str]:
    """The call of `aon compare` that does a step.

    Args:
        step: What is run.
        out: Where the runs go.
        seed: The seed to run, by a copy of the plan beside the runs; all seeds of the plan if not given.
    """
    file = _file(step.plan) if seed is None else _with_seed(step, seed, out)
    words = ["compare", "--config", str(file), "--out", str(out / step.folder)]
    if step.best:
        best = best_map(out / MAPS.folder).replace("bn+", f"{step.best}+", 1)
        words += ["--methods", ",".join([*plan_comparison({}, file).methods, best])]
    return [sys.executable, "-m", "aon.lab", *words, "--workers", str(WORKERS)]


def _file(plan: str) -> Path:
    return PLANS / f"{plan}.toml"


def _with_seed(step: Step, seed: int, out: Path) -> Path:
    lines = _file(step.plan).read_text(encoding="utf-8").splitlines()
    copy = out / f"{step.plan}-{seed}.toml"
    copy.parent.mkdir(parents=True, exist_ok=True)
    write_text(copy, "\n".join(f"seeds = [{seed}]" if line.startswith("seeds =") else line for line in lines) + "\n")
    return copy


def best_map(folder: Path) -> str:
    """The map of our own with the highest mean validation accuracy of the last epoch; the test set has no say.

    Args:
        folder: A comparison with all runs of the plan of maps.

    Raises:
        LabError: if one of those is not done.
    """
    plan = plan_comparison({}, _file(MAPS.plan))
    found: dict[str, list[float]] = {method: [] for method in plan.methods}
    for record in records.load_all(folder):
        if record.config.method in found and record.config.seed in plan.seeds and record.status == "done":
            assert record.last
            found[record.config.method].append(record.last.val_accuracy)
    if missing := [method for method, values in found.items() if len(values) < len(plan.seeds)]:
        raise LabError(f"{folder} has not all {len(plan.seeds)} runs of {', '.join(missing)}")
    return max(found, key=lambda method: fmean(found[method]))


def collect(out: Path, into: Path = PLANS) -> list[Path]:
    """Copy descriptions and records of finished runs, without weights and logs.

    Args:
        out: Where the runs are.
        into: Where the records go.

    Returns:
        The records that are new.
    """
    found = []
    for source in sorted(out.glob(f"*/runs/*/{records.RECORD}")):
        copy = into / source.relative_to(out)
        if not copy.exists() and records.status(source.parent) == "done":
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            found.append(copy)
    for source in out.glob(f"*/{records.COMPARISON}"):
        if (into / source.parent.name / "runs").is_dir():
            shutil.copyfile(source, into / source.parent.name / records.COMPARISON)
    return found


def report(folder: Path = PLANS) -> None:
    """Tables, figures (PNG) and page of every comparison, and of those that belong together.

    Args:
        folder: Where the records are.
    """
    own = {path.parent.name: (path.parent.name,) for path in sorted(folder.glob(f"*/{records.COMPARISON}"))}
    for name, parts in (own | TOGETHER).items():
        if all(part in own for part in parts):
            _write([folder / part for part in parts], folder / name)


def _write(folders: Sequence[Path], out: Path) -> None:
    results, plans = output.load_results(folders)
    of_study = [plan for folder in folders for plan in planned(folder)]
    if out.name in TITLES:
        of_study = [plan.model_copy(update={"name": TITLES[out.name]}) for plan in of_study]
    notes = [NOTE] if any(folder.name in TESTED for folder in folders) else []
    written = output.write(results, of_study or plans, out, formats=("png",), notes=notes)
    for figure in written.figures:
        shrink(figure)


def shrink(figure: Path) -> None:
    """Write a figure again with a palette: it looks the same in a quarter of the bytes, and the repository keeps it.

    Args:
        figure: A PNG file.
    """
    with Image.open(figure) as image:
        few = image.convert("RGB").quantize(PALETTE, dither=Image.Dither.NONE)
    with replacing(figure) as file:
        few.save(file, format="png", optimize=True)


def planned(folder: Path) -> list[records.Comparison]:
    """What the study's plan has for a folder of results, one comparison for each of its TOML files; none for others.

    Args:
        folder: A comparison.
    """
    whole, found = records.load_comparison(folder), []
    for name in dict.fromkeys(step.plan for step in STEPS if step.folder == folder.name):
        plan = plan_comparison({}, _file(name))
        words = ("aon", "compare", "--config", f"results/study/{name}.toml", "--out", f"FOLDER/{folder.name}")
        update = {"name": TITLES[folder.name], "methods": plan.methods, "seeds": plan.seeds, "command": words}
        found.append(whole.model_copy(update=update))
    return found


def main(args: Sequence[str]) -> None:
    """Do what the first word says."""
    commands = {"run": run, "collect": collect}
    out = Path(args[1]) if len(args) == 2 else ROOT / "runs" / "study"
    try:
        if args[:1] == ["report"] and len(args) == 1:
            report()
            _write([QUICK], QUICK)  # its page tells what the study found
        elif args and args[0] in commands and len(args) <= 2:
            commands[args[0]](out.resolve())
        else:
            sys.exit("expected `run [OUT]`, `collect [OUT]` or `report`")
    except LabError as error:
        sys.exit(f"study: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
