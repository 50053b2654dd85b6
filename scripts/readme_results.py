"""Fill the generated parts of README.md and two pages of docs/ from the records in results/.

    python scripts/readme_results.py [--check]

README.md gets the main comparisons and the cost of a step, docs/reproducing.md every comparison, docs/performance.md
the time that evaluation takes. `--check` changes nothing and fails where a document is not up to date.
"""

import json
import sys
import tomllib
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

from scripts.study import AGAIN, EXPLORATORY, MAPS, PLANS, best_map

from aon.lab.bench.record import load as load_bench
from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.plans import plan_comparison
from aon.lab.experiment.records import COMPARISON, Record, load_all, load_comparison
from aon.lab.methods.grammar import parse
from aon.lab.report.cells import NOTHING, p_value
from aon.lab.report.outcomes import explanation, has_validation
from aon.lab.report.statistics import Difference, difference, holm, summarise
from aon.lab.report.study import FINDINGS
from aon.lab.report.verdict import FEW_SEEDS
from aon.lab.system.files import write_text
from scripts import accuracy_tables, claims, claims_text, exploratory, provenance, times

ROOT = Path(__file__).resolve().parents[1]
BASES = ("bn", "ln")
PAPER_METHODS = ("bn", "bn+cwn", "iternorm", "bn+orth", "bn+aon", "bn+aon:order=0", "bn+aon:order=4")
CHOSEN = "the best of our four maps by validation accuracy, chosen on seeds that are among these, which favours it"
Scores = dict[int, float]


def comparisons(results: Path) -> list[Path]:
    """Every folder that holds a comparison with at least one finished run, those of the study first."""
    folders = sorted(
        (path.parent for path in results.rglob(COMPARISON)), key=lambda folder: (not _in_study(folder), folder)
    )
    return [folder for folder in folders if any(run.status == "done" for run in _loaded(folder))]


def main_comparisons(results: Path) -> list[Path]:
    """The comparisons of the study's plan that have the main methods; before there are any, the quick one."""
    study = [results / "study" / name for name in claims.PLACES]
    chosen = [folder for folder in study if {"bn", "bn+aon"} <= {run.config.method for run in finished(folder)}]
    return chosen or [results / "quick"]


def finished(folder: Path) -> list[Record]:
    """Finished runs of a comparison that share their settings; where settings vary, those of the most runs."""
    return max(by_setting(folder), key=len, default=[])


def by_setting(folder: Path) -> list[list[Record]]:
    """Finished runs of a comparison, those that share their settings together."""
    groups: dict[str, list[Record]] = {}
    for run in _loaded(folder):
        if run.status == "done":
            groups.setdefault(_settings(run), []).append(run)
    return list(groups.values())


def _loaded(folder: Path) -> list[Record]:
    try:
        return load_all(folder)
    except LabError:
        return []


def _settings(run: Record) -> str:
    return run.config.model_dump_json(exclude={"method", "seed", "threads", "spectra_every"})


def table(folder: Path, only: Sequence[str] = ()) -> str:
    """A table of the runs that share the settings of the most, if `only` names methods; else one for each setting."""
    groups = [[run for run in finished(folder) if run.config.method in only]] if only else by_setting(folder)
    return "\n\n".join(_table(folder, runs) for runs in groups)


def _table(folder: Path, runs: list[Record]) -> str:
    """Accuracy of each method, its difference to BN (or LN), interval and p, with a line that says what was run."""
    methods = [method for method in load_comparison(folder).methods if any(run.config.method == method for run in runs)]
    base = next((method for method in BASES if method in methods), methods[0])
    methods.sort(key=lambda method: method != base)
    last = {method: _scores(runs, method, "last") for method in methods}
    gains = [difference(last[method], last[base]) if method != base else None for method in methods]
    corrected = _corrected(folder, methods, gains)
    label = next(run.label for run in runs if run.config.method == base)
    lines = [f"| method | seeds | last epoch | best epoch | last: difference to {label} | p |", "|:--|" + "--:|" * 5]
    for method, gain, p in zip(methods, gains, corrected, strict=True):
        label = next(run.label for run in runs if run.config.method == method)
        cells = [label, str(len(last[method])), _mean(last[method]), _mean(_scores(runs, method, "best"))]
        lines.append(f"| {' | '.join([*cells, exploratory.gain_of_few(gain), p_value(p)])} |")
    return "\n\n".join([_caption(folder, runs[0]), "\n".join(lines)])


