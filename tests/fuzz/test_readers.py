"""A few hundred mutated inputs for each reader; AON_FUZZ_EXAMPLES sets another number."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.mutations import KINDS, WORDS, Mutation, mutated
from tests.fuzz.readers import READ, SEEDS

EXAMPLES = int(os.environ.get("AON_FUZZ_EXAMPLES", "150"))
# A command line is read in about 10 ms, the others in about 1.
SLOW = {"command-line values": 3, "image folders": 2}
PAYLOADS = st.sampled_from(WORDS) | st.binary(min_size=1, max_size=12)
CHANGES = st.builds(Mutation, st.sampled_from(KINDS), st.floats(0, 1, exclude_max=True), PAYLOADS)


@pytest.mark.parametrize("name", READ)
def test_whole_inputs_are_read(name):
    if name != "command-line values":  # its data are nowhere
        assert READ[name](SEEDS[name][0])


def test_the_weights_of_a_network_are_read_and_a_header_that_does_not_fit_is_refused():
    assert [READ["weights"](content) for content in SEEDS["weights"]] == [True, False, True]


@pytest.mark.parametrize("name", READ)
def test_a_mutated_input_is_read_or_refused_in_one_line(name, monkeypatch):
    monkeypatch.delenv("AON_DEBUG", raising=False)

    @settings(max_examples=EXAMPLES // SLOW.get(name, 1), suppress_health_check=list(HealthCheck))
    @given(seed=st.sampled_from(SEEDS[name]), changes=st.lists(CHANGES, min_size=1, max_size=5))
    def holds(seed, changes):
        READ[name](mutated(seed, changes))

    holds()


@pytest.mark.parametrize("name", READ)
def test_any_bytes_are_read_or_refused_in_one_line(name):
    @settings(max_examples=EXAMPLES // 3 // SLOW.get(name, 1), suppress_health_check=list(HealthCheck))
    @given(content=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
    def holds(content):
        READ[name](content)

    holds()
