"""Every command runs on tiny sizes, writes its record, prints its ratios; bad arguments give one-line errors."""

import pytest
from typer.testing import CliRunner

from aon.lab.bench import record
from aon.lab.cli.bench import bench_app
from aon.lab.errors import LabError

TINY = ["--network", "resnet20", "--width", "0.25", "--threads", "1"]
TWICE = ["--rounds", "2", "--warm-up", "1"]
COMMANDS = {
    "step": ["step", *TINY, *TWICE, "--batch", "2"],
    "layout": ["layout", *TINY, *TWICE, "--batch", "2"],
    "calls": ["calls"],
    "map": ["map", *TINY, *TWICE, "--variants", "aon,aon:order=0"],
    "eval": ["eval", *TINY, *TWICE, "--batch", "2"],
    "accumulate": ["accumulate", *TINY, *TWICE, "--batch", "2", "--micro-batches", "2"],
    "scale": ["scale", *TINY, *TWICE, "--widths", "", "--orders", "2,4", "--depths", "", "--batches", ""],
    "memory": ["memory", *TINY, "--batch", "2", "--no-resident"],
    "train": ["train", *TINY, "--batch", "4", "--train-size", "10", "--workers", "0", "--rounds", "1"],
}


def run(*args):
    return CliRunner().invoke(bench_app, list(args), catch_exceptions=False)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_leaves_a_record_and_prints_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*COMMANDS[name])
    assert result.exit_code == 0
    (path,) = (tmp_path / "results" / "bench").iterdir()
    found = record.load(path)
    assert found.bench == name == path.stem.partition("-")[0]
    assert found.environment["threads"] == 1 or name == "calls"
    assert found.command[0] == "aon"
    assert "ratio to" in result.output
    assert str(path.name) in result.output.replace("\n", "")


def test_out_chooses_the_place_and_what_follows_reads_it(tmp_path):
    path = tmp_path / "deep" / "mine.json"
    run(*COMMANDS["step"], "--out", str(path))
    assert path.exists()
    result = run("draw", str(path), "--out", str(tmp_path / "figures"))
    assert result.exit_code == 0
    assert sorted(p.name for p in (tmp_path / "figures").iterdir()) == ["mine.png", "mine.svg"]
    table = run("table", "--in", str(path.parent)).output
    assert table.startswith("| measure | target |")
    assert "## training step, resnet20 at width 0.25, batch 2" in table


def test_the_tables_go_into_two_documents(tmp_path):
    from aon.lab.bench.output.document import BEGIN, END

    run(*COMMANDS["step"], "--out", str(tmp_path / "records" / "mine.json"))
    documents = [tmp_path / "performance.md", tmp_path / "performance_tables.md"]
    for path in documents:
        path.write_text(f"{BEGIN}\n{END}\n")
    args = ("table", "--in", str(tmp_path / "records"), "--write", str(tmp_path))
    assert run(*args).output.count("changed") == 2
    assert "| measure | target |" in documents[0].read_text()
    assert "## training step" in documents[1].read_text()
    assert run(*args).output.count("already holds") == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["step", "--threads", "0"], "threads = 0: should be at least 1"),
        (["step", "--clock", "sun"], "clock = 'sun': expected wall or cpu"),
        (["step", "--rounds", "0"], "rounds = 0: should be at least 1"),
        (["step", "--batch", "0"], "batch = 0: should be at least 1"),
        (["step", "--network", "vgg"], "vgg"),
        (["map", "--variants", "nothing"], "no variant 'nothing'"),
        (["map", "--limit", "-1"], "limit = -1.0: expected a positive number of seconds"),
        (["scale", "--batches", "a,b"], "batches = 'a,b': expected numbers separated by commas"),
        (["scale", "--batches", "8"], r"batch = \[8\]: expected two or more"),
        (["train", "--batch", "0"], "batch_size"),
        (["all", "--batches", "some"], "batches = 'some': expected numbers separated by commas"),
        (["all", "--batches", ""], "batches = '': expected one or more numbers"),
        (["all", "--device", "cudas"], "device = 'cudas': expected auto, cpu, cuda"),
        (["draw"], "no benchmark was recorded in results/bench"),
    ],
)
def test_bad_words_are_refused_in_one_line(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError, match=message) as caught:
        run(*args)
    assert "\n" not in str(caught.value)


def test_all_leaves_a_record_of_each_benchmark_of_the_device(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("all", *TINY, *TWICE, "--batches", "2,3", "--device", "cpu")
    assert result.exit_code == 0
    found = {path.stem: record.load(path) for path in (tmp_path / "results" / "bench-cpu").iterdir()}
    benches = ["accumulate", "calls", "eval", "layout", "map", "step", "step", "step"]
    assert sorted(each.bench for each in found.values()) == benches
    assert {"step-2", "step-3", "step-quick"} <= set(found)
    assert all(result.output.replace("\n", "").count(f"{name}.json") == 1 for name in found)
    assert all(each.settings.get("device", "cpu") == "cpu" for each in found.values())


@pytest.mark.parametrize("name", [*COMMANDS, "all", "tried", "draw", "table"])
def test_help_has_an_example(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"aon bench {name}" in result.output