def _corrected(folder: Path, methods: Sequence[str], gains: Sequence[Difference | None]) -> list[float | None]:
    """p-values corrected within the families of the study's plan, or over the table where there is no plan."""
    if not _in_study(folder):
        return holm([gain.p if gain else None for gain in gains])
    planned = claims.p_to_bn(study_runs(folder.parent), folder.name)
    return [planned.get(method) for method in methods]


def _in_study(folder: Path) -> bool:
    return folder.parent.name == "study"


def _scores(runs: Iterable[Record], method: str, which: str) -> Scores:
    """Test accuracy by seed, of the last epoch or of the best one by validation."""
    found = {run.config.seed: getattr(run, which) for run in runs if run.config.method == method}
    return {seed: score.test_accuracy for seed, score in found.items() if score and score.test_accuracy is not None}


def _mean(scores: Scores) -> str:
    found = summarise(list(scores.values()))
    if found.mean is None:
        return NOTHING
    return f"{found.mean:.2f}" + (f" ± {found.spread:.2f}" if found.spread is not None else "")


def _caption(folder: Path, run: Record) -> str:
    config, images = run.config, run.images
    width = "full width" if config.width == 1 else f"width {Fraction(config.width).limit_denominator(64)}"
    size = f"{images.train:,} training images of {config.dataset}, {config.epochs} epochs"
    place = folder.relative_to(ROOT).as_posix() if folder.is_relative_to(ROOT) else folder.name
    name = load_comparison(folder).name
    if _in_study(folder):
        name = f"The study on {claims.PLACES.get(folder.name, f'{claims.DATA[config.dataset]}, exploratory')}"
    return f"**{name}**: {', '.join([f'{config.network} at {width}', size, *_others(config)])} (`{place}`)."


def _others(config: RunConfig) -> list[str]:
    """Settings of the optimisation that are not the paper's."""
    usual = RunConfig.model_validate({})
    names = ("batch_size", "optimiser", "learning_rate", "schedule", "warm_up", "weight_decay")
    changed = [name for name in names if getattr(config, name) != getattr(usual, name)]
    words = [f"{name.replace('_', ' ')} {getattr(config, name)}" for name in changed]
    return words if config.augment else [*words, "no crops or flips"]


def reading(folders: Sequence[Path]) -> str:
    """How to read the tables of comparisons; said once for them.

    Args:
        folders: The comparisons.
    """
    runs = [run for folder in folders for own in by_setting(folder) for run in own]
    beyond = "" if all(map(_in_study, folders)) else " (outside the study: over the table)"
    return (
        f"Test accuracy in percent, mean ± standard deviation over seeds. {explanation(has_validation(runs))} "
        "Differences are paired over the seeds that both methods have; their 95 % intervals are not corrected. p: "
        "two-sided t-test, corrected by Holm's method within its family of hypotheses in `results/study/PLAN.md`"
        f"{beyond}; `-` where the difference is not a hypothesis of the plan. Fewer than {FEW_SEEDS} seeds are a "
        "demonstration, not evidence."
    )


def study_runs(folder: Path) -> dict[str, list[Record]]:
    """Finished runs of the comparisons that hypotheses are about, by the name of their folder."""
    return {name: finished(folder / name) for name in claims.PLACES}


