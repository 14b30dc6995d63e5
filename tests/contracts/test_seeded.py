"""Numbers drawn from a seed and ids stay what they are: homes that are done, and the printed figures, rest on them."""

from itertools import islice

import polars as pl

from cpmi_dagster.contracts.seeded import derived_seed, text_hash, uniform_number
from cpmi_dagster.generation.token_sampling import prompt_seed, uniform_numbers
from cpmi_dagster.negatives.hard_negatives import propose, trajectory_seed
from scripts.miniature_world.held_out import is_held_out


def test_seeds_hashes_and_draws_stay():
    assert derived_seed(0, []) == 1609362278
    assert derived_seed(1715, ["t000000000", "2"]) == 1464969805
    assert derived_seed(7, pl.Series(["1", "Ann has 3 hats."])) == 1282810929
    assert uniform_number(1715, ("t000000007", 3)) == 0.009740016102895765
    assert text_hash("2 + 3?", "2 + 3 = 5") == 5567548450906413266
    assert [prompt_seed(prompt, 7) for prompt in "ab"] == [1449851316, 2028071378]
    assert trajectory_seed(1715, "t000000007") == 142547474471314
    assert [proposal.answer for proposal in islice(propose("12", 7), 6)] == ["14", "13", "10", "11", "17", "22"]
    assert [letter for letter in "abcdefghijkl" if is_held_out(letter)] == ["d", "j", "l"]
    # these decide tokens
    drawn = uniform_numbers("How many √?", 1715, samples=1, limit=3)
    assert drawn.tolist() == [[0.47016584873199463, 0.7478781342506409, 0.029731452465057373]]
