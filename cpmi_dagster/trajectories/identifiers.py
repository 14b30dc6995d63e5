"""Names of trajectories and of shards (`000`, `001`, …); a question's trajectories are in one shard."""

GIVEN = "given"
"""Match kind and source of gold answers that come with the trajectories."""


def shard_name(number: int) -> str:
    """Partition key of a shard: 3 is `003`."""
    return f"{number:03d}"


def shard_key(question_id: str, shards: int) -> str:
    """Partition key of the shard of a question, whose id is a hexadecimal hash."""
    return shard_name(int(question_id, 16) % shards)


TRAJECTORY_ID = r"^t[0-9]{9,18}$"
"""Pattern of `name_trajectory`."""


def name_trajectory(row_number: int) -> str:
    """`t000000042` for row 42 of the source."""
    return f"t{row_number:09d}"