def study(folder: Path) -> str:
    """The claims of the study's plan, how far they rest on lost sources, our best map, and the training loss of AON."""
    runs, repeated = study_runs(folder), finished(folder / AGAIN.folder)
    again = "Hypotheses that rest on runs of the lost commit:\n\n" + claims_text.sensitivity(runs, repeated)
    if changed := claims_text.changed_verdicts(runs, repeated):
        again += f"\n\n{changed}"
    exploratory_runs = {
        f"exploratory: `{step.folder}`": [run for own in by_setting(folder / step.folder) for run in own]
        for step in EXPLORATORY
    }
    made = "What made the runs:\n\n" + provenance.table(provenance.by_family(runs) | exploratory_runs)
    compared = {"quick": finished(folder.parent / "quick")}
    if elsewhere := finished(folder.parent / "quick-again"):
        compared["quick on another processor"] = elsewhere
    compared |= {f"the study on {claims.PLACES[name]}": found for name, found in runs.items()}
    losses = "\n".join(f"- {name}: {claims_text.convergence(found)}" for name, found in compared.items())
    note = f"Mean training loss of BN+AON(q=2), epoch by epoch, and its difference in the last:\n\n{losses}"
    main = finished(folder / MAPS.folder)
    others = _best_map(folder / MAPS.folder) + f"\n\nIterNorm less BN+AON(q=2): {_described('iternorm', main)}."
    strict = claims_text.stricter(runs)
    return "\n\n".join([claims_text.table(runs), strict, again, made, f"Exploratory: {others}", note])


def answers(folder: Path) -> str:
    """The exploratory questions of the study's plan: other settings and networks."""
    main = finished(folder / MAPS.folder)
    folders = dict.fromkeys(step.folder for step in EXPLORATORY if step != AGAIN)
    others = [runs for name in folders for runs in by_setting(folder / name)]
    found = exploratory.settings(main, others) if main else []
    best = _chosen(folder / MAPS.folder)
    ours = best.partition("+")[2] if best else None
    table = exploratory.settings_table(found, ours)
    if len(found) < 2:
        return table
    # Changes are measured from runs whose source is known.
    same_seeds = claims.with_repeated(main, finished(folder / AGAIN.folder))
    beside = [found[0]._replace(runs=same_seeds), *found[1:]]
    parts = [
        exploratory.one_seed(found[0]),
        table,
        "The methods against each other:",
        exploratory.contrasts(found, ours),
    ]
    changed = "Change from the main runs of the same seeds, on the VGG (those of the lost commit repeated):"
    parts += [changed, exploratory.changes(beside, ours), exploratory.polynomial_or_schedule(beside, ours)]
    parts.append(exploratory.tuned(beside))
    return "\n\n".join(part for part in parts if part)


def fits(folder: Path) -> str:
    """How well each method fits its training images, in every comparison that hypotheses are about."""
    runs = study_runs(folder)
    parts = [f"{claims.PLACES[name]}:\n\n{accuracy_tables.fit(own)}" for name, own in runs.items()]
    if to_fit := runs[claims.FITTED]:
        parts.append(accuracy_tables.unfitted(to_fit))
    return "\n\n".join(parts)


def _chosen(folder: Path) -> str | None:
    """The best of our maps; None before all have run."""
    try:
        return best_map(folder)
    except LabError:
        return None


def _best_map(folder: Path) -> str:
    """The best of our maps against the paper's, over all seeds that both have."""
    what = "the best of our maps by validation accuracy"
    best = _chosen(folder)
    if best is None:
        return f"{what} is not known before all have run."
    runs, seeds = finished(folder), plan_comparison({}, PLANS / f"{MAPS.plan}.toml").seeds
    found, fresh = (_described(best, own) for own in (runs, [run for run in runs if run.config.seed not in seeds]))
    return (
        f"{what} is {parse(best).label}; less BN+AON(q=2): {found}. It was chosen on seeds that are among these and "
        f"favour it; on the others: {fresh}."
    )


def _described(method: str, runs: Sequence[Record]) -> str:
    """A method against the paper's, over all seeds that both have."""
    return claims_text.described(claims.between(method, "bn+aon", runs), digits=2)


def cost(bench: Path) -> str:
    """Time of a training step over one without AON, from the benchmarks' records."""
    lines = ["| 16-conv VGG, full width | BN+AON(q=2) over BN | BN+AON(q=4) over BN |", "|:--|--:|--:|"]
    for batch in (256, 128, 32):
        order2, order4 = _ratios(bench / f"step-vgg16-iternorm-{batch}.json", "bn+aon", "bn+aon:order=4")
        lines.append(f"| training step, batch {batch} | {order2} | {order4} |")
    normalised, folded = _ratios(bench / "eval-vgg16-iternorm-256.json", "normalised", "folded")
    lines.append(f"| evaluation, batch 256 | {normalised} (folded: {folded}) | |")
    where = load_bench(bench / "step-vgg16-iternorm-256.json").environment
    machine = f"{where['cpu']}, {where['threads']} threads, torch {where['torch']}"
    paper = "the paper reports 1.58 (q=2) and 1.89 (q=4) on a GPU"
    return "\n".join(lines) + f"\n\nMedians of interleaved rounds on {machine}; {paper}."


