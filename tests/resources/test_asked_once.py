"""The law of labels: whatever was edited, lost or killed, models are asked for what was not asked before.

Every table equals that of a fresh home. `LAW_EXAMPLES=50` looks at more sequences of edits than the suite does.
"""

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from label_world import NUMBERS, STAGES, Killed, World, row_of
from polars.testing import assert_frame_equal

from cpmi_dagster.contracts.keys import NEGATIVES, POLICY_ROLLOUTS
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.answers import questions

pytestmark = pytest.mark.slow

PHASES = [Phase.explicit, Phase.generate]
"""A sequence that breaks the law is shown as it was found: shorter ones would take minutes."""
EXAMPLES = int(os.environ.get("LAW_EXAMPLES", "3"))
ROUNDING = 1e-4
"""Of a sum over the tokens of an answer, which other rows share a pass with: 1e-5 a token in float32."""
PROFILE = {
    "shards": 2,
    "sources": {"trajectories": {"path": "./rows.jsonl"}, "references": []},
    "negatives": {"samples": 2, "count": 2},
    "rollouts": {"policy_count": 2},
    "rewards": {"types": ["cpmi", "mc"]},
    "recipes": [],
    "scoring": {"templates": 2, "chunk_trajectories": 1},
}
CHANGES = ["row", "code", "kill", "delete", "flip", "seed", "rewards.types", "scoring.conditionings"]
EDITS = st.tuples(st.sampled_from([*CHANGES, *NUMBERS]), st.integers(0, 10_000))


@hypothesis_settings(max_examples=EXAMPLES, phases=PHASES)
@given(st.lists(EDITS, min_size=3, max_size=6))
@example([("scoring.templates", 3), ("scoring.templates", 1), ("shards", 2)])
def test_models_are_asked_for_what_was_not_asked_before_and_tables_are_those_of_a_fresh_home(steps):
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        folder, score = Path(place), questions.tokenized_logprobs

        def run(world: World) -> list[str]:
            patch.setattr(questions, "tokenized_logprobs", partial(world.scored, score))
            return world.run()

        settings = load_settings("files", folder / "home", PROFILE, folder / "profile.yaml")
        world = World(folder, [row_of(number) for number in range(4)], settings)
        run(world)
        for what, value in steps:
            world.edit(what, value)
            try:
                run(world)
            except Killed:
                world.lives = 1000
                run(world)
        asked = [*world.asked]
        assert run(world) == [] and world.asked == asked, "what is current is made again"
        fresh = World(folder, world.rows, world.settings.model_copy(update={"home": folder / "fresh"}), world.code)
        run(fresh)
        assert {*world.asked} <= {*fresh.asked}, "nobody needs it"
        for key in (key for each in STAGES for key in each.tables):
            ours, theirs = world.lake.read(key), fresh.lake.read(key)
            assert_frame_equal(ours, theirs, rel_tol=0, abs_tol=ROUNDING)
        for key in (NEGATIVES, POLICY_ROLLOUTS):
            for shard in fresh.settings.shard_keys:
                ours, theirs = (home.lake.record(key, shard) for home in (world, fresh))
                if theirs:  # else no reward type asks for it
                    assert ours.cost["generated_tokens"] == theirs.cost["generated_tokens"]