def _ratios(file: Path, *names: str) -> list[str]:
    """The median ratios of variants of a record's first case."""
    found = map(load_bench(file).cases[0].variant, names)
    return [f"{variant.ratio.median:.2f}" if variant and variant.ratio else NOTHING for variant in found]


def versions(project: Path) -> str:
    """The oldest supported Python and torch, as pyproject.toml has them."""
    stated = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    torch = next(need for need in stated["dependencies"] if need.startswith("torch"))
    python, torch = (need.partition(">=")[2].partition(",")[0] for need in (stated["requires-python"], torch))
    return f"Supported: Python {python} or later, torch {torch} or later; CPU or GPU."


def between(text: str, name: str, part: str) -> str:
    """A document with the part of that name replaced.

    Raises:
        LabError: It does not have the two marks of that name.
    """
    begin, end = f"<!-- {name}: begin (made by scripts/readme_results.py) -->", f"<!-- {name}: end -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise LabError(f"expected the marks {begin!r} and {end!r}")
    return f"{head}{begin}\n\n{part}\n\n{end}{tail}"


def documents(root: Path = ROOT) -> dict[Path, str]:
    """Each document with its generated parts as the records have them."""
    results = root / "results"
    readme, reproducing, performance = (
        root / name for name in ("README.md", "docs/reproducing.md", "docs/performance.md")
    )
    runs = study_runs(results / "study")
    best = _chosen(results / "study" / MAPS.folder)
    shown = (*PAPER_METHODS, *([best] if best else []))
    shown_in = main_comparisons(results)
    tables = [table(folder, shown) for folder in shown_in]
    notes = [reading(shown_in), *([f"{parse(best).label} is {CHOSEN}."] if best else [])]
    caution = claims_text.changed_verdicts(runs, finished(results / "study" / AGAIN.folder))
    conclusion = "\n\n".join(filter(None, [claims_text.conclusion(runs), caution]))
    short = "\n\n".join([*tables, *notes, conclusion])
    text = between(readme.read_text(encoding="utf-8"), "results", short)
    text = between(text, "cost", cost(results / "bench"))
    text = between(text, "versions", versions(root / "pyproject.toml"))
    findings = claims_text.findings(runs)
    equal = accuracy_tables.equal_loss_sentence({claims.PLACES[name]: own for name, own in runs.items()})
    findings += [sentence for sentence in (caution, equal) if findings and sentence]
    every = comparisons(results)
    whole = "\n\n".join([reading(every), *map(table, every)])
    page = between(reproducing.read_text(encoding="utf-8"), "results", whole)
    page = between(page, "summary", conclusion)
    page = between(page, "fit", fits(results / "study"))
    page = between(page, "settings", answers(results / "study"))
    page = between(page, "orthonormality", accuracy_tables.orthonormality(runs[MAPS.folder]))
    quick = {f"results/{name}": finished(results / name) for name in ("quick", "quick-again")}
    page = between(page, "quick", times.walls(quick))
    evaluation = times.evaluation_share(runs[MAPS.folder])
    return {
        readme: text,
        performance: between(performance.read_text(encoding="utf-8"), "evaluation", evaluation),
        reproducing: between(page, "claims", study(results / "study")),
        root / FINDINGS.relative_to(ROOT): json.dumps({"findings": findings}, indent=1) + "\n",
    }


def main(args: list[str]) -> int:
    """Rewrite the documents, or only compare them; the status is 1 where one is not up to date."""
    try:
        found = documents()
    except LabError as error:
        sys.stderr.write(f"readme_results: {error}\n")
        return 1
    stale = [path for path, text in found.items() if path.read_text(encoding="utf-8") != text]
    if "--check" in args:
        sys.stderr.write("".join(f"{path} is not up to date: run scripts/readme_results.py\n" for path in stale))
        return bool(stale)
    for path in stale:
        write_text(path, found[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
